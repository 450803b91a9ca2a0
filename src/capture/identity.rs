//! The identity of an image: two images at the same base, one after the other, are two. Captured frames refer to it.
//!
//! Listings are counted as they begin. A frame in an image that was listed before has the image's serial number. Any other
//! frame has the count of listings started when its stack was taken: the next listing shows the image, unless another one
//! may have been there as well.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::images::{Images, ListingHistory};
use super::loaded_image::LoadedImage;
use crate::report::{Found, RawFrame};

/// Images that are remembered after they were unloaded, without their sections.
const REMEMBERED: usize = 64;
/// Beyond the serial numbers of images: a frame in no known image has this and the count of listings.
const UNLISTED: u32 = 1 << 31;
/// Listings started in this process.
static LISTINGS: AtomicU32 = AtomicU32::new(0);

/// Counts a listing that begins now; returns its number.
pub(super) fn begin_listing() -> u32 {
    LISTINGS.fetch_add(1, Ordering::SeqCst).wrapping_add(1)
}

/// The moment when a stack was taken, in listings.
#[derive(Debug, Clone, Copy)]
pub(super) struct CaptureEpoch {
    /// Serial numbers of the set that was known.
    serials: u32,
    /// Listings started.
    started: u32,
}

impl CaptureEpoch {
    /// Signal-safe.
    pub fn now(images: &Images) -> CaptureEpoch {
        CaptureEpoch {
            serials: images.history.serials,
            started: LISTINGS.load(Ordering::SeqCst),
        }
    }
}

impl Images {
    /// The image of this set that is the same as `image`, which has just been listed.
    pub(super) fn same_as(&self, image: &LoadedImage) -> Option<&Arc<LoadedImage>> {
        let known = self.list().get(self.find(image.base)? as usize)?;
        known.is_same(image).then_some(known)
    }

    /// The set that this listing found, when the loader had removed so many images; `None` if it is this one. An
    /// image that this set lacks gets a serial number.
    pub(super) fn followed_by(
        &self,
        listing: u32,
        list: Vec<ListedImage>,
        removed: u64,
    ) -> Option<Images> {
        let before = &self.history;
        let known = |image: &Arc<LoadedImage>| {
            let is_it = |listed: &ListedImage| matches!(listed, ListedImage::Known(known) if Arc::ptr_eq(known, image));
            list.iter().any(is_it)
        };
        let left: Vec<_> = self.list().iter().filter(|image| !known(image)).collect();
        let is_unseen = removed.saturating_sub(before.removed) > left.len() as u64;
        let is_sole = |image: &LoadedImage| {
            !is_unseen
                && !left
                    .iter()
                    .any(|left| left.contains(image.base) || image.contains(left.base))
        };
        let mut serials = before.serials;
        let number = |listed| match listed {
            ListedImage::Known(image) => image,
            ListedImage::New(mut image) => {
                serials = serials.wrapping_add(1);
                image.serial = serials;
                image.first = if is_sole(&image) { listing } else { 0 };
                Arc::new(*image)
            }
        };
        let list: Vec<Arc<LoadedImage>> = list.into_iter().map(number).collect();
        if left.is_empty() && (serials, removed) == (before.serials, before.removed) {
            return None;
        }
        let mut gone = before.gone.clone();
        gone.extend(left.iter().map(|image| Arc::new(image.remembered())));
        gone.drain(..gone.len().saturating_sub(REMEMBERED));
        let mut next = Images::from_shared(list);
        next.history = ListingHistory {
            removed,
            serials,
            gone,
        };
        Some(next)
    }

    /// Replaces a frame's index in this set by what identifies its image in later sets too. Signal-safe.
    pub(super) fn identify(&self, frame: &mut RawFrame, taken: CaptureEpoch) {
        frame.image = match self.list().get(frame.image as usize) {
            Some(image) => image.serial,
            None => UNLISTED | taken.started,
        };
    }

    /// Returns true if the frame, by its index in this set, lay in that image when its stack was taken. Signal-safe.
    pub(super) fn is_certain(&self, frame: &RawFrame, taken: CaptureEpoch) -> bool {
        let image = self.list().get(frame.image as usize);
        let next = taken.started.wrapping_add(1);
        image.is_none_or(|image| image.serial <= taken.serials || image.first == next)
    }

    /// The image that `frame` lay in when it was captured, by this set's listing or an earlier one. `None` if that
    /// is not certain. Signal-safe.
    pub(super) fn image_of(&self, frame: &RawFrame) -> Option<&LoadedImage> {
        // A call may be the last instruction of its image: the address after it is not in the image.
        let at = frame
            .pc
            .saturating_sub(u64::from(frame.found != Found::Context));
        // Of a caller that was noted by others the moment is not known.
        if frame.image == RawFrame::NO_IMAGE {
            let here = self.list().get(self.find(at)? as usize)?;
            return (!here.is_gone()).then_some(&**here);
        }
        let Some(started) = frame.image.checked_sub(UNLISTED) else {
            return self.by_serial(frame.image);
        };
        let next = started.wrapping_add(1);
        self.all_images()
            .find(|image| image.first == next && image.contains(at))
    }

