//! What a thread reports about itself, found by the thread: turns, polls, and scopes that may take as long as they like.

use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::heartbeat::{Busy, Heartbeat, HeartbeatState, own_heartbeat, own_state};
use super::ping::of_main_queue;
use crate::platform::Thread;

/// The system's id of the calling thread, as reports have it.
pub fn id() -> u64 {
    Thread::current().id()
}

/// Begins a turn of the calling thread, as [`Heartbeat::begin`] does; nothing on a thread that is not watched.
#[inline]
pub fn begin() {
    own_state().into_iter().for_each(HeartbeatState::begin);
}

/// Ends a turn of the calling thread, as [`Heartbeat::end`] does; nothing on a thread that is not watched.
#[inline]
pub fn end() {
    own_state().into_iter().for_each(HeartbeatState::end);
}

/// A future each of whose polls is a turn of the thread that polls it, see [`polls`].
#[derive(Debug)]
#[must_use = "a future does nothing until it is polled"]
pub struct Polls<F>(F);

/// Makes each poll of `future` a turn of the thread that polls it, if that thread is watched: for an executor that runs on the
/// watched thread.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("wedjat-polls-{}", std::process::id()));
/// # let monitor = wedjat::Monitor::builder("MyApp", "1.2.3").directory(&dir).stall(wedjat::Stall::default()).install()?;
/// use std::{future, pin::pin, task};
/// let mut task = pin!(wedjat::threads::polls(async { future::ready(7).await }));
/// let mut context = task::Context::from_waker(task::Waker::noop());
/// assert_eq!(task.as_mut().poll(&mut context), task::Poll::Ready(7));
/// # use std::future::Future;
/// assert_eq!(monitor.stats().turns, 1);
/// # drop(monitor);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn polls<F: Future>(future: F) -> Polls<F> {
    Polls(future)
}

impl<F: Future> Future for Polls<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _turn: Option<Busy> = own_heartbeat().map(Heartbeat::busy);
        // SAFETY: the field is pinned whenever this is: it is never moved out, and `Polls` has no `Drop` of its own.
        let future = unsafe { self.map_unchecked_mut(|polls| &mut polls.0) };
        future.poll(context)
    }
}

/// A scope that may take as long as it likes: until it is dropped, see [`may_block`]. It stays on its thread.
#[derive(Debug)]
#[must_use = "the pause ends when the guard is dropped"]
pub struct MayBlock {
    heart: Option<Heartbeat>,
    _same_thread: PhantomData<*const ()>,
}

/// The heartbeat of the calling thread, or of the main queue, if the thread works that off.
fn own_or_served() -> Option<Heartbeat> {
    own_heartbeat().or_else(of_main_queue)
}

/// Begins a pause of the calling thread, for a dialog or a toolkit's loop that runs within a turn. A stall in progress ends, and
/// no new one begins until the guard is dropped. The turns from before the pause then continue, and their time counts from
/// there; not those of a member of a pool ([`enter`](crate::threads::enter)), which may have left its loop: it rests until its
/// next turn.
///
/// Turns that begin within the pause are watched: freezes of a dialog with turns of its own are reported. Pauses nest. Before
/// the first beat, a pause ends the launch. Does nothing on a thread that is not watched.
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
    let heart = own_or_served();
    heart.into_iter().for_each(Heartbeat::pause);
    MayBlock {
        heart,
        _same_thread: PhantomData,
    }
}

/// Begins a pause of the calling thread, as [`may_block`] does, for those who cannot keep a guard.
#[cfg(feature = "ffi")]
pub(crate) fn pause() {
    own_or_served().into_iter().for_each(Heartbeat::pause);
}

/// Ends the last pause of the calling thread.
#[cfg(feature = "ffi")]
pub(crate) fn resume() {
    own_or_served().into_iter().for_each(Heartbeat::resume);
}

impl Drop for MayBlock {
    fn drop(&mut self) {
        self.heart.into_iter().for_each(Heartbeat::resume);
    }
}
