//! What the instructions of a function say of its stack, where unwind information does not.
//!
//! Two questions, both about x86_64: how deep a function is in its frame, by what it did since its
//! beginning; and where its return address lies, by what it will do until it returns.

use crate::capture::images::{Images, LoadedImage};
use crate::capture::instructions::{Effect, decode};
use crate::capture::memory::Memory;
use crate::capture::registers::Arch;

use super::calls::is_behind_call;

/// The longest instruction, bytes.
const LONGEST: usize = 15;

/// How many instructions are looked at: from a function's beginning, and until its return.
const BEFORE: usize = 8192;
const BEHIND: usize = 512;

/// Where a branch from before arrives.
#[derive(Clone, Copy)]
struct Arrival {
    at: u64,
    depth: Depth,
}

/// How far below the CFA the registers are, as far as that is known.
#[derive(Clone, Copy)]
struct Depth {
    sp: Option<i64>,
    fp: Option<i64>,
}

/// The CFA of a function that was entered by a call to `start` and stands at `pc`, from its stack
/// pointer; checked by what then is its return address. Signal-safe.
pub(super) fn cfa_at<M: Memory>(
    images: &Images,
    image: &LoadedImage,
    (start, pc, sp): (u64, u64, u64),
    memory: &mut M,
) -> Option<u64> {
    let cfa = sp.checked_add_signed(depth_at(image, start, pc)?)?;
    let return_address = memory.read(cfa.checked_sub(8)?).ok()?;
    is_behind_call(images, Arch::X86_64, return_address).then_some(cfa)
}

/// Reads a function from its beginning, in the order in which it lies in memory; behind a jump it
/// goes on with what a branch from before brings there, or else with what held at the first call.
fn depth_at(image: &LoadedImage, start: u64, pc: u64) -> Option<i64> {
    let entered = Depth {
        sp: Some(8),
        fp: None,
    };
    let mut arrivals = [Arrival {
        at: 0,
        depth: entered,
    }; 32];
    let mut next_arrival = 0;
    let mut body = None;
    let mut deepest = entered;
    let mut now = Some(entered);
    let mut at = start;
    for _ in 0..BEFORE {
        let depth = now.unwrap_or_else(|| {
            let arrival = arrivals.iter().find(|arrival| arrival.at == at);
            arrival.map_or(body.unwrap_or(deepest), |arrival| arrival.depth)
        });
        if at >= pc {
            return depth.sp.filter(|_| at == pc);
        }
        let (length, effect) = decode(image.instructions(at, LONGEST)?)?;
        at = at.checked_add(length as u64)?;
        if let Effect::Branch(by) | Effect::Jump(Some(by)) = effect
            && by > 0
            && let Some(slot) = arrivals.get_mut(next_arrival % 32)
        {
            *slot = Arrival {
                at: at.checked_add_signed(by)?,
                depth,
            };
            next_arrival = next_arrival.wrapping_add(1);
        }
        if effect == Effect::Call && body.is_none() {
            body = Some(depth);
        }
        now = depth.behind(effect);
        if let Some(depth) = now
            && depth.sp > deepest.sp
        {
            deepest = depth;
        }
    }
    None
}

impl Depth {
    /// `None` where what follows is not run next.
    fn behind(self, effect: Effect) -> Option<Depth> {
        let Depth { sp, fp } = self;
        let less = |depth: Option<i64>, by: i64| depth?.checked_sub(by);
        let (sp, fp) = match effect {
            Effect::None | Effect::Call | Effect::Branch(_) => (sp, fp),
            Effect::Push { .. } => (less(sp, -8), fp),
            Effect::Pop { frame } => (less(sp, 8), fp.filter(|_| !frame)),
            Effect::Move(by) => (less(sp, by), fp),
            Effect::FrameFromStack(by) => (sp, less(sp, by)),
            Effect::StackFromFrame(by) => (less(fp, by), fp),
            Effect::Leave => (less(fp, 8), None),
            Effect::LosesStack => (None, fp),
            Effect::LosesFrame => (sp, None),
            Effect::Return | Effect::Jump(_) | Effect::Stop => return None,
        };
        Some(Depth { sp, fp })
    }
}

/// How code will return.
pub(super) struct Return {
    /// Where its return address lies.
    pub(super) slot: u64,
    /// The caller's frame pointer.
    pub(super) fp: Option<u64>,
    /// Whether it has other registers to restore.
    pub(super) pops: bool,
}

/// Follows code from `pc` to its return, taking no branch and stepping over calls. Signal-safe.
pub(super) fn to_return<M: Memory>(
    images: &Images,
    (pc, mut sp, fp): (u64, u64, u64),
    memory: &mut M,
) -> Option<Return> {
    let image = images.get(images.find(pc)?)?;
    let mut fp = Some(fp);
    let mut pushed = None;
    let mut pops = false;
    let mut at = pc;
    for _ in 0..BEHIND {
        let (length, effect) = decode(image.instructions(at, LONGEST)?)?;
        at = at.checked_add(length as u64)?;
        let mut pop = |from: u64| match pushed {
            Some((slot, value)) if slot == from => value,
            _ => memory.read(from).ok(),
        };
        match effect {
            Effect::None | Effect::Call | Effect::Branch(_) => {}
            Effect::Push { frame } => {
                sp = sp.checked_sub(8)?;
                if frame {
                    pushed = Some((sp, fp));
                }
            }
            Effect::Pop { frame } => {
                if frame {
                    fp = pop(sp);
                }
                pops |= !frame;
                sp = sp.checked_add(8)?;
            }
            Effect::Move(by) => sp = sp.checked_add_signed(by)?,
            Effect::FrameFromStack(by) => fp = sp.checked_add_signed(by),
            Effect::StackFromFrame(by) => sp = fp?.checked_add_signed(by)?,
            Effect::Leave => {
                let frame = fp?;
                fp = pop(frame);
                sp = frame.checked_add(8)?;
            }
            Effect::LosesFrame => fp = None,
            Effect::Jump(Some(by)) => at = at.checked_add_signed(by)?,
            // To another function, in whose stead this one's caller is returned to.
            Effect::Return | Effect::Jump(None) => return Some(Return { slot: sp, fp, pops }),
            Effect::Stop | Effect::LosesStack => return None,
        }
    }
    None
}
