//! The helper thread counts the kernel's kills without allocating: where memory runs out, it does not end the app.

use std::time::{Duration, Instant};

use crate::{counting, deadline};

#[test]
fn counts_of_the_kernels_kills_allocate_nothing() {
    // What the tests beside it allocate would be counted too.
    let status = deadline::status(&mut deadline::one_test("counts::counted"));
    assert!(status.success(), "{status}");
}

#[test]
#[ignore = "counts all that its process allocates: `counts_of_the_kernels_kills_allocate_nothing` runs it in one of its own"]
fn counted() {
    let folder = tempfile::tempdir().unwrap();
    let monitor = wedjat::Monitor::builder("counts", "1")
        .directory(folder.path())
        .install();
    // Threads allocate while they begin.
    std::thread::sleep(Duration::from_millis(500));
    counting::arm();
    // Of a process at work kills are counted every five seconds.
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(100) {}
    std::thread::sleep(Duration::from_millis(5_400));
    assert_eq!(counting::disarm(), 0);
    drop(monitor.unwrap());
}
