//! What the system's notifier says (`notify.h`, `libkern/OSThermalNotification.h`): the states that go
//! with names. A test sets them; until then heat is nominal and low-power mode off, and nothing else
//! has a state.

use crate::machine::{Machine, Outcome};

/// Plays its functions.
pub fn call(m: &mut Machine, name: &str, a: &[u64; 8]) -> Option<Outcome> {
    Some(Outcome::Return(match name {
        // (name, &state): whether it has one
        "__emulator_notify_state" => {
            let name = m.read_text(a[0]);
            match state(m, &name) {
                Some(state) => u64::from(m.write_u64(a[1], state)),
                None => 0,
            }
        }
        // (name, state)
        "__emulator_set_state" => {
            let name = m.read_text(a[0]);
            m.states.insert(name, a[1]);
            0
        }
        _ => return None,
    }))
}

fn state(m: &Machine, name: &str) -> Option<u64> {
    let at_first = match name {
        "com.apple.system.thermalpressurelevel" | "com.apple.system.lowpowermode" => Some(0),
        _ => None,
    };
    m.states.get(name).copied().or(at_first)
}
