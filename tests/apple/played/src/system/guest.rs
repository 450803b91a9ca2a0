//! What a test program asks of the machine itself: no part of Darwin. Looked up by `dlsym`.

use crate::hunt;
use crate::machine::{Machine, Outcome};

/// Plays its functions.
pub fn call(m: &mut Machine, name: &str, a: &[u64; 8]) -> Option<Outcome> {
    Some(Outcome::Return(match name {
        // (pairs of address and certainty, how many pairs, ended at the root)
        "__played_judge" => {
            let word = |k: u64| m.read_u64(a[0] + 8 * k).unwrap_or(0);
            let chain: Vec<_> = (0..a[1])
                .map(|k| (word(2 * k), word(2 * k + 1) != 0))
                .collect();
            hunt::judge(m, &chain, a[2] != 0);
            0
        }
        // (0 names of ports, 1 references to them, 2 bytes that are mapped)
        "__played_count" => match a[0] {
            0 => m.ports.names(),
            1 => m.ports.references(),
            _ => m.memory.mapped(),
        },
        // (nanoseconds): the machine sleeps for so long
        "__played_sleep" => {
            m.asleep += a[0];
            0
        }
        // (yes or no): a debugger is attached
        "__played_trace" => {
            m.traced = a[0] != 0;
            0
        }
        _ => return None,
    }))
}
