//! A report being put together from another layout's parts; from a tree of sampled stacks, each path with its share.

use std::collections::BTreeMap;
use std::time::Duration;

use super::json_fields::keep_frames;
use super::{JsonFields, Layout};
use crate::report::model::ImageIndex;
use crate::report::{
    Damage, DamageKind, Event, EventKind, Found, Frame, Image, Reading, Report, Sample, StallEnd,
    StallOutcome, Thread, Value, limits,
};
use crate::symbolicate::frame::{image_file_name, is_system};
use crate::symbolicate::keys::NUMBER;
use crate::symbolicate::names::symbol_text;
use crate::symbolicate::samples::{MAX_FRAMES, weight};

/// Threads and images of one report together.
const MAX_PARTS: usize = 1 << 16;

/// Bits of an address below the signature of arm64e: on iOS, on macOS.
const ADDRESS_BITS: [u32; 2] = [39, 47];

/// A report, and what was found wrong on the way.
#[derive(Debug, Default)]
pub(super) struct ReportBuilder {
    pub report: Report,
    damage: Vec<Damage>,
    /// Count of the parts beyond a limit.
    pub left_out: u64,
    /// The [`weight`] of its samples.
    sampled: usize,
    images: ImageIndex,
    /// Says the first image that a frame has the index of, and no list has.
    missing: Option<String>,
    /// The message of a trap.
    trapped: Option<String>,
    /// Images that no list has, by the name and base that frames give.
    unlisted: BTreeMap<(String, u64), u32>,
}

impl ReportBuilder {
    pub fn event(&mut self) -> &mut Event {
        self.report.event.get_or_insert_default()
    }

    pub fn damage(&mut self, kind: DamageKind, offset: usize, message: &str) {
        if self.damage.len() < limits::DAMAGES {
            self.damage.push(Damage {
                offset: offset as u64,
                kind,
                message: message.to_owned(),
            });
        }
    }

    /// Adds an image. An index without an image means one beyond the limit.
    pub fn image(&mut self, image: Image) -> u32 {
        let index = self.report.images.len();
        if self.has_room() {
            self.report.images.push(image);
        }
        index as u32
    }

    /// Returns true if the report may have one more part, and else counts that it has not.
    fn has_room(&mut self) -> bool {
        let has_room = self.report.threads.len() + self.report.images.len() < MAX_PARTS;
        self.left_out += u64::from(!has_room);
        has_room
    }

    /// Makes [`ReportBuilder::image_at`] know the images so far.
    pub fn index_images(&mut self) {
        self.images = ImageIndex::new(&self.report.images);
    }

    pub fn image_at(&self, address: u64) -> Option<u32> {
        self.images.at(address)
    }

    /// Returns the image that no list has, by the name in a frame at `pc`, and the base; 0 for none. It ends where no frame
    /// is beyond.
    pub fn unlisted_image(&mut self, name: &str, base: u64, pc: u64) -> u32 {
        let mut known = self.unlisted.range((name.to_owned(), base)..);
        let is_it =
            |((known, at), _): &(&(String, u64), &u32)| known == name && (base == 0 || *at == base);
        let size_from = |base: u64| match base {
            0 => 0,
            base => pc.saturating_sub(base).saturating_add(1),
        };
        if let Some(image) = known.next().filter(is_it).map(|(_, image)| *image) {
            if let Some(known) = self.report.images.get_mut(image as usize) {
                known.size = known.size.max(size_from(known.base));
            }
            return image;
        }
        let image = self.image(Image {
            name: name.to_owned(),
            base,
            size: size_from(base),
            ..Image::default()
        });
        self.unlisted.insert((name.to_owned(), base), image);
        image
    }

    /// The image that a list has at an index: those that frames alone name come after the lists.
    pub fn listed_image(&self, index: u32) -> Option<&Image> {
        self.report.images[..self.count_listed()].get(index as usize)
    }

    fn count_listed(&self) -> usize {
        self.report.images.len().saturating_sub(self.unlisted.len())
    }

    /// The file of the program: the first image that is neither a library nor the system's.
    pub fn program(&self) -> Option<String> {
        const LIBRARIES: [&str; 3] = [".so", ".dylib", ".framework/"];
        let is_program = |image: &&Image| {
            let is_library = LIBRARIES.iter().any(|part| image.name.contains(part));
            !image.name.is_empty() && !is_library && !is_system(&image.name)
        };
        let program = self.report.images.iter().find(is_program)?;
        Some(image_file_name(&program.name).to_owned())
    }

