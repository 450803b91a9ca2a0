//! The recorder as a static library, by its C interface alone.

pub use wedjat::ffi;
