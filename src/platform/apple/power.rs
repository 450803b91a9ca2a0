//! Heat and low-power mode, by notify(3): the states that go with two of the system's notifications.
//! The charge of the battery is IOKit's to give, and not read.
//!
//! The functions are looked up at run time: apps need not link them.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use super::symbol;
use crate::platform::surface::{Power, THERMAL};

/// `kOSThermalNotificationPressureLevelName` (libkern/OSThermalNotification.h).
static HEAT: NotifyState = NotifyState::new(c"com.apple.system.thermalpressurelevel");
/// Its state is 1 while the mode is on.
static LOW_POWER: NotifyState = NotifyState::new(c"com.apple.system.lowpowermode");

/// Levels of `OSThermalPressureLevel`: `Heavy` and `Trapping`. On iOS they go in tens, with `Light`
/// below `Moderate`.
const HEAVY: u64 = if cfg!(target_os = "macos") { 2 } else { 30 };
const TRAPPING: u64 = if cfg!(target_os = "macos") { 3 } else { 40 };

/// Queries the system's notifier. Not signal-safe: the first time it sends a message and waits.
pub fn read() -> Power {
    let heat = HEAT.state().map(|level| match level {
        0 => 0,
        1..HEAVY => 1,
        HEAVY..TRAPPING => 2,
        _ => 3,
    });
    Power {
        battery: None,
        thermal: heat.and_then(|level: usize| THERMAL.get(level).copied()),
        low_power: LOW_POWER.state().map(|mode| mode != 0),
    }
}

/// A notification's state.
struct NotifyState {
    name: &'static CStr,
    /// The token + 1 that we are registered by, for good; 0 before that.
    token: AtomicU64,
}

/// `NOTIFY_STATUS_OK` (notify.h), and the types of its functions.
const OK: u32 = 0;
type Register = unsafe extern "C" fn(name: *const c_char, token: *mut c_int) -> u32;
type GetState = unsafe extern "C" fn(token: c_int, state: *mut u64) -> u32;

impl NotifyState {
    const fn new(name: &'static CStr) -> NotifyState {
        NotifyState {
            name,
            token: AtomicU64::new(0),
        }
    }

    /// `None` where the system does not say.
    fn state(&self) -> Option<u64> {
        let token = self.token()?;
        let mut state = 0;
        // SAFETY: the function of that name has that type (notify.h); `state` lives across it.
        let known = unsafe {
            std::mem::transmute::<*mut c_void, GetState>(symbol(c"notify_get_state")?)(
                token, &mut state,
            )
        };
        (known == OK).then_some(state)
    }

    fn token(&self) -> Option<c_int> {
        let held = self.token.load(Ordering::Acquire);
        if let Some(token) = held.checked_sub(1) {
            return Some(token as c_int);
        }
        let mut token = 0;
        // SAFETY: as above, a C string, and a result that lives across the call.
        let made = unsafe {
            std::mem::transmute::<*mut c_void, Register>(symbol(c"notify_register_check")?)(
                self.name.as_ptr(),
                &mut token,
            )
        };
        if made != OK {
            return None;
        }
        // Two that come here at once are registered twice, which does no harm.
        let held = u64::from(token as u32) + 1;
        self.token.store(held, Ordering::Release);
        Some(token)
    }
}
