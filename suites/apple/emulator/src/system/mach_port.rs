//! Ports and messages (`mach/mach_port.h`, `mach/message.h`): as much as an exception server needs.

use super::{exception, kern};
use crate::machine::{Key, Machine, Outcome, Woken};
use crate::ports::Object;

const MACH_SEND_MSG: u64 = 1;
const MACH_RCV_MSG: u64 = 2;
const MACH_RCV_TIMEOUT: u64 = 0x100;
const MACH_SEND_INVALID_DEST: u64 = 0x1000_0003;
const MACH_RCV_INVALID_NAME: u64 = 0x1000_4002;
const MACH_RCV_TIMED_OUT: u64 = 0x1000_4003;
const MACH_RCV_TOO_LARGE: u64 = 0x1000_4004;

/// Plays its functions.
pub fn call(m: &mut Machine, name: &str, a: &[u64; 8]) -> Option<Outcome> {
    Some(match name {
        "mach_port_allocate" => {
            let port = m.ports.add(Object::Receive(Default::default()), 0);
            m.write_u32(a[2], port);
            Outcome::Return(kern::SUCCESS)
        }
        "mach_port_insert_right" => match m.ports.get(a[1] as u32) {
            Some(port) => {
                port.references += 1;
                Outcome::Return(kern::SUCCESS)
            }
            None => Outcome::Return(kern::INVALID_ARGUMENT),
        },
        "mach_port_deallocate" => {
            // KERN_INVALID_RIGHT
            Outcome::Return(if m.ports.release(a[1] as u32) {
                kern::SUCCESS
            } else {
                17
            })
        }
        // (task, name, right, delta): MACH_PORT_RIGHT_SEND 0
        "mach_port_mod_refs" if a[2] == 0 => match m.ports.get(a[1] as u32) {
            Some(port) => {
                port.references += a[3] as i32 as i64;
                Outcome::Return(kern::SUCCESS)
            }
            None => Outcome::Return(kern::INVALID_ARGUMENT),
        },
        // (task, name, guard, strict)
        "mach_port_guard" => match m.ports.get(a[1] as u32) {
            Some(port) => {
                port.guard = Some(a[2]);
                Outcome::Return(kern::SUCCESS)
            }
            None => Outcome::Return(kern::INVALID_ARGUMENT),
        },
        // A guarded port may not be taken away: EXC_GUARD (kern/ipc_mach... kGUARD_EXC_DESTROY 1)
        "mach_port_mod_refs" | "mach_port_destroy"
            if m.ports.get(a[1] as u32).is_some_and(|p| p.guard.is_some()) =>
        {
            let guard = m.ports.get(a[1] as u32).and_then(|p| p.guard).unwrap_or(0);
            exception::guard(m, a[1] as u32, guard)
        }
        "mach_port_mod_refs" | "mach_port_destroy" | "mach_port_destruct" => {
            m.wake(Key::Message(a[1] as u32), usize::MAX);
            Outcome::Return(if m.ports.remove(a[1] as u32).is_some() {
                kern::SUCCESS
            } else {
                15
            })
        }
        // (message, options, send size, receive limit, receive name, timeout in ms, notify)
        "mach_msg" => {
            if a[1] & MACH_SEND_MSG != 0 {
                let sent = send(m, a[0], a[2]);
                if sent != kern::SUCCESS {
                    return Some(Outcome::Return(sent));
                }
            }
            if a[1] & MACH_RCV_MSG == 0 {
                return Some(Outcome::Return(kern::SUCCESS));
            }
            let deadline =
                (a[1] & MACH_RCV_TIMEOUT != 0).then(|| m.now + (a[5] & 0xffff_ffff) * 1_000_000);
            receive(m, a[4] as u32, a[0], a[3], deadline)
        }
        _ => return None,
    })
}

fn send(m: &mut Machine, message: u64, size: u64) -> u64 {
    let bytes = m.read(message, size).unwrap_or_default();
    let Some(to) = m.read_u32(message + 8) else {
        return kern::INVALID_ADDRESS;
    };
    match m.ports.get(to).map(|p| &mut p.object) {
        Some(Object::Receive(queue)) => {
            queue.push_back(as_received(bytes));
            m.wake(Key::Message(to), 1);
            kern::SUCCESS
        }
        Some(Object::Reply(thread)) => {
            let thread = *thread;
            m.ports.remove(to);
            exception::answered(m, thread, &bytes);
            kern::SUCCESS
        }
        _ => MACH_SEND_INVALID_DEST,
    }
}

/// The receiver sees who sent it as the remote port, and the rights as they came: moved or made ones
/// (`mach/message.h`: dispositions 16 to 18; copies 19 and makes 20, 21 become those).
fn as_received(mut message: Vec<u8>) -> Vec<u8> {
    let word = |at: usize| u32::from_le_bytes(message[at..at + 4].try_into().unwrap());
    let (bits, remote, local) = (word(0), word(8), word(12));
    let moved = |disposition: u32| match disposition {
        19 | 20 => 17,
        21 => 18,
        other => other,
    };
    let bits = bits & 0xffff_0000 | moved(bits >> 8 & 0xff) | moved(bits & 0xff) << 8;
    for (at, value) in [(0, bits), (8, local), (12, remote)] {
        message[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    message
}

fn receive(m: &mut Machine, from: u32, at: u64, limit: u64, deadline: Option<u64>) -> Outcome {
    let Some(Object::Receive(queue)) = m.ports.get(from).map(|p| &mut p.object) else {
        return Outcome::Return(MACH_RCV_INVALID_NAME);
    };
    if let Some(message) = queue.pop_front() {
        // A trailer of the least kind (8 bytes) follows each message.
        if message.len() as u64 + 8 > limit {
            return Outcome::Return(MACH_RCV_TOO_LARGE);
        }
        m.write(at, &message);
        m.write(at + message.len() as u64, &[0, 0, 0, 0, 8, 0, 0, 0]);
        return Outcome::Return(kern::SUCCESS);
    }
    if deadline.is_some_and(|d| d <= m.now) {
        return Outcome::Return(MACH_RCV_TIMED_OUT);
    }
    Outcome::Wait(
        Key::Message(from),
        deadline,
        Box::new(move |m, woken| match woken {
            Woken::Late => Outcome::Return(MACH_RCV_TIMED_OUT),
            Woken::Up => receive(m, from, at, limit, deadline),
        }),
    )
}
