//! Scopes of a watched thread that may take as long as they like.

use std::marker::PhantomData;

use super::heartbeat::{HEARTBEAT, Heartbeat};

/// A scope that may take as long as it likes: until it is dropped, see [`may_block`]. It stays on its thread.
#[derive(Debug)]
#[must_use = "the pause ends when the guard is dropped"]
pub struct MayBlock {
    heart: Option<Heartbeat>,
    _same_thread: PhantomData<*const ()>,
}

/// Begins a scope that may take as long as it likes, on the calling thread: a dialog, or a loop of a toolkit, that runs within
/// a turn. The stall before it ends, and no new one begins until the guard is dropped. Then the turns that had begun go on,
/// and their time is counted from there.
///
/// Turns that begin within the scope are watched as ever: a dialog whose events are turns of their own still has its
/// freezes reported. Scopes nest. Before the first beat, a scope ends the launch. On a thread that is not watched it does nothing.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("wedjat-pause-{}", std::process::id()));
/// # let monitor = wedjat::Monitor::builder("MyApp", "1").directory(&dir).stall(wedjat::Stall::default()).install()?;
/// # fn show_message_box() { std::thread::sleep(std::time::Duration::from_millis(300)) }
/// monitor.heartbeat().turn(|| {
///     let pause = wedjat::threads::may_block();
///     show_message_box(); // the user takes his time
///     drop(pause);
/// });
/// assert_eq!(monitor.stats().stalls, 0);
/// # drop(monitor);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn may_block() -> MayBlock {
    let heart = HEARTBEAT.own();
    heart.into_iter().for_each(Heartbeat::pause);
    MayBlock {
        heart,
        _same_thread: PhantomData,
    }
}

/// Begins a pause of the calling thread, as [`may_block`] does, for those who cannot keep a guard.
#[cfg(feature = "ffi")]
pub(crate) fn pause() {
    HEARTBEAT.own().into_iter().for_each(Heartbeat::pause);
}

/// Ends the last pause of the calling thread.
#[cfg(feature = "ffi")]
pub(crate) fn resume() {
    HEARTBEAT.own().into_iter().for_each(Heartbeat::resume);
}

impl Drop for MayBlock {
    fn drop(&mut self) {
        self.heart.into_iter().for_each(Heartbeat::resume);
    }
}
