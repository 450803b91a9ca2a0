//! The slots that stoppers and handlers share. One atomic word decides which of the two owns a slot's request.

use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use super::super::context::REGISTERS;
use crate::platform::Thread;

/// Most stoppers of a process at a time.
const MAX_SLOTS: usize = 32;

/// A piece of a stack that was copied.
#[derive(Debug, Clone, Copy)]
pub(super) struct StackPart {
    /// Offset in the request's memory.
    pub(super) at: usize,
    /// Address of these bytes in memory.
    pub(super) base: u64,
    pub(super) bytes: usize,
}

impl StackPart {
    pub(super) const NONE: StackPart = StackPart {
        at: 0,
        base: 0,
        bytes: 0,
    };
}

/// The memory that a handler fills. It belongs to the handler while the slot is `COPYING`, else to the stopper.
pub(super) struct CaptureRequest {
    pub(super) into: *mut u8,
    pub(super) room: usize,
    pub(super) known: Range<u64>,
    pub(super) budget: u64,
    pub(super) registers: [u64; REGISTERS],
    pub(super) parts: [StackPart; 2],
    pub(super) stopped: u64,
    /// The time at which the copy was whole.
    pub(super) released_at: u64,
    pub(super) cut: bool,
}

#[repr(align(64))]
pub(super) struct CaptureSlot {
    /// Generation << [`GENERATION_SHIFT`] | phase.
    pub(super) state: AtomicU64,
    /// Id of the thread that was asked last; 0 if there is none.
    pub(super) thread: AtomicI32,
    pub(super) request: UnsafeCell<CaptureRequest>,
}

// SAFETY: `request` is handed back and forth by `state`, see `CaptureRequest`.
unsafe impl Sync for CaptureSlot {}

pub(super) const FREE: u64 = 0;
pub(super) const IDLE: u64 = 1;
pub(super) const REQUESTED: u64 = 2;
/// The handler owns the request.
pub(super) const COPYING: u64 = 3;
pub(super) const DONE: u64 = 4;
/// The thread cannot run the handler.
pub(super) const REFUSED: u64 = 5;
/// Mask of the phase in a state.
pub(super) const PHASE_MASK: u64 = 7;
/// Shift of the generation in a state.
pub(super) const GENERATION_SHIFT: u32 = 3;

pub(super) static SLOTS: [CaptureSlot; MAX_SLOTS] = [const {
    CaptureSlot {
        state: AtomicU64::new(FREE),
        thread: AtomicI32::new(0),
        request: UnsafeCell::new(CaptureRequest {
            into: std::ptr::null_mut(),
            room: 0,
            known: 0..0,
            budget: 0,
            registers: [0; REGISTERS],
            parts: [StackPart::NONE; 2],
            stopped: 0,
            released_at: 0,
            cut: false,
        }),
    }
}; MAX_SLOTS];

/// The slot with this number, which is below [`MAX_SLOTS`]; the first one for any other. Signal-safe.
pub(super) fn at(number: usize) -> &'static CaptureSlot {
    let [first, ..] = &SLOTS;
    SLOTS.get(number).unwrap_or(first)
}

impl CaptureSlot {
    /// Moves the request of this generation from one phase to the next; false if it is in another one. Signal-safe.
    pub(super) fn try_move(&self, generation: u64, from: u64, to: u64) -> bool {
        let [from, to] = [from, to].map(|phase| generation << GENERATION_SHIFT | phase);
        let (order, or) = (Ordering::AcqRel, Ordering::Acquire);
        self.state.compare_exchange(from, to, order, or).is_ok()
    }

    /// The phase of the request. Signal-safe.
    pub(super) fn phase(&self) -> u64 {
        self.state.load(Ordering::Acquire) & PHASE_MASK
    }
}

/// Returns the slot in which the calling thread is asked, and the request's generation. Signal-safe.
pub(super) fn request_to_this_thread() -> Option<(&'static CaptureSlot, u64)> {
    let this = Thread::current().tid();
    // Stoppers take the first free slot: after one whose generation is still 0 no slot is in use.
    let is_used = |slot: &&CaptureSlot| slot.state.load(Ordering::Relaxed) != FREE;
    SLOTS.iter().take_while(is_used).find_map(|slot| {
        // The state is read first: a request to another thread withdraws the last one before it writes the thread.
        let state = slot.state.load(Ordering::Acquire);
        let is_requested =
            state & PHASE_MASK == REQUESTED && slot.thread.load(Ordering::Acquire) == this;
        is_requested.then_some((slot, state >> GENERATION_SHIFT))
    })
}