    /// The stacks of exceptions so far.
    pub fn thrown_stacks(&self) -> Vec<Vec<u64>> {
        let thrown = self.report.threads.iter();
        let thrown = thrown.filter(|thread| thread.name.as_deref() == Some(Thread::LAST_EXCEPTION));
        let pcs = |thread: &Thread| thread.frames.iter().map(|frame| frame.pc).collect();
        thrown.map(pcs).collect()
    }

    /// Counts a frame of an image whose index no list has.
    pub fn missing_image(&mut self, index: u64) {
        let listed = self.count_listed();
        self.missing.get_or_insert_with(|| {
            format!(
                "a frame is of image {index}, and the list has {listed}: its offset is kept, and no debug file of it can be found"
            )
        });
    }

    /// Takes the message of a trap: the reason, unless the report has another.
    pub fn trapped(&mut self, message: &str) {
        self.trapped.get_or_insert_with(|| message.to_owned());
    }

    /// Adds the samples of a tree, with `interval` nanoseconds between two; frames without an image get the one their
    /// address is in.
    pub fn samples(&mut self, tree: &SampleTree, interval: u64) {
        for &(at, count) in &tree.ends {
            let first = tree.nodes[at].first.unwrap_or(0);
            let most = limits::FRAMES.min(MAX_FRAMES.saturating_sub(self.sampled));
            let mut frames: Vec<Frame> = tree.stack(at).take(most + 1).collect();
            if frames.len() > most {
                // What comes after is not walked in vain.
                self.sampled = MAX_FRAMES;
                self.left_out = self.left_out.saturating_add(count);
                continue;
            }
            self.sampled += weight(&frames);
            self.find_images(&mut frames, Found::Context);
            self.report.samples.push(Sample {
                at: Duration::from_nanos(first.saturating_mul(interval)),
                count,
                frames,
                ..Sample::default()
            });
        }
    }

    /// `first` is how the first frame was found, unless it says that itself.
    fn find_images(&self, frames: &mut [Frame], first: Found) {
        if let Some(frame) = frames.first_mut()
            && frame.found == Found::Unknown
        {
            frame.found = first;
        }
        for frame in frames.iter_mut().filter(|frame| frame.image.is_none()) {
            frame.image = self.image_at(address_in_call(frame.pc, frame.found));
            if frame.image.is_none() {
                self.without_signature(frame);
            }
        }
    }

    /// Takes arm64e's signature out of an address, if what is left is in an image.
    pub fn without_signature(&self, frame: &mut Frame) {
        // Those of the kernel are all ones above.
        if matches!(frame.pc >> 48, 0 | 0xffff) {
            return;
        }
        let plain = ADDRESS_BITS.map(|bits| frame.pc & ((1 << bits) - 1));
        let image = |pc| self.image_at(address_in_call(pc, frame.found));
        let inside = plain.into_iter().find_map(|pc| Some((pc, image(pc)?)));
        if let Some((pc, image)) = inside {
            frame.pc = pc;
            frame.image = Some(image);
        }
    }

    /// Adds a thread; frames without an image get the one that has their address.
    pub fn thread(&mut self, thread: Thread) {
        self.add(thread, Found::Context);
    }

    /// Adds a thread of which all frames are return addresses, the first one too, since what recorded it had been
    /// called.
    pub fn called(&mut self, thread: Thread) {
        self.add(thread, Found::Unknown);
    }

    fn add(&mut self, mut thread: Thread, first: Found) {
        if !self.has_room() {
            return;
        }
        if thread.frames.len() > limits::FRAMES {
            thread.frames.truncate(limits::FRAMES);
            let message =
                "a thread has more frames than a report may have; the outermost are left out";
            self.damage(DamageKind::Limit, 0, message);
        }
        self.find_images(&mut thread.frames, first);
        self.report.threads.push(thread);
    }

    /// Adds the stack of the exception that nothing caught.
    pub fn last_exception(&mut self, thread: Thread) {
        self.called(Thread {
            name: Some(Thread::LAST_EXCEPTION.into()),
            ..thread
        });
    }

    /// The stall took so long, in nanoseconds.
    pub fn lasted(&mut self, nanoseconds: u64) {
        let how = [StallOutcome::Reported, StallOutcome::Killed][usize::from(self.event().fatal)];
        self.ended(Duration::from_nanos(nanoseconds), how);
    }

    fn ended(&mut self, duration: Duration, how: StallOutcome) {
        self.report.stall_end = Some(StallEnd {
            duration,
            how,
            ..StallEnd::default()
        });
    }

