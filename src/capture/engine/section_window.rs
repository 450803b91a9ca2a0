//! The call frame information that framehop sees: a section, and a search table of one of its entries.

use std::ops::Deref;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::Relaxed};

use crate::capture::section::Bytes;

/// Bytes that framehop holds.
#[derive(Clone)]
pub(super) enum ShownBytes {
    /// Bytes of an image.
    Own(Bytes),
    /// The section that is shown.
    Section(Arc<WindowWords>),
    /// The search table that is shown.
    Header(Arc<WindowWords>),
}

/// The section and table that are shown; only [`ShownBytes`] reads them.
pub(super) struct SectionWindow(Arc<WindowWords>);

pub(super) struct WindowWords {
    section: AtomicPtr<u8>,
    length: AtomicUsize,
    header: [AtomicU32; 5],
}

/// The first bytes of an `.eh_frame_hdr` (Linux Standard Base Core 5.0, 10.6.2): version 1; then the encodings: the
/// section's address and the table's entries in 4 signed bytes, relative to the header, and the count in 4 bytes.
const HEADER: u32 = u32::from_le_bytes([1, 0x3b, 0x03, 0x3b]);

impl SectionWindow {
    /// Nothing, and what framehop is given of it: the section, and the search table. Not signal-safe.
    pub(super) fn new() -> (SectionWindow, ShownBytes, ShownBytes) {
        // The section at 0 from here, and one entry, of a function that may begin anywhere.
        let words = [HEADER, 0, 1, 1 << 31, 0];
        let window = Arc::new(WindowWords {
            section: AtomicPtr::new(ptr::null_mut()),
            length: AtomicUsize::new(0),
            header: words.map(|word| AtomicU32::new(word.to_le())),
        });
        let section = ShownBytes::Section(window.clone());
        let header = ShownBytes::Header(window.clone());
        (SectionWindow(window), section, header)
    }

    /// Shows a section and the entry at an offset of it while something runs. Signal-safe.
    pub(super) fn during<T>(&mut self, section: &[u8], entry: i32, work: impl FnOnce() -> T) -> T {
        let SectionWindow(window) = self;
        window.header[4].store(entry.cast_unsigned().to_le(), Relaxed);
        window.section.store(section.as_ptr().cast_mut(), Relaxed);
        window.length.store(section.len(), Relaxed);
        let result = work();
        window.length.store(0, Relaxed);
        result
    }
}

impl Default for ShownBytes {
    fn default() -> ShownBytes {
        ShownBytes::Own(Bytes::default())
    }
}

impl Deref for ShownBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            ShownBytes::Own(bytes) => bytes,
            ShownBytes::Section(window) => {
                let length = window.length.load(Relaxed);
                if length == 0 {
                    return &[];
                }
                // SAFETY: `SectionWindow::during` borrows the section while its length is set, and nothing that
                // is read from it outlives the question that is asked meanwhile.
                unsafe { std::slice::from_raw_parts(window.section.load(Relaxed), length) }
            }
            ShownBytes::Header(window) => {
                let header = &window.header;
                // SAFETY: the words' own bytes, which `SectionWindow::during` changes before something runs that reads
                // them, and not while it does.
                unsafe { std::slice::from_raw_parts(header.as_ptr().cast(), size_of_val(header)) }
            }
        }
    }
}
