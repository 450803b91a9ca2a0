//! Libraries in C, compiled for a test.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes `libNAME.so` in the folder from a source, by the C compiler with these flags.
pub fn made(folder: &Path, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let file = folder.join(format!("{name}.c"));
    std::fs::write(&file, source).unwrap();
    let library = folder.join(format!("lib{name}.so"));
    let mut cc = Command::new("cc");
    cc.args(flags).args(["-shared", "-fPIC", "-o"]);
    let done = cc.arg(&library).arg(&file).status().unwrap();
    assert!(done.success(), "{cc:?}");
    library
}
