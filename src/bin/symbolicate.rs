//! The `symbolicate` binary.
fn main() {}
