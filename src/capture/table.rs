//! The images of this process, published so that a capture can read them at any instant.
//!
//! A set of images is immutable. Readers count themselves in the counter of the present epoch; what
//! publishes a new set swaps the pointer and then, if no reader is left in the other counter, begins
//! a new epoch with that one. A set that was swapped out before an epoch began can be held by
//! no reader that came after, so it is freed once the counter of the epoch before has gone to zero.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::identity::{ListedImage, begin_listing};
use super::images::Images;
#[cfg(target_os = "linux")]
use super::loaded_elf::image_of;
use super::loaded_image::LoadedImage;
#[cfg(target_vendor = "apple")]
use super::section::{Bytes, Section};
use crate::platform::atomic::Atomic;
use crate::platform::forked::{ForkLock, around_forks};
#[cfg(target_vendor = "apple")]
use crate::platform::images::ImageInfo;
use crate::report::RawFrame;

/// The images that are loaded in this process.
#[derive(Debug)]
pub struct ImageTable;

/// Null before the first [`ImageTable::refresh`].
static CURRENT: AtomicPtr<Images> = AtomicPtr::new(std::ptr::null_mut());
static NONE: Images = Images::empty();
static EPOCHS: Epochs = Epochs {
    epoch: AtomicUsize::new(0),
    readers: [AtomicUsize::new(0), AtomicUsize::new(0)],
};
static RETIRED_SETS: ForkLock<SwappedOut<Retired>> = ForkLock::new(SwappedOut {
    fresh: Vec::new(),
    aging: Vec::new(),
});

/// The present epoch, and how many readers entered in those of each parity.
struct Epochs<A = AtomicUsize> {
    epoch: A,
    readers: [A; 2],
}

/// Values that were swapped out, to be dropped once no reader can hold them.
struct SwappedOut<T> {
    /// In the present epoch.
    fresh: Vec<T>,
    /// Before it.
    aging: Vec<T>,
}

/// A set that no reader can enter any more; freed when dropped, which waits until none is in it.
struct Retired(NonNull<Images>);

// SAFETY: `Images` is shared between threads anyway, and what swapped it out alone drops it.
unsafe impl Send for Retired {}

