//! Handlers that were there before ours: the process ends as it would have ended with them alone.

use std::path::Path;

use crate::child::play;
use crate::{Tests, Way, install, outer, tests};

pub fn trials() -> Tests {
    tests(&[
        (
            "a_handler_that_was_there_before_still_decides",
            earlier_handler,
        ),
        (
            "a_handler_for_one_time_that_returns_does_not_keep_the_process_alive",
            handler_for_one_time,
        ),
    ])
}

pub fn role(role: &str, folder: &Path) -> bool {
    match role {
        "earlier_handler" => {
            extern "C" fn leave(_: i32) {
                // SAFETY: _exit is async-signal-safe.
                unsafe { libc::_exit(42) };
            }
            // SAFETY: the handler only leaves.
            unsafe { libc::signal(libc::SIGSEGV, leave as *const () as libc::sighandler_t) };
            let _monitor = install(folder);
            outer(Way::Null);
        }
        "handler_for_one_time" => {
            extern "C" fn returns(_: i32) {}
            // SAFETY: the handler does nothing; the structure lives across the call.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = returns as *const () as usize;
                action.sa_flags = libc::SA_RESETHAND;
                libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut());
            }
            let _monitor = install(folder);
            outer(Way::Null);
        }
        _ => return false,
    }
    true
}

fn earlier_handler() {
    let ended = play("earlier_handler");
    assert_eq!(ended.status.code(), Some(42), "{}", ended.stderr);
    assert_eq!(
        ended.report().event.unwrap().signal.unwrap().name,
        "SIGSEGV"
    );
}

fn handler_for_one_time() {
    let ended = play("handler_for_one_time");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{:?}", ended.status);
    assert!(ended.report().event.unwrap().fatal);
}
