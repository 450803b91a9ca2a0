//! A thread, captured: its registers, and the frames of its stack.

use std::ops::Range;

use super::identity::{CaptureEpoch, is_known};
use super::memory::{LiveMemory, Memory, StackCopies, StackCopy};
use super::registers::{Arch, Registers};
use super::stack::FrameBuffer;
use super::table::{ImageTable, ImagesGuard};
use super::tasks::{FoundChains, ReleasedThread};
use super::unwind::{Unwinder, Walk};
use crate::platform::clock::monotonic as now;
use crate::platform::gauge::Blocked;
use crate::platform::stop::{StopBudget, StopError, Stopper};
use crate::platform::threads::ThreadProgress;
use crate::platform::{SystemError, Thread, context, memory};
use crate::report::model::{Omitted, RawChains, RawFrame, WalkEnd};

/// Limits on the cost of one capture.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CaptureLimits {
    /// Bytes of stack that are copied at most; reserved at creation, and the first 64 KiB touched.
    pub stack: usize,
    /// Innermost frames that are kept if a stack has too many.
    pub innermost: usize,
    /// Outermost frames that are kept then.
    pub outermost: usize,
    /// A copy that takes longer is cut short, nanoseconds.
    pub stopped: u64,
    /// A thread that has not answered after this long is unresponsive, nanoseconds. One whose mask blocks all that it
    /// could be asked by is known sooner.
    pub answer: u64,
    /// The real-time signal to use; the first free one where `None`. The first capturer of a
    /// process decides.
    pub signal: Option<i32>,
}

impl Default for CaptureLimits {
    /// 1 MiB of stack, 448 + 64 frames, 1 ms stopped, 100 ms for an answer.
    fn default() -> CaptureLimits {
        CaptureLimits {
            stack: 1 << 20,
            innermost: 448,
            outermost: 64,
            stopped: 1_000_000,
            answer: 100_000_000,
            signal: None,
        }
    }
}

/// Captures threads, one at a time. Each capturing thread has one of its own, made at install:
/// from then on nothing here allocates, takes a lock, or depends on what the captured thread holds.
#[derive(Debug)]
pub struct Capturer {
    stopper: Stopper,
    budget: StopBudget,
    unwinder: Unwinder,
    live: LiveMemory,
    registers: Registers,
    frames: FrameBuffer,
    tasks: FoundChains,
    /// The thread whose frames were read last as it was blocked, and where they end, if they do not lead to its root.
    incomplete: Option<(Thread, WalkEnd)>,
    /// The main thread's stack, which never moves. No other thread's is certain: its id may have been given to another
    /// thread since, so those stacks are copied by checked reads.
    main_stack: Range<u64>,
}

/// The result of a capture.
#[derive(Debug)]
#[non_exhaustive]
pub struct Captured<'a> {
    /// The registers of the first frame.
    pub registers: &'a Registers,
    /// The frames, innermost first; [`RawFrame::image`] is an index into [`ImagesGuard::images`].
    pub frames: &'a [RawFrame],
    /// The callers that await the functions of these frames.
    pub tasks: RawChains<'a>,
    /// Place and count of the frames that did not fit.
    pub omitted: Option<Omitted>,
    /// The reason why the walk ended.
    pub end: WalkEnd,
    /// Time for which the thread was stopped, nanoseconds; 0 if it was not.
    pub stopped: u64,
    /// Time spent unwinding, nanoseconds.
    pub unwind: u64,
    /// Bytes of stack that were copied; 0 where it was read in place.
    pub bytes: u64,
    /// True if the copy was cut short, because room or time ran out.
    pub cut: bool,
}

impl Capturer {
    /// Reserves all that captures need. Not signal-safe.
    ///
    /// # Errors
    /// Where memory cannot be mapped, the signal's handler cannot be installed, or a process makes
    /// more than 32 capturers.
    pub fn new(limits: &CaptureLimits) -> Result<Capturer, SystemError> {
        Ok(Capturer {
            stopper: Stopper::new(limits.stack, limits.signal)?,
            budget: StopBudget {
                stopped: limits.stopped,
                answer: limits.answer,
            },
            unwinder: Unwinder::new(),
            live: LiveMemory::new(),
            registers: Registers::native([0; super::registers::COUNT]),
            frames: FrameBuffer::new(limits.innermost, limits.outermost),
            tasks: FoundChains::new(),
            incomplete: None,
            main_stack: memory::main_stack().unwrap_or(0..0),
        })
    }