impl Drop for Retired {
    fn drop(&mut self) {
        // SAFETY: it came out of `Box::into_raw` in `refresh`, was swapped out there, and has aged:
        // no reader holds it.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl ImageTable {
    /// Reads anew what is loaded, and publishes it.
    ///
    /// Allocates and takes the loader's lock: call it at install, and from a thread of its own
    /// whenever libraries load or unload; never from a handler or a capture.
    pub fn refresh() {
        around_forks!(RETIRED_SETS);
        // A child of `fork` that cannot have it keeps its parent's images.
        let Some(mut retired_sets) = RETIRED_SETS.lock() else {
            return;
        };
        let before = ImageTable::enter();
        let held = |base: u64, id: &[u8]| {
            let image = before.images().get(before.find(base)? as usize)?;
            (image.base == base && image.id == id && !id.is_empty()).then(|| image.clone())
        };
        let number = begin_listing();
        let listing = crate::platform::images::list(&mut |base, id| held(base, id).is_some());
        let images = listing.images.into_iter().map(|facts| {
            let base = facts.slide.wrapping_add(facts.svma.start);
            if let Some(held) = held(base, &facts.id) {
                return ListedImage::Known(held);
            }
            let image = image_of(facts);
            match before.set().same_as(&image) {
                Some(known) => ListedImage::Known(known.clone()),
                None => ListedImage::New(Box::new(image)),
            }
        });
        let next = (before.set()).followed_by(number, images.collect(), listing.removed);
        drop(before);
        let Some(next) = next else {
            return;
        };
        let old = CURRENT.swap(Box::into_raw(Box::new(next)), Ordering::SeqCst);
        retired_sets.retire(&EPOCHS, NonNull::new(old).map(Retired));
    }

    /// The images as they were published last, kept as they are while the guard lives.
    /// Signal-safe.
    pub fn enter() -> ImagesGuard {
        let parity = EPOCHS.enter();
        ImagesGuard {
            images: CURRENT.load(Ordering::SeqCst),
            parity,
        }
    }
}

impl<A: Atomic<Value = usize>> Epochs<A> {
    /// Counts a reader, which sees what is published from now on; the result is for [`Epochs::leave`]. Signal-safe.
    fn enter(&self) -> usize {
        loop {
            let epoch = self.epoch.load(Ordering::SeqCst);
            let readers = self.counter(epoch);
            readers.fetch_add(1, Ordering::SeqCst);
            if self.epoch.load(Ordering::SeqCst) == epoch {
                return epoch & 1;
            }
            readers.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Counts the readers of the epochs of this parity. Signal-safe.
    fn counter(&self, epoch: usize) -> &A {
        let [even, odd] = &self.readers;
        if epoch & 1 == 0 { even } else { odd }
    }

    /// The reader has gone. Signal-safe.
    fn leave(&self, parity: usize) {
        self.counter(parity).fetch_sub(1, Ordering::SeqCst);
    }
}

impl<T> SwappedOut<T> {
    /// Keeps what was swapped out until no reader can hold it.
    fn retire<A: Atomic<Value = usize>>(&mut self, epochs: &Epochs<A>, old: Option<T>) {
        self.fresh.extend(old);
        // Twice: where there is no reader, what was just swapped out is freed at once.
        for _ in 0..2 {
            let epoch = epochs.epoch.load(Ordering::SeqCst);
            if epochs.counter(epoch.wrapping_add(1)).load(Ordering::SeqCst) == 0 {
                self.aging.clear();
                epochs.epoch.store(epoch.wrapping_add(1), Ordering::SeqCst);
                std::mem::swap(&mut self.aging, &mut self.fresh);
            }
        }
    }
}

/// The images of one moment, see [`ImageTable::enter`]. Everything here is signal-safe.
#[derive(Debug)]
pub struct ImagesGuard {
    images: *const Images,
    parity: usize,
}

impl ImagesGuard {
    /// All of them.
    pub fn images(&self) -> &[Arc<LoadedImage>] {
        self.set().list()
    }

    /// The index of the image that an address (avma) lies in.
    pub fn find(&self, avma: u64) -> Option<u32> {
        self.set().find(avma)
    }

    /// The index of the executable.
    pub fn main(&self) -> Option<u32> {
        self.set().main()
    }

    /// All of them, as the unwinder takes them.
    pub fn set(&self) -> &Images {
        // SAFETY: null, or published and not freed while this guard is counted.
        unsafe { self.images.as_ref() }.unwrap_or(&NONE)
    }

    /// The image that a captured frame lay in, also where it was unloaded since; `None` where that is not certain.
    /// Signal-safe.
    pub fn image_of(&self, frame: &RawFrame) -> Option<&LoadedImage> {
        self.set().image_of(frame)
    }

    /// The image that lies at an address (avma) by the last listing. Signal-safe.
    pub(crate) fn at(&self, avma: u64) -> Option<&LoadedImage> {
        let index = self.find(avma)?;
        self.images().get(index as usize).map(|image| &**image)
    }

    /// The image of this serial number, also where it was unloaded since. Signal-safe.
    pub(crate) fn by_serial(&self, serial: u32) -> Option<&LoadedImage> {
        self.set().by_serial(serial)
    }
}

impl Drop for ImagesGuard {
    fn drop(&mut self) {
        EPOCHS.leave(self.parity);
    }
}

/// From what dyld has mapped: `__TEXT` in place, which its owner keeps loaded.
#[cfg(target_vendor = "apple")]
fn image_of(facts: ImageInfo) -> LoadedImage {
    let text = facts
        .text
        .map(|text| Section::new(text.svma, Bytes::new(text.bytes)));
    let part = |range: std::ops::Range<u64>| {
        let text = text.as_ref()?;
        let start = usize::try_from(range.start.checked_sub(text.svma)?).ok()?;
        let length = usize::try_from(range.end.checked_sub(range.start)?).ok()?;
        let bytes = text.bytes.slice(start..start.checked_add(length)?)?;
        Some(Section::new(range.start, bytes))
    };
    let base = facts.slide.wrapping_add(facts.svma.start);
    let size = facts.svma.end.saturating_sub(facts.svma.start);
    let mut image = LoadedImage::new(facts.name, base, facts.svma.start, size)
        .with_id(facts.id)
        .with_code(facts.code.clone());
    image.main = facts.main;
    for code in facts.code {
        if let Some(code) = part(code) {
            image = image.with_text(code);
        }
    }
    if let Some(eh_frame) = facts.eh_frame.and_then(part) {
        image = image.with_eh_frame(eh_frame, None);
    }
    if let Some(unwind_info) = facts.unwind_info.and_then(part) {
        image = image.with_unwind_info(unwind_info);
    }
    if let Some(trampoline) = crate::platform::images::signal_trampoline()
        && image.contains(trampoline)
    {
        let svma = image.svma(trampoline);
        image = image.with_signal_trampoline(svma);
    }
    image = image.with_function_starts(&facts.function_starts);
    // The shared cache is a file that cannot be written to.
    if facts.cached {
        image
    } else {
        image.with_mapped_sections()
    }
}

/// `scripts/model`
#[cfg(all(loom, test))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, AtomicUsize};

    /// A set, by its number, that was swapped out.
    struct Old(Arc<[AtomicBool; 4]>, usize);

    impl Drop for Old {
        fn drop(&mut self) {
            self.0[self.1].store(true, Ordering::SeqCst);
        }
    }

    /// Whatever a reader has entered is not freed before it leaves, while three others are published.
    #[test]
    fn model_no_set_is_freed_under_its_reader() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let number = || AtomicUsize::new(0);
            let epochs = Arc::new(Epochs {
                epoch: number(),
                readers: [number(), number()],
            });
            let current = Arc::new(number());
            let flag = || AtomicBool::new(false);
            let freed = Arc::new([flag(), flag(), flag(), flag()]);
            let reader = {
                let (epochs, current, freed) = (epochs.clone(), current.clone(), freed.clone());
                loom::thread::spawn(move || {
                    let parity = epochs.enter();
                    let set = Atomic::load(&*current, Ordering::SeqCst);
                    assert!(!freed[set].load(Ordering::SeqCst));
                    loom::thread::yield_now();
                    assert!(!freed[set].load(Ordering::SeqCst));
                    epochs.leave(parity);
                })
            };
            let mut retired_sets = SwappedOut {
                fresh: Vec::new(),
                aging: Vec::new(),
            };
            for set in 0..3 {
                Atomic::store(&*current, set + 1, Ordering::SeqCst);
                retired_sets.retire(&epochs, Some(Old(freed.clone(), set)));
            }
            reader.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_guard_keeps_its_images_while_others_are_published() {
        ImageTable::refresh();
        let guard = ImageTable::enter();
        let here = a_guard_keeps_its_images_while_others_are_published as *const () as u64;
        let image = guard.find(here).unwrap();
        assert_eq!(guard.main(), Some(image));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                std::thread::spawn(move || {
                    for _ in 0..200 {
                        let other = ImageTable::enter();
                        let found = other.find(here).unwrap();
                        assert!(other.images()[found as usize].contains(here));
                    }
                })
            })
            .collect();
        for _ in 0..20 {
            ImageTable::refresh();
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(guard.find(here), Some(image));
        assert!(!guard.images()[image as usize].name.is_empty());
    }

    /// The C library states an entry point, too: it can be run.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_kernel_enters_the_executable_and_its_interpreter_alone() {
        let mut entries = Vec::new();
        for facts in crate::platform::images::list(&mut |_, _| false).images {
            let image = image_of(facts);
            if let Some(entry) = image.entry {
                entries.push((image.main, image.avma(entry)));
            }
        }
        // SAFETY: it reads what the kernel gave the process.
        let (base, entry) = unsafe {
            (
                libc::getauxval(libc::AT_BASE),
                libc::getauxval(libc::AT_ENTRY),
            )
        };
        assert!(entries.contains(&(true, entry)), "{entries:x?}");
        let others: Vec<_> = entries.iter().filter(|(main, _)| !main).collect();
        assert_eq!(others.len(), usize::from(base != 0), "{entries:x?}");
        assert!(
            others.iter().all(|(_, entry)| *entry > base),
            "{entries:x?}"
        );
    }
}
