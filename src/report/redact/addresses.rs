//! The randomised part of addresses.

use super::hexadecimal::{Places, replace_addresses};
use super::walk::{each_text, each_value};
use crate::report::model::{ImageIndex, Report, Value};

/// Address to which the first image is moved.
const FIRST_BASE: u64 = 0x1_0000_0000;
/// Images are moved to multiples of this.
const ALIGNMENT: u64 = 0x10_0000;
/// The bits of an address that are the same in each launch: its place in the page.
const IN_PAGE: u64 = 0xfff;

/// Lays the images out anew, and moves the addresses within them along.
pub(super) fn remove_slides(report: &mut Report) {
    let images = ImageIndex::new(&report.images);
    let mut old = vec![(0, 0); report.images.len()];
    for &(base, end, image) in &images.0 {
        old[image as usize] = (base, end - base);
    }
    let mut next = FIRST_BASE;
    for (image, (_, size)) in report.images.iter_mut().zip(&old) {
        image.base = next;
        let step = size.saturating_add(2 * ALIGNMENT) & !(ALIGNMENT - 1);
        next = next.checked_add(step).unwrap_or(FIRST_BASE);
    }
    let new: Vec<u64> = report.images.iter().map(|image| image.base).collect();
    let within = |image: usize, address: u64| {
        let &(base, size) = old.get(image)?;
        let offset = address.checked_sub(base)?;
        // A return address may be right after the image's last byte.
        (offset <= size).then(|| new[image].wrapping_add(offset))
    };
    let anywhere = |address: u64| {
        let image = images.at(address);
        let image = image.or_else(|| images.at(address.checked_sub(1)?))?;
        within(image as usize, address)
    };
    each_value(report, &mut |value| {
        if let Value::Unsigned(number) = value {
            *number = anywhere(*number).unwrap_or(*number);
        }
    });
    each_text(report, &mut |text| {
        replace_addresses(text, &Moved(&anywhere));
    });
    let of_threads = report
        .threads
        .iter_mut()
        .flat_map(|thread| &mut thread.tasks);
    let of_samples = report
        .samples
        .iter_mut()
        .flat_map(|sample| &mut sample.tasks);
    let chains = of_threads.chain(of_samples);
    for caller in chains.flat_map(|chain| &mut chain.callers) {
        *caller = anywhere(*caller).unwrap_or(*caller & IN_PAGE);
    }
    let threads = report.threads.iter_mut().map(|thread| &mut thread.frames);
    let samples = report.samples.iter_mut().map(|sample| &mut sample.frames);
    for frame in threads.chain(samples).flatten() {
        let moved = frame
            .image
            .and_then(|image| within(image as usize, frame.pc));
        frame.pc = moved.unwrap_or(frame.pc & IN_PAGE);
    }
    for thread in &mut report.threads {
        thread
            .registers
            .retain_mut(|(_, value)| match anywhere(*value) {
                Some(moved) => {
                    *value = moved;
                    true
                }
                None => false,
            });
    }
    if let Some(address) = report
        .event
        .iter_mut()
        .flat_map(|event| &mut event.signal)
        .next()
    {
        // An address near zero is a null pointer's field: the same in each launch.
        address.address = address.address.map(|address| match address {
            0..0x1_0000 => address,
            _ => anywhere(address).unwrap_or(address & IN_PAGE),
        });
    }
}

/// The new place of an address in an image; of others, the place in the page.
struct Moved<'a>(&'a dyn Fn(u64) -> Option<u64>);

impl Places for Moved<'_> {
    fn in_image(&self, address: u64) -> Option<u64> {
        (self.0)(address)
    }

    fn elsewhere(&self, address: u64) -> u64 {
        address & IN_PAGE
    }
}
