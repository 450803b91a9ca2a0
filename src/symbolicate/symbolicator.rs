//! Reports in, names out.

use std::time::{Duration, Instant};

use rustc_hash::FxHashSet;

use super::blame::{is_kernels, trap};
use super::debug_files::DebugFiles;
use super::frame::{
    Awaiting, MissingFile, PhysicalFrame, Stack, Symbolicated, Unread, image_file_name, is_system,
};
use super::gathered::{Answers, GatheredLookups, WantedAddresses};
use super::pc::Pc;
use super::recorded::Recorded;
use super::samples::in_full;
use super::tail_calls::{KnownTailCallers, TailCallers};
use crate::report::model::{self, AsyncChain, Image, ImageIndex, Report, Thread};
use crate::report::{Found, Reading};

/// Names the frames of reports by a set of [`DebugFiles`]. `Send + Sync`; files are opened when a
/// frame first points into them.
///
/// ```no_run
/// use wedjat::symbolicate::{DebugFiles, Symbolicator};
///
/// let mut files = DebugFiles::new();
/// files.add("MyApp.dSYM".as_ref())?;
/// let symbolicator = Symbolicator::new(files);
/// let bytes = std::fs::read("stall.wedjat")?;
/// let report = symbolicator.symbolicate_reading(wedjat::report::read(&bytes)?);
/// for stack in &report.threads {
///     for frame in stack.frames.iter().flat_map(|physical| physical.frames.iter()) {
///         println!("{:?} {:?}:{:?}", frame.function, frame.file, frame.line);
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Symbolicator {
    files: DebugFiles,
    tail_callers: KnownTailCallers,
    time_limit: Option<Duration>,
}

impl Symbolicator {
    /// A symbolicator over these files.
    pub fn new(files: DebugFiles) -> Symbolicator {
        Symbolicator {
            files,
            tail_callers: KnownTailCallers::default(),
            time_limit: None,
        }
    }

    /// Sets the time that one report may take; no limit by default. Frames that are reached later are not looked
    /// up, and [`Symbolicated::damage`] says how many. A look-up that was begun is not broken off: each is
    /// bounded by the debug file, whose size [`DebugFiles::max_size`] bounds.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Symbolicator {
        self.time_limit = Some(limit);
        self
    }

    /// The files it looks in.
    pub fn files(&self) -> &DebugFiles {
        &self.files
    }

    /// Names every frame of what [`report::read`](crate::report::read) gave, and passes on what it
    /// found damaged.
    pub fn symbolicate_reading(&self, reading: Reading) -> Symbolicated {
        self.symbolicate_gathered(reading, &GatheredLookups::default())
    }

    /// The same, with answers that were looked up before.
    pub(crate) fn symbolicate_gathered(
        &self,
        reading: Reading,
        gathered: &GatheredLookups,
    ) -> Symbolicated {
        let mut damage: Vec<String> = reading.damage.iter().map(ToString::to_string).collect();
        let mut symbolicated = self.symbolicate_with(reading.report, gathered);
        damage.append(&mut symbolicated.damage);
        Symbolicated {
            damage,
            ..symbolicated
        }
    }

    /// Names every frame of several reports, in their order. The debug files of each image are opened once for all of
    /// them, so that reports over many more images than fit into memory (see [`DebugFiles::limit`]) take no more time than
    /// others. All answers are in memory at a time: a thousand reports of a hundred frames take some 50 MB.
    pub fn symbolicate_all(&self, reports: Vec<Report>) -> Vec<Symbolicated> {
        let mut wanted = WantedAddresses::default();
        if self.gathers() {
            reports.iter().for_each(|report| wanted.add(report));
        }
        let images = 0..wanted.images();
        let gathered = images
            .map(|image| wanted.find(&self.files, image))
            .collect();
        let reports = reports.into_iter();
        reports
            .map(|report| self.symbolicate_with(report, &gathered))
            .collect()
    }

    /// Returns true if addresses may be looked up for several reports at once: the time of each is not limited.
    pub(crate) fn gathers(&self) -> bool {
        self.time_limit.is_none()
    }

    /// Names every frame of a report, in all its threads and samples.
    pub fn symbolicate(&self, report: Report) -> Symbolicated {
        self.symbolicate_with(report, &GatheredLookups::default())
    }

    fn symbolicate_with(&self, report: Report, gathered: &GatheredLookups) -> Symbolicated {
        let limit = self.time_limit;
        let mut run = ReportRun {
            symbolicator: self,
            gathered,
            report: &report,
            images: vec![None; report.images.len()],
            by_address: ImageIndex::new(&report.images),
            callers: MAX_CALLERS,
            deadline: limit.and_then(|limit| Instant::now().checked_add(limit)),
            late: 0,
        };
        let threads = report.threads.iter();
        let threads = threads.map(|thread| run.stack(thread, None)).collect();
        let full = in_full(&report);
        let mut samples: Vec<Stack> = Vec::with_capacity(full.len());
        for (index, thread) in full.iter().enumerate() {
            let before = index.checked_sub(1).map(|at| &full[at]);
            samples.push(run.stack(thread, before.zip(samples.last())));
        }
        let missing = run.missing();
        let late = (run.late > 0).then(|| {
            let count = run.late;
            format!("the time for this report was up: {count} frames were not looked up")
        });
        let mut symbolicated = Symbolicated {
            damage: late.into_iter().collect(),
            threads,
            samples,
            missing,
            report,
            known_owners: Default::default(),
        };
        give_reason(&mut symbolicated);
        symbolicated
    }
}