    /// The image of this serial number, also if it was unloaded since. Signal-safe.
    pub(super) fn by_serial(&self, serial: u32) -> Option<&LoadedImage> {
        self.all_images().find(|image| image.serial == serial)
    }

    /// The images of this set and the remembered ones. Signal-safe.
    fn all_images(&self) -> impl Iterator<Item = &LoadedImage> {
        let all = self.list().iter().chain(&self.history.gone);
        all.map(|image| &**image)
    }
}

/// An image of a listing.
pub(super) enum ListedImage {
    /// One that the set before has.
    Known(Arc<LoadedImage>),
    /// Another one.
    New(Box<LoadedImage>),
}

/// Returns true if a captured frame lay in an image that was known. Signal-safe.
pub(super) fn is_known(frame: &RawFrame) -> bool {
    frame.image < UNLISTED
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The set that listing `number` finds after `images`: plug-ins of these names, all at one base; so many were removed.
    fn then(images: &Images, number: u32, names: &[&str], removed: u64) -> Images {
        let list = names.iter().map(|name| {
            let image = LoadedImage::new(*name, 0x1000, 0, 0x1000);
            match images.same_as(&image) {
                Some(known) => ListedImage::Known(known.clone()),
                None => ListedImage::New(Box::new(image)),
            }
        });
        let next = images.followed_by(number, list.collect(), removed);
        next.expect("another set")
    }

    /// A frame that is captured when `started` listings have started.
    fn captured(images: &Images, started: u32) -> RawFrame {
        let mut frame = RawFrame {
            pc: 0x1800,
            found: Found::UnwindInfo,
            image: images.find(0x1800).unwrap_or(RawFrame::NO_IMAGE),
        };
        let serials = images.history.serials;
        images.identify(&mut frame, CaptureEpoch { serials, started });
        frame
    }

    fn name<'i>(images: &'i Images, frame: &RawFrame) -> Option<&'i str> {
        images.image_of(frame).map(|image| &*image.name)
    }

    #[test]
    fn a_frame_keeps_its_image_when_another_one_takes_the_place() {
        let none = then(&Images::empty(), 1, &["zero"], 7);
        let one = then(&none, 2, &["one"], 8);
        let in_one = captured(&one, 2);
        let two = then(&one, 3, &["two"], 9);
        let in_two = captured(&two, 3);
        let three = then(&two, 4, &["three"], 10);
        let in_three = captured(&three, 4);
        for (frame, wanted) in [(in_one, "one"), (in_two, "two"), (in_three, "three")] {
            assert_eq!(name(&three, &frame), Some(wanted));
        }
        // The same file once more is another load.
        let again = then(&three, 5, &["one"], 11);
        assert_eq!(name(&again, &in_one), Some("one"));
        assert_ne!(captured(&again, 5).image, in_one.image);
        let same = vec![ListedImage::Known(again.list()[0].clone())];
        assert!(again.followed_by(6, same, 11).is_none());
    }

    #[test]
    fn a_frame_in_no_known_image_gets_the_one_that_the_next_listing_has() {
        let none = Images::empty();
        let frame = captured(&none, 1);
        assert_eq!(name(&none, &frame), None);
        let one = then(&none, 2, &["one"], 0);
        assert_eq!(name(&one, &frame), Some("one"));
        let two = then(&one, 3, &["two"], 1);
        assert_eq!(name(&two, &frame), Some("one"));
        // What comes after the next listing was not there.
        assert!(none.followed_by(2, Vec::new(), 0).is_none());
        assert_eq!(name(&then(&none, 3, &["one"], 0), &frame), None);
    }

    #[test]
    fn a_frame_is_in_no_image_where_another_one_came_and_went_or_was_there() {
        let none = Images::empty();
        let one = then(&none, 2, &["one"], 0);
        let before_one = captured(&none, 1);
        assert_eq!(name(&then(&none, 2, &["one"], 1), &before_one), None);
        // A listing had started, and may have ended before.
        let meanwhile = captured(&none, 2);
        assert_eq!(name(&one, &meanwhile), None);
        assert_eq!(name(&then(&one, 3, &["two"], 1), &meanwhile), None);
    }

    #[test]
    fn images_that_were_unloaded_are_forgotten_in_the_end() {
        let mut images = then(&Images::empty(), 1, &["0"], 0);
        let first = captured(&images, 1);
        for load in 1..=REMEMBERED as u32 + 1 {
            assert_eq!(name(&images, &first), Some("0"), "{load}");
            images = then(&images, 1 + load, &[&*load.to_string()], load.into());
        }
        assert_eq!(name(&images, &first), None);
    }
}