    /// Stops another thread, copies its registers and its stack, lets it go, and unwinds the copy.
    /// Signal-safe.
    ///
    /// # Errors
    /// See [`StopError`]; the thread is not stopped then.
    pub fn capture(
        &mut self,
        thread: Thread,
        images: &ImagesGuard,
    ) -> Result<Captured<'_>, StopError> {
        self.capture_with(thread, images, |_| None)
            .map(|(captured, _)| captured)
    }

    /// As [`Capturer::capture`]; where a frame is of no image that is known, its library may have been
    /// loaded since the images were listed. If `renew` then returns `true`, as they have been listed anew, the
    /// same copy is unwound once more, and `images` are those of now. Signal-safe, if `renew` is; the
    /// thread runs again when it is called.
    ///
    /// # Errors
    /// As for [`Capturer::capture`].
    pub fn capture_renewing(
        &mut self,
        thread: Thread,
        images: &mut ImagesGuard,
        renew: impl FnOnce() -> bool,
    ) -> Result<Captured<'_>, StopError> {
        let renew =
            |frames: &[RawFrame]| (!frames.iter().all(is_known) && renew()).then(ImageTable::enter);
        let (captured, renewed) = self.capture_with(thread, images, renew)?;
        if let Some(renewed) = renewed {
            *images = renewed;
        }
        Ok(captured)
    }

    fn capture_with(
        &mut self,
        thread: Thread,
        images: &ImagesGuard,
        renew: impl FnOnce(&[RawFrame]) -> Option<ImagesGuard>,
    ) -> Result<(Captured<'_>, Option<ImagesGuard>), StopError> {
        let known = if thread.is_main() {
            self.main_stack.clone()
        } else {
            0..0
        };
        let copied = self.stopper.stop(thread, known, &self.budget)?;
        let taken = CaptureEpoch::now(images.set());
        self.registers = Registers::native(*copied.registers);
        let (base, interrupted) = copied.interrupted;
        let mut copy = StackCopies {
            inner: StackCopy::new(copied.base, copied.stack),
            interrupted: StackCopy::new(base, interrupted),
        };
        let mut unwind = 0;
        let tasks = &mut self.tasks;
        let mut walk = |frames: &mut FrameBuffer, images: &ImagesGuard| {
            let start = now();
            let mut walk = self.unwinder.walk(&self.registers, images.set(), copy);
            let end = fill_frames(frames, tasks, &mut walk, images, taken);
            let release = ReleasedThread {
                at: copied.released_at,
                copy: &mut copy,
            };
            tasks.read(&self.registers, images.set(), Some(release));
            unwind = now().saturating_sub(start).saturating_add(unwind);
            end
        };
        let mut end = walk(&mut self.frames, images);
        let renewed = renew(self.frames.frames());
        if let Some(images) = &renewed {
            end = walk(&mut self.frames, images);
        }
        let captured = Captured {
            registers: &self.registers,
            frames: self.frames.frames(),
            tasks: self.tasks.chains(),
            omitted: self.frames.omitted(),
            end,
            stopped: copied.stopped,
            unwind,
            bytes: copied.stack.len().saturating_add(interrupted.len()) as u64,
            cut: copied.cut,
        };
        Ok((captured, renewed))
    }

    /// The stack of a thread that is blocked, read while it stays so: it is neither stopped nor sent
    /// a signal. `None` where it runs, has run meanwhile, or where a frame on the way to its root needs a register that
    /// the kernel does not give, and its function's instructions do not make up for that. Signal-safe.
    ///
    /// A stack that lies still is the same at the end of the reading as it was when `before` was read, if the
    /// thread has had no CPU between.
    pub fn capture_blocked(
        &mut self,
        thread: Thread,
        before: Option<ThreadProgress>,
        images: &ImagesGuard,
    ) -> Option<Captured<'_>> {
        self.incomplete = None;
        let before = before.filter(|progress| !progress.running)?;
        let at = Blocked::of(thread)?;
        let (start, taken) = (now(), CaptureEpoch::now(images.set()));
        self.registers = Registers::new(Arch::NATIVE);
        self.registers.set_frame(at.pc, at.sp, 0);
        self.live.forget();
        let mut walk = self
            .unwinder
            .walk_known(&self.registers, 0, images.set(), &mut self.live);
        let end = fill_frames(&mut self.frames, &mut self.tasks, &mut walk, images, taken);
        let lacked = walk.lacked;
        self.tasks.read(&self.registers, images.set(), None);
        if thread.progress() != Some(before) {
            return None;
        }
        if lacked {
            self.incomplete = Some((thread, end));
            return None;
        }
        Some(self.captured_in_place(end, start))
    }

    /// For a thread that was to be stopped then, and did not answer: what [`Capturer::capture_blocked`] has read of it
    /// just before. Frames that need registers which the kernel does not give are guesses there, or missing.
    /// Signal-safe.
    pub fn capture_unanswered(&mut self, thread: Thread) -> Option<Captured<'_>> {
        let (_, end) = self.incomplete.take_if(|(of, _)| *of == thread)?;
        Some(self.captured_in_place(end, now()))
    }

    /// Captures the calling thread: its first frame is the caller of this function. Signal-safe.
    #[inline(never)]
    pub fn capture_here(&mut self, images: &ImagesGuard) -> Captured<'_> {
        let here = Registers::native(context::current_registers());
        self.live.forget();
        let mut walk = self.unwinder.walk(&here, images.set(), &mut self.live);
        // This function itself, then its caller.
        walk.next();
        let caller = walk.next().map(|_| (walk.registers(), false));
        let (registers, at_pc) = caller.unwrap_or((here, true));
        self.walk_in_place(&registers, images, at_pc)
    }

    /// Unwinds in place from the registers that a signal handler was given, every read checked.
    /// Signal-safe.
    pub fn capture_context(&mut self, context: &Registers, images: &ImagesGuard) -> Captured<'_> {
        self.walk_in_place(context, images, true)
    }

    /// As [`Capturer::capture_context`]; where a frame is of no image that is known, as
    /// [`Capturer::capture_renewing`], if it is of one then.
    pub fn capture_context_renewing(
        &mut self,
        context: &Registers,
        images: &mut ImagesGuard,
        renew: impl FnOnce() -> bool,
    ) -> Captured<'_> {
        let (mut end, mut start) = self.walk_live(context, images, true);
        if self.unknown().next().is_some() && renew() {
            let renewed = ImageTable::enter();
            let is_found = |pc| renewed.at(pc).is_some_and(|image| !image.is_gone());
            // Code that the process makes for itself is in none.
            if self.unknown().any(is_found) {
                *images = renewed;
                (end, start) = self.walk_live(context, images, true);
            }
        }
        self.captured_in_place(end, start)
    }

    /// Addresses of the frames that are of no image that is known.
    fn unknown(&self) -> impl Iterator<Item = u64> {
        let frames = self.frames.frames().iter();
        frames
            .filter(|frame| !is_known(frame))
            .map(|frame| frame.pc)
    }

    fn walk_in_place(
        &mut self,
        registers: &Registers,
        images: &ImagesGuard,
        at_pc: bool,
    ) -> Captured<'_> {
        let (end, start) = self.walk_live(registers, images, at_pc);
        self.captured_in_place(end, start)
    }

    /// Returns why the walk ended, and the time at which it began.
    fn walk_live(
        &mut self,
        registers: &Registers,
        images: &ImagesGuard,
        at_pc: bool,
    ) -> (WalkEnd, u64) {
        let (start, taken) = (now(), CaptureEpoch::now(images.set()));
        self.registers = *registers;
        self.live.forget();
        let (set, live) = (images.set(), &mut self.live);
        let mut walk = if at_pc {
            self.unwinder.walk(registers, set, live)
        } else {
            self.unwinder.walk_from_call(registers, set, live)
        };
        let end = fill_frames(&mut self.frames, &mut self.tasks, &mut walk, images, taken);
        self.tasks.read(&self.registers, images.set(), None);
        (end, start)
    }

    /// The capture of a stack that was read in place, without a copy, since `start` (monotonic, nanoseconds).
    #[inline(never)]
    fn captured_in_place(&self, end: WalkEnd, start: u64) -> Captured<'_> {
        Captured {
            registers: &self.registers,
            frames: self.frames.frames(),
            tasks: self.tasks.chains(),
            omitted: self.frames.omitted(),
            end,
            stopped: 0,
            unwind: now().saturating_sub(start),
            bytes: 0,
            cut: false,
        }
    }
}

