//! Last words that libraries leave for the crash report: `abort`, failed assertions, Swift's runtime errors, malloc and
//! dyld each put theirs into a section of their own image.

use std::ffi::{c_char, c_ulong};
use std::sync::atomic::{AtomicU64, Ordering};

use super::memory;

/// Most images whose section is known; those of the system are some twenty.
const MAX_IMAGES: usize = 128;

/// Addresses of the sections; 0 for a free place.
static SECTIONS: [AtomicU64; MAX_IMAGES] = [const { AtomicU64::new(0) }; MAX_IMAGES];
/// The header of the image of each.
static HEADERS: [AtomicU64; MAX_IMAGES] = [const { AtomicU64::new(0) }; MAX_IMAGES];

/// `struct crashreporter_annotations_t` (CrashReporterClient.h of Apple's Libc, and of Swift's
/// runtime) is words of 64 bits: version, message, signature string, backtrace, second message, ..
const WORDS: usize = 5;
const VERSION: usize = 0;
const MESSAGES: [usize; 2] = [1, 4];
/// Versions that have these five words.
const VERSIONS: std::ops::RangeInclusive<u64> = 4..=5;

/// Between two messages.
const SEPARATOR: &[u8] = b"; ";

unsafe extern "C" {
    // mach-o/getsect.h
    fn getsectiondata(
        header: *const u8,
        segment: *const c_char,
        section: *const c_char,
        size: *mut c_ulong,
    ) -> *const u8;
}

/// dyld has added an image: its section is noted. dyld may hold its lock.
pub(super) fn added(header: *const u8) {
    let mut size = 0;
    // In the shared cache, data that is often written to lies in a segment of its own.
    let found = [c"__DATA", c"__DATA_DIRTY"].iter().find_map(|segment| {
        // SAFETY: a header that dyld has loaded, C strings, and a result that lives across the call.
        let at = unsafe {
            getsectiondata(
                header,
                segment.as_ptr(),
                c"__crash_info".as_ptr(),
                &mut size,
            )
        };
        (!at.is_null() && size as usize >= 8 * WORDS).then_some(at as u64)
    });
    let Some(found) = found else { return };
    for (at, of) in SECTIONS.iter().zip(&HEADERS) {
        let free = at.compare_exchange(0, found, Ordering::AcqRel, Ordering::Acquire);
        if free.is_ok() {
            of.store(header as u64, Ordering::Release);
            return;
        }
    }
}

/// dyld takes an image away: its section is forgotten.
pub(super) fn removed(header: *const u8) {
    for (at, of) in SECTIONS.iter().zip(&HEADERS) {
        if of.load(Ordering::Acquire) == header as u64 {
            of.store(0, Ordering::Release);
            at.store(0, Ordering::Release);
        }
    }
}

/// Copies what was left, without the lines' ends, one behind the other, and gives the length; 0 where
/// nothing was left. Signal-safe; each read is checked.
pub fn message(into: &mut [u8]) -> usize {
    let mut length = 0usize;
    for at in SECTIONS.iter().map(|at| at.load(Ordering::Acquire)) {
        let mut bytes = [0; 8 * WORDS];
        if at == 0 || memory::read(at, &mut bytes) != bytes.len() {
            continue;
        }
        let (words, _) = bytes.as_chunks();
        let word = |index: usize| words.get(index).map_or(0, |word| u64::from_le_bytes(*word));
        if !VERSIONS.contains(&word(VERSION)) {
            continue;
        }
        for text in MESSAGES.map(word).into_iter().filter(|&text| text != 0) {
            let start = if length == 0 {
                0
            } else {
                length.saturating_add(SEPARATOR.len())
            };
            let room = into.get_mut(start..).unwrap_or_default();
            let got = memory::read(text, room);
            let text = room.get(..got).unwrap_or_default();
            let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
            let text = text.trim_ascii_end().len();
            if text == 0 {
                continue;
            }
            let between = into.get_mut(length..start).unwrap_or_default();
            for (place, byte) in between.iter_mut().zip(SEPARATOR) {
                *place = *byte;
            }
            length = start.saturating_add(text);
        }
    }
    length
}
