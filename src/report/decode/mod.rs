//! From a section's map to the model: takes what it knows, keeps what it does not, tells what is wrong.

mod damages;
mod frames;
mod sections;
mod values;

pub(crate) use damages::Damages;

/// Reads the values of one section, which is known to be well-formed and shallow.
pub(crate) struct Decoder<'a, 'd> {
    pub(crate) bytes: &'a [u8],
    pub(crate) at: usize,
    pub(crate) damages: &'d mut Damages,
}
