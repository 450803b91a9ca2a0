//! What to say when a file that is mapped is made shorter under our hands.

use std::io::Write;

/// From now on a read behind the end of a mapped file ends the process with words and exit code 3, where
/// the system would end it with SIGBUS alone. What was printed before stays printed.
#[cfg(unix)]
pub(super) fn install() {
    use std::os::fd::AsFd;
    const MESSAGE: &[u8] =
        b"symbolicate: error: a debug file or table got shorter while it was read: run again once it is whole\n";
    // A descriptor of its own: `stderr()` takes a lock.
    let Ok(descriptor) = std::io::stderr().as_fd().try_clone_to_owned() else {
        return;
    };
    let errors = std::fs::File::from(descriptor);
    let action = move || {
        super::interrupt::remove_temporary();
        let _ = (&errors).write(MESSAGE);
        signal_hook::low_level::exit(i32::from(super::NOTHING));
    };
    // SAFETY: the action is async-signal-safe: unlink(2), one write(2) to a descriptor that stays open, then
    // _exit(2).
    // Where the system refuses, the signal does what it always does.
    let _ = unsafe { signal_hook::low_level::register(signal_hook::consts::SIGBUS, action) };
}
