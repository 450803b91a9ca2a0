//! Answers for the reports of a batch, found image by image: the files of each are opened once for all of its addresses,
//! however many images there are.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::debug_files::{DebugFiles, ImageKey};
use super::frame::{Resolved, Unread};
use super::image_files::{ImageFiles, base_of};
use super::pc::Pc;
use super::samples::in_full;
use crate::report::model::{Image, Report, Thread};

/// The addresses that reports point to, by image.
#[derive(Default)]
pub(crate) struct WantedAddresses {
    index: FxHashMap<ImageKey, usize>,
    images: Vec<WantedImage>,
    frames: usize,
}

/// The addresses in one image.
struct WantedImage {
    image: Image,
    /// Build of the system that it ran on.
    build: Option<String>,
    /// Distances from where the image lay, each with the link-time address of that place, as the report has it.
    addresses: FxHashSet<(u64, u64)>,
}

impl WantedAddresses {
    /// Adds what a report points to: its threads' frames and the samples'. Callers that await are few, and looked up alone.
    pub(crate) fn add(&mut self, report: &Report) {
        let mut known = vec![None; report.images.len()];
        for thread in report.threads.iter().chain(&in_full(report)) {
            for index in 0..thread.frames.len() {
                self.add_frame(report, thread, index, &mut known);
            }
        }
    }

    fn add_frame(
        &mut self,
        report: &Report,
        thread: &Thread,
        index: usize,
        known: &mut [Option<usize>],
    ) {
        let at = thread.frames[index].image.map(|at| at as usize);
        let image = at.and_then(|at| Some((at, report.images.get(at)?)));
        let pc = Pc::of_frame(report, thread, index);
        let (Some((at, image)), Some(pc)) = (image, pc) else {
            return;
        };
        self.frames += 1;
        let at = *known[at].get_or_insert_with(|| self.image(report, image));
        let distance = pc.lookup().wrapping_sub(image.base);
        let addresses = &mut self.images[at].addresses;
        addresses.insert((distance, image.base_svma));
    }

    fn image(&mut self, report: &Report, image: &Image) -> usize {
        let (next, key) = (self.images.len(), DebugFiles::key(image));
        let at = *self.index.entry(key).or_insert(next);
        if at == next {
            self.images.push(WantedImage {
                image: image.clone(),
                build: report.head.os.build.clone(),
                addresses: FxHashSet::default(),
            });
        }
        at
    }

    /// Count of the frames that were added.
    pub(crate) fn frames(&self) -> usize {
        self.frames
    }

    /// Count of the images.
    pub(crate) fn images(&self) -> usize {
        self.images.len()
    }

    /// Looks up all addresses in one of the images; in order of address, as units of a file lie.
    pub(crate) fn find(&self, all: &DebugFiles, image: usize) -> FoundImage {
        let WantedImage {
            image,
            build,
            addresses,
        } = &self.images[image];
        let found = all.find(image, build.as_deref());
        let found = found.map(|files| {
            let svma = |&(distance, stated)| files.base_of(stated).wrapping_add(distance);
            let mut addresses: Vec<u64> = addresses.iter().map(svma).collect();
            addresses.sort_unstable();
            addresses.dedup();
            files.make_tables_for(addresses.len());
            let answer = |&svma: &u64| {
                let answer = files.lookup(svma);
                (svma, answer.map(|answer| answer.into_owned()))
            };
            let answers = addresses.iter().map(answer).collect();
            files.drop_resident_pages();
            Arc::new(GatheredImage {
                answers,
                facts: ImageSummary::of(&files),
            })
        });
        all.is_done(image);
        FoundImage(DebugFiles::key(image), found)
    }
}

/// An image and its answers; `None` if it has no file.
pub(crate) struct FoundImage(ImageKey, Option<Arc<GatheredImage>>);

/// The answers in all images.
#[derive(Default)]
pub(crate) struct GatheredLookups(FxHashMap<ImageKey, Option<Arc<GatheredImage>>>);

impl FromIterator<FoundImage> for GatheredLookups {
    fn from_iter<I: IntoIterator<Item = FoundImage>>(images: I) -> GatheredLookups {
        let images = images.into_iter();
        GatheredLookups(images.map(|FoundImage(key, found)| (key, found)).collect())
    }
}

/// The answers in one image, and the facts of its files, which may be closed.
pub(super) struct GatheredImage {
    answers: FxHashMap<u64, Option<Resolved>>,
    facts: ImageSummary,
}

/// Facts of an image's files that a report needs besides names.
#[derive(Clone, Copy)]
pub(super) struct ImageSummary {
    base: Option<u64>,
    pub has_debug_info: bool,
    pub unread: Unread,
}

impl ImageSummary {
    fn of(files: &ImageFiles) -> ImageSummary {
        ImageSummary {
            base: files.is_mach_o().then(|| files.base()),
            has_debug_info: files.has_debug_info(),
            unread: files.unread(),
        }
    }
}

/// Source of the answers in an image: its files, or what was gathered out of them.
#[derive(Clone)]
pub(super) enum Answers {
    Open(Arc<ImageFiles>),
    Gathered(Arc<GatheredImage>),
}

impl Answers {
    /// Those in `image`; `None` if it has no file.
    pub(super) fn find(
        gathered: &GatheredLookups,
        files: &DebugFiles,
        image: &Image,
        build: Option<&str>,
    ) -> Option<Answers> {
        if gathered.0.is_empty() {
            return files.find(image, build).map(Answers::Open);
        }
        match gathered.0.get(&DebugFiles::key(image)) {
            Some(found) => found.clone().map(Answers::Gathered),
            None => files.find(image, build).map(Answers::Open),
        }
    }

    /// The link-time address of the image's first byte: that which the report states, or the file's own.
    pub(super) fn base_of(&self, stated: u64) -> u64 {
        match self {
            Answers::Open(files) => files.base_of(stated),
            Answers::Gathered(known) => base_of(stated, || known.facts.base),
        }
    }

    /// The answer for a link-time address. One that was not gathered is asked of the file, by `open`.
    pub(super) fn lookup(
        &self,
        svma: u64,
        open: impl FnOnce() -> Option<Arc<ImageFiles>>,
    ) -> Option<Resolved> {
        let ask = |files: &ImageFiles| Some(files.lookup(svma)?.into_owned());
        match self {
            Answers::Open(files) => ask(files),
            Answers::Gathered(known) => match known.answers.get(&svma) {
                Some(answer) => answer.clone(),
                None => ask(&*open()?),
            },
        }
    }

    pub(super) fn facts(&self) -> ImageSummary {
        match self {
            Answers::Open(files) => ImageSummary::of(files),
            Answers::Gathered(known) => known.facts,
        }
    }
}
