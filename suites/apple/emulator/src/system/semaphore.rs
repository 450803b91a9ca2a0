//! Mach semaphores (`mach/semaphore.h`, `mach/sync_policy.h`).

use super::kern;
use crate::machine::{Key, Machine, Outcome, Woken};
use crate::ports::Object;

/// Plays its functions.
pub fn call(m: &mut Machine, name: &str, a: &[u64; 8]) -> Option<Outcome> {
    Some(match name {
        "semaphore_create" => {
            let port = m.ports.add(Object::Semaphore(a[3] as i32 as i64), 1);
            m.write_u32(a[1], port);
            Outcome::Return(kern::SUCCESS)
        }
        "semaphore_destroy" => match m.ports.remove(a[1] as u32) {
            Some(_) => {
                m.wake(Key::Semaphore(a[1] as u32), usize::MAX);
                Outcome::Return(kern::SUCCESS)
            }
            None => Outcome::Return(kern::INVALID_ARGUMENT),
        },
        "semaphore_signal" => {
            let port = a[0] as u32;
            let Some(Object::Semaphore(_)) = m.ports.get(port).map(|p| &p.object) else {
                return Some(Outcome::Return(kern::INVALID_ARGUMENT));
            };
            if m.wake(Key::Semaphore(port), 1) == 0
                && let Some(Object::Semaphore(count)) = m.ports.get(port).map(|p| &mut p.object)
            {
                *count += 1;
            }
            Outcome::Return(kern::SUCCESS)
        }
        "semaphore_wait" => wait(m, a[0] as u32, None),
        // mach_timespec_t {unsigned seconds, int nanoseconds} by value, in one register
        "semaphore_timedwait" => {
            let length = (a[1] & 0xffff_ffff) * 1_000_000_000 + (a[1] >> 32);
            let deadline = m.now.saturating_add(length);
            wait(m, a[0] as u32, Some(deadline))
        }
        _ => return None,
    })
}

fn wait(m: &mut Machine, port: u32, deadline: Option<u64>) -> Outcome {
    match m.ports.get(port).map(|p| &mut p.object) {
        Some(Object::Semaphore(count)) if *count > 0 => {
            *count -= 1;
            Outcome::Return(kern::SUCCESS)
        }
        Some(Object::Semaphore(_)) => Outcome::Wait(
            Key::Semaphore(port),
            deadline,
            Box::new(move |m, woken| {
                Outcome::Return(match woken {
                    Woken::Late => kern::OPERATION_TIMED_OUT,
                    Woken::Up if m.ports.get(port).is_none() => kern::TERMINATED,
                    Woken::Up => kern::SUCCESS,
                })
            }),
        ),
        _ => Outcome::Return(kern::INVALID_ARGUMENT),
    }
}