    /// The report; what was not understood goes into a section of the layout's name.
    pub fn finish(mut self, layout: Layout, left: JsonFields) -> Reading {
        let event = self.report.event.get_or_insert_default();
        // Other recorders tell of such a stall when it is over.
        if event.kind == EventKind::Stall && !event.fatal && self.report.stall_end.is_none() {
            let last = self.report.samples.iter().map(|sample| sample.at).max();
            self.ended(last.unwrap_or_default(), StallOutcome::Unknown);
        }
        if let Some(message) = self.missing.take() {
            self.damage(DamageKind::Section, 0, &message);
        }
        if self.count_listed() == 0 && !self.unlisted.is_empty() && layout.has_images() {
            let message = "no list of images is in it: frames name theirs, and without ids no debug file can be told for certain";
            self.damage(DamageKind::Section, 0, message);
        }
        for (thread, index) in self.report.threads.iter_mut().zip(0..) {
            let is_place =
                |key: &str, value: &Value| key == NUMBER && *value == Value::Unsigned(index);
            thread.extra.retain(|(key, value)| !is_place(key, value));
        }
        if let Some(message) = self.trapped.take() {
            let event = self.report.event.get_or_insert_default();
            event.reason.get_or_insert_with(|| message.clone());
            event.message.get_or_insert(message);
        }
        let left = left.into_value();
        self.report.unknown.push((layout.as_str().to_owned(), left));
        if self.left_out > 0 {
            let count = self.left_out;
            let message =
                format!("{count} threads, images and samples are left out: a report has no more");
            self.damage(DamageKind::Limit, 0, &message);
        }
        let mut threads = self.report.threads.iter();
        if threads.all(|thread| thread.frames.is_empty()) {
            self.damage(DamageKind::Section, 0, "there are no frames in it");
        }
        Reading {
            report: self.report,
            damage: self.damage,
        }
    }
}

fn address_in_call(pc: u64, found: Found) -> u64 {
    match found {
        Found::Context | Found::AsyncCaller => pc,
        _ => pc.saturating_sub(1),
    }
}

/// The key and the number of a thread that the report numbers itself.
pub(super) fn number_entry(number: u64) -> (String, Value) {
    (NUMBER.into(), Value::Unsigned(number))
}

/// A thread that the report numbers; number 0 is the main thread.
pub(super) fn numbered_thread(number: u64) -> Thread {
    Thread {
        id: number,
        main: number == 0,
        extra: vec![number_entry(number)],
        ..Thread::default()
    }
}

/// A frame of which the address is known.
pub(super) fn frame(pc: u64, image: Option<u32>, name: Option<String>) -> Frame {
    Frame {
        pc,
        found: Found::Unknown,
        image,
        name: name.and_then(|name| Some(symbol_text::function(&name, None)?.to_owned())),
    }
}

/// A node of a tree of sampled stacks.
#[derive(Default)]
pub(super) struct SampleNode {
    pub parent: Option<usize>,
    /// Samples that went through here.
    pub count: u64,
    pub frame: Frame,
    /// The name of its image, and the base, where the frame has them; 0 for none.
    pub image: Option<(String, u64)>,
    /// Fields of the frame beyond that.
    pub left: JsonFields,
    /// The first of its samples, where the report numbers them.
    pub first: Option<u64>,
}

/// A tree of sampled stacks.
pub(super) struct SampleTree {
    nodes: Vec<SampleNode>,
    /// Nodes in which samples ended, and how many: in the order of time, where the report numbers samples.
    pub ends: Vec<(usize, u64)>,
}

impl SampleTree {
    pub fn new(nodes: Vec<SampleNode>) -> SampleTree {
        let mut own: Vec<u64> = nodes.iter().map(|node| node.count).collect();
        for node in &nodes {
            if let Some(parent) = node.parent {
                own[parent] = own[parent].saturating_sub(node.count);
            }
        }
        let ends = own.into_iter().enumerate().filter(|(_, count)| *count > 0);
        let mut ends: Vec<(usize, u64)> = ends.collect();
        ends.sort_by_key(|(at, _)| nodes[*at].first);
        SampleTree { nodes, ends }
    }

    /// The frames of a stack, innermost first.
    fn stack(&self, end: usize) -> impl Iterator<Item = Frame> {
        let path = std::iter::successors(Some(end), |at| self.nodes[*at].parent);
        path.map(|at| self.nodes[at].frame.clone())
    }

    /// Gives a thread the stack that was seen most often; of those seen equally often, the first.
    pub fn heaviest(&mut self, thread: &mut Thread) {
        let heaviest = self.ends.iter().rev().max_by_key(|(_, count)| count);
        let mut next = heaviest.map(|(at, _)| *at);
        let mut left = Vec::new();
        while let Some(at) = next {
            let node = &mut self.nodes[at];
            thread.frames.push(node.frame.clone());
            left.push((left.len(), std::mem::take(&mut node.left)));
            next = node.parent;
        }
        keep_frames(thread, left);
    }
}
