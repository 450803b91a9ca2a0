//! Keys under which importers keep what another recorder's report has beyond this format.

/// The key in a thread's `extra` under which importers keep what the frames of another layout had besides addresses
/// and names: a list of objects, each with the index of its `frame`.
pub(crate) const FRAME_FIELDS: &str = "frame_fields";

/// The key in them for the bytes from the frame's symbol to its address.
pub(crate) const SYMBOL_OFFSET: &str = "symbolLocation";

/// The key in a thread's `extra` for its number, as the report has it, where that is not its place in the list.
pub(crate) const NUMBER: &str = "number";

/// The key in an event's `extra` for the code by which the system ended the app: `FRONTBOARD 0x8BADF00D`.
pub(crate) const ENDED_BY: &str = "ended_by";
