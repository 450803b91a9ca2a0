//! Tests by tools that a bare machine may lack: each is left out where its tool is missing, and the last
//! lines say which and what brings it. With `WEDJAT_REQUIRE_TOOLS=1` it fails instead.

#[cfg(all(feature = "symbolicate", target_os = "linux", target_arch = "x86_64"))]
#[path = "../support/mod.rs"]
mod support;
mod tools;

#[cfg(all(feature = "symbolicate", target_os = "linux", target_arch = "x86_64"))]
mod owners;
#[cfg(all(feature = "symbolicate", target_os = "linux", target_arch = "x86_64"))]
mod symbolicate;

fn main() {
    let tests = tools::Tests::new();
    #[cfg(all(feature = "symbolicate", target_os = "linux", target_arch = "x86_64"))]
    let tests = owners::add(symbolicate::add(tests));
    tests.run();
}
