//! The symbolicator: turns reports into functions, files and lines.
//!
//! [`DebugFiles`] knows the debug files. [`Symbolicator`] names a report's frames by them, and
//! [`Addresses`] looks up single addresses of one image, in place of `atos`. All three are `Send + Sync`: one
//! symbolicator serves any number of threads. A debug file is opened when a frame first points into it, and
//! at most [`limit`](DebugFiles::limit) of them stay open. A [`Cache`] keeps their lookup tables on disk,
//! for the next run.
//!
//! ```
//! use wedjat::report::{Found, Frame, Image, Report, Thread};
//! use wedjat::symbolicate::{DebugFiles, Symbolicator};
//!
//! let mut files = DebugFiles::new();
//! files.add("testdata/macho/arm64/kiosk.dSYM".as_ref())?; // dSYMs, archives, or folders of them
//! let id = files.ids().next().expect("a debug file").to_vec();
//! let symbolicator = Symbolicator::new(files);
//!
//! // As wedjat::report::read() returns it: one frame, in an image that was loaded at 0x104c3c000.
//! let mut image = Image::default();
//! image.id = id;
//! image.base = 0x1_04c3_c000;
//! image.base_svma = 0x1_0000_0000;
//! let mut frame = Frame::default();
//! frame.pc = 0x1_04c3_c548;
//! frame.found = Found::Context;
//! frame.image = Some(0);
//! let mut thread = Thread::default();
//! thread.frames.push(frame);
//! let mut report = Report::default();
//! report.images.push(image);
//! report.threads.push(thread);
//! let named = symbolicator.symbolicate(report);
//! for source in named.threads[0].frames[0].frames.iter() {
//!     println!("{:?} at {:?}:{:?}", source.function, source.file, source.line);
//! }
//! # assert_eq!(named.threads[0].frames[0].frames[0].function.as_deref(), Some("kiosk_fault"));
//! # Ok::<(), wedjat::symbolicate::Error>(())
//! ```

mod addresses;
mod blame;
#[doc(hidden)]
pub mod command;
mod debug_files;
mod debug_info;
mod error;
mod files;
pub mod format;
mod frame;
mod gathered;
pub mod group;
mod image_files;
pub mod import;
mod keys;
mod memo;
mod names;
mod pc;
mod recorded;
mod redact;
mod samples;
mod symbolicator;
mod tail_calls;

pub use addresses::{Addresses, Ambiguous, Frames};
pub use debug_files::{Added, DebugFiles};
pub use error::Error;
pub use files::cache::Cache;
#[cfg(feature = "debuginfod")]
pub use files::debuginfod::{Debuginfod, Fetching};
pub use frame::{
    Awaiting, MissingFile, Owner, PhysicalFrame, Source, SourceFrame, Stack, Symbolicated, Unread,
    id_text, image_file_name,
};
pub use pc::Pc;
pub use redact::redact;
pub use symbolicator::Symbolicator;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks it, also where a thread that held it has panicked: what the locks guard here is whole at every moment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A name of any language in its source form, as frames have it: for the fuzzer.
#[cfg(feature = "__internals")]
#[doc(hidden)]
pub fn demangled(name: &str) -> String {
    names::demangle::demangle(name).into_owned()
}