/// Takes the reason of a trap from the pseudo-function that the compiler put there: in optimized Swift it is nowhere else.
fn give_reason(of: &mut Symbolicated) {
    let crashed = of.report.threads.iter().position(|thread| thread.crashed);
    let reason = crashed.and_then(|at| trap(of.threads.get(at)?));
    let event = of.report.event.as_mut();
    let event = event.filter(|event| event.reason.as_deref().is_none_or(is_kernels));
    if let (Some(event), Some(reason)) = (event, reason) {
        event.reason = Some(reason.to_string());
    }
}

/// Most async callers of a report that are looked up. An honest report has fewer.
const MAX_CALLERS: usize = 1 << 16;

/// One report being worked on.
struct ReportRun<'a> {
    symbolicator: &'a Symbolicator,
    gathered: &'a GatheredLookups,
    report: &'a Report,
    /// The answers in each image that a frame has pointed into.
    images: Vec<Option<Option<Answers>>>,
    by_address: ImageIndex,
    /// Number of async callers that may still be looked up.
    callers: usize,
    deadline: Option<Instant>,
    /// Frames that were reached behind it.
    late: u64,
}

impl ReportRun<'_> {
    /// The stack of a thread; of a sample its outermost frames are those of the one `before`, as far as they are the same.
    fn stack(&mut self, thread: &Thread, before: Option<(&Thread, &Stack)>) -> Stack {
        let same = before.map_or(0, |(before, _)| {
            let pairs = thread.frames.iter().rev().zip(before.frames.iter().rev());
            pairs.take_while(|(frame, before)| frame == before).count()
        });
        let (count, recorded) = (thread.frames.len(), Recorded::new(thread));
        let mut frames = Vec::with_capacity(count);
        let mut calls = Vec::with_capacity(count);
        // And the one that called the last of its own.
        for (index, frame) in thread.frames.iter().enumerate().take(count - same + 1) {
            let (frame, called) = self.frame(thread, &recorded, index, frame);
            calls.push(called);
            frames.push(frame);
        }
        if let Some((_, before)) = before {
            frames.truncate(count - same);
            frames.extend_from_slice(&before.frames[before.frames.len() - same..]);
        }
        for (at, called) in calls.into_iter().enumerate().skip(1) {
            if let Some(called) = called
                && let [.., callee, caller] = &mut frames[..=at]
            {
                callee.tail_callers = self.tail_callers(callee, caller, called);
            }
        }
        Stack {
            tasks: self.tasks(thread, frames.len()),
            frames,
            omitted: thread.omitted,
        }
    }

    fn is_late(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// The functions between two frames of a stack, the outer one of which called the function at `called`.
    fn tail_callers(
        &self,
        callee: &PhysicalFrame,
        caller: &PhysicalFrame,
        called: u64,
    ) -> TailCallers {
        let entry = callee.svma?.checked_sub(callee.offset?)?;
        let is_called = caller.found != Found::Context && caller.image == callee.image;
        if entry == called || !is_called || self.is_late() {
            return None;
        }
        let image = self.report.images.get(callee.image? as usize)?;
        let build = self.report.head.os.build.as_deref();
        let known = &self.symbolicator.tail_callers;
        known.find(&self.symbolicator.files, image, build, (called, entry))
    }

    /// The callers that await functions of a thread's frames.
    fn tasks(&mut self, thread: &Thread, frames: usize) -> Vec<Awaiting> {
        let chains = thread.tasks.iter();
        let mut chains: Vec<_> = chains.filter(|chain| chain.frame < frames as u64).collect();
        chains.sort_by_key(|chain| chain.frame);
        chains.dedup_by_key(|chain| chain.frame);
        let awaiting = chains.into_iter().map(|chain| Awaiting {
            frame: chain.frame as usize,
            callers: self.callers(chain),
            end: chain.end,
        });
        awaiting.collect()
    }

    /// The callers of a chain. They resume at the beginning of a function: the address is looked up as it is.
    fn callers(&mut self, chain: &AsyncChain) -> Vec<PhysicalFrame> {
        let callers = chain.callers.iter().take(self.callers);
        let frames = callers.map(|&pc| model::Frame {
            pc,
            found: Found::Context,
            image: self.by_address.at(pc),
            name: None,
        });
        let thread = Thread {
            frames: frames.collect(),
            ..Thread::default()
        };
        self.callers -= thread.frames.len();
        let recorded = Recorded::new(&thread);
        let frames = thread.frames.iter().enumerate();
        frames
            .map(|(index, frame)| self.frame(&thread, &recorded, index, frame).0)
            .collect()
    }

    /// A frame with names, and the function that is called there.
    fn frame(
        &mut self,
        thread: &Thread,
        recorded: &Recorded<'_>,
        index: usize,
        frame: &model::Frame,
    ) -> (PhysicalFrame, Option<u64>) {
        let physical = |image, svma, offset, frames| PhysicalFrame {
            pc: frame.pc,
            found: frame.found,
            image,
            svma,
            offset,
            frames,
            tail_callers: None,
        };
        let offset = || recorded.offset(index);
        let recorded = || recorded.frames(index);
        let images = &self.report.images;
        let image = frame.image.and_then(|at| images.get(at as usize));
        let pc = Pc::of_frame(self.report, thread, index);
        let (Some(at), Some(image), Some(pc)) = (frame.image, image, pc) else {
            return (physical(None, None, offset(), recorded()), None);
        };
        if self.is_late() {
            self.late += 1;
            return (physical(Some(at), None, offset(), recorded()), None);
        }
        let build = self.report.head.os.build.as_deref();
        let (all, gathered) = (&self.symbolicator.files, self.gathered);
        let find = || Answers::find(gathered, all, image, build);
        let answers = self.images[at as usize].get_or_insert_with(find).as_ref();
        let base = answers.map_or(image.base_svma, |answers| answers.base_of(image.base_svma));
        let svma = |avma: u64| avma.wrapping_sub(image.base).wrapping_add(base);
        let own = svma(frame.pc);
        let open = || all.find(image, build);
        let answer = answers.and_then(|answers| answers.lookup(svma(pc.lookup()), open));
        let Some(answer) = answer else {
            return (physical(Some(at), Some(own), offset(), recorded()), None);
        };
        let offset = answer.entry.and_then(|entry| own.checked_sub(entry));
        let mut frames = answer.frames;
        // A symbol table has no lines; whoever named the frame may have had them.
        if frames.iter().all(|frame| frame.file.is_none()) {
            let recorded = recorded();
            if recorded.iter().any(|frame| frame.file.is_some()) {
                frames = recorded;
            }
        }
        (physical(Some(at), Some(own), offset, frames), answer.calls)
    }

    fn missing(&self) -> Vec<MissingFile> {
        let (mut missing, mut known) = (Vec::new(), FxHashSet::default());
        for (files, image) in self.images.iter().zip(&self.report.images) {
            let Some(files) = files else { continue };
            let facts = files.as_ref().map(Answers::facts);
            let has_debug_info = facts.is_some_and(|facts| facts.has_debug_info);
            let unread = facts.map(|facts| facts.unread).unwrap_or_default();
            let is_whole = has_debug_info && unread == Unread::default();
            if is_whole || is_virtual(image) || !known.insert((&image.id, &image.name)) {
                continue;
            }
            let (all, name) = (&self.symbolicator.files, image_file_name(&image.name));
            missing.push(MissingFile {
                name: image.name.clone(),
                id: image.id.clone(),
                arch: image.arch.clone(),
                symbols: files.is_some(),
                unread,
                system: is_system(&image.name),
                others: all.others_named(name, &image.id),
            });
        }
        missing
    }
}

/// Images that the kernel makes up: no file of theirs exists.
fn is_virtual(image: &Image) -> bool {
    image.name.starts_with('[')
        || image.name.contains("linux-vdso")
        || image.name.contains("linux-gate")
}
