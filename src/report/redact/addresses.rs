//! The randomised part of addresses.

use super::hexadecimal::{PAGE_OFFSET, replace_addresses};
use super::walk::{each_text, each_value};
use crate::report::model::{ImageIndex, Report, Value};

/// Address to which the first image is moved.
const FIRST_BASE: u64 = 0x1_0000_0000;
/// Images are moved to multiples of this.
const ALIGNMENT: u64 = 0x10_0000;

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
        replace_addresses(text, &anywhere);
    });
    let threads = report.threads.iter_mut().map(|thread| &mut thread.tasks);
    let samples = report.samples.iter_mut().map(|sample| &mut sample.tasks);
    let chains = threads.chain(samples).flatten();
    for caller in chains.flat_map(|chain| &mut chain.callers) {
        *caller = anywhere(*caller).unwrap_or(*caller & PAGE_OFFSET);
    }
    let threads = report.threads.iter_mut().map(|thread| &mut thread.frames);
    let samples = report.samples.iter_mut().map(|sample| &mut sample.frames);
    for frame in threads.chain(samples).flatten() {
        let moved = frame
            .image
            .and_then(|image| within(image as usize, frame.pc));
        frame.pc = moved.unwrap_or(frame.pc & PAGE_OFFSET);
    }
    for thread in &mut report.threads {
        thread.registers.retain_mut(|(_, value)| {
            let moved = anywhere(*value);
            *value = moved.unwrap_or_default();
            moved.is_some()
        });
    }
    for signal in report.event.iter_mut().flat_map(|event| &mut event.signal) {
        // An address near zero is a null pointer's field: the same in each launch.
        signal.address = signal.address.map(|address| match address {
            0..0x1_0000 => address,
            _ => anywhere(address).unwrap_or(address & PAGE_OFFSET),
        });
    }
}