/// Takes all frames of a walk but those of images that are gone, and gives why it ended. Signal-safe.
fn fill_frames<M: Memory>(
    frames: &mut FrameBuffer,
    tasks: &mut FoundChains,
    walk: &mut Walk<'_, M>,
    images: &ImagesGuard,
    taken: CaptureEpoch,
) -> WalkEnd {
    tasks.clear();
    let mut left = 0usize;
    frames.fill(std::iter::from_fn(|| {
        let next = walk.next();
        if let Some(frame) = walk.task.take() {
            tasks.add(left.saturating_sub(1), frame);
        }
        left = left.saturating_add(1);
        next
    }));
    let end = walk.end().unwrap_or(WalkEnd::Limit);
    if let Some(omitted) = frames.omitted() {
        tasks.without(omitted);
    }
    let gone = drop_gone(frames, images, taken);
    (frames.frames_mut().iter_mut()).for_each(|frame| images.set().identify(frame, taken));
    tasks.truncate(frames.frames().len());
    gone.unwrap_or(end)
}

/// A library that was loaded after the images were listed may lie where another one was: the image of
/// the first such frame is taken back, and with it the frames behind. Signal-safe.
///
/// A thread that leaves a library which is then unloaded, all between its stop and this look, loses
/// those frames too: they are left out rather than given wrongly.
fn drop_gone(
    frames: &mut FrameBuffer,
    images: &ImagesGuard,
    taken: CaptureEpoch,
) -> Option<WalkEnd> {
    // `NO_IMAGE` needs no look either.
    let mut looked_at = [RawFrame::NO_IMAGE; 8];
    let gone = frames.frames().iter().position(|frame| {
        if looked_at.contains(&frame.image) {
            return false;
        }
        looked_at.rotate_right(1);
        looked_at[0] = frame.image;
        let image = images.images().get(frame.image as usize);
        let is_gone = image.is_some_and(|image| image.is_gone());
        is_gone || !images.set().is_certain(frame, taken)
    })?;
    frames.mark_unknown(gone);
    Some(WalkEnd::NoUnwindInfo)
}
