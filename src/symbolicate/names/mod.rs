//! Printed names of functions: what they say of the code, whichever language, compiler or recorder they are of.

mod swift_full;
pub(crate) mod swift_text;
