//! What the pthread library calls the kernel for (`sys/ulock.h`, `bsdthread_create`): threads and
//! waiting on a word of memory.

use crate::machine::{Key, Machine, Outcome};

/// Offset of `errno` in the `pthread` structure of `system/thread.h`.
pub const ERRNO: u64 = 8;
/// Offset of the port's name.
const PORT: u64 = 12;
/// Offset of the thread id.
const TID: u64 = 16;
/// Offset of how many threads it has suspended.
const HOLDS: u64 = 32;
/// Offset of the dispatch queue that the thread works off.
pub const QUEUE: u64 = 24;

/// Writes what the kernel knows of a new thread into its structure.
pub fn introduce(m: &mut Machine, index: usize) {
    let (at, port, tid) = (
        m.threads[index].pthread,
        m.threads[index].port,
        m.threads[index].tid,
    );
    m.write_u64(at, at);
    m.write_u32(at + PORT, port);
    m.write_u64(at + TID, tid);
}

/// Writes how many threads the current one holds suspended, which has changed, into its structure.
pub fn holds(m: &mut Machine, more: bool) {
    let thread = &mut m.threads[m.current];
    let holds = &mut thread.holds;
    *holds = if more {
        *holds + 1
    } else {
        holds.saturating_sub(1)
    };
    let (at, now) = (thread.pthread + HOLDS, *holds);
    m.write_u32(at, now);
}

/// Plays its functions.
pub fn call(m: &mut Machine, name: &str, a: &[u64; 8]) -> Option<Outcome> {
    Some(match name {
        // (function, pthread, stack top)
        "__emulator_thread_create" => {
            let sp = if m.arm { a[2] } else { a[2] - 8 };
            let index = m.spawn(a[0], sp, a[1], &[a[1]]);
            m.threads[index].mask = m.threads[m.current].mask;
            introduce(m, index);
            Outcome::Return(0)
        }
        // (stack to unmap, size, word to set to 1 and to wake)
        "__emulator_thread_exit" => {
            m.write_u32(a[2], 1);
            m.wake(Key::Word(a[2]), usize::MAX);
            if a[0] != 0 {
                let Machine { memory, uc, .. } = m;
                memory.unmap(uc, a[0], a[1]);
            }
            Outcome::ThreadExit
        }
        // (word, expected, nanoseconds or 0): 0, or -1 when it was too late
        "__emulator_word_wait" => {
            if m.read_u32(a[0]) != Some(a[1] as u32) {
                return Some(Outcome::Return(0));
            }
            let deadline = (a[2] != 0).then(|| m.now.saturating_add(a[2]));
            Outcome::Wait(
                Key::Word(a[0]),
                deadline,
                Box::new(|_, woken| {
                    Outcome::Return(if woken == crate::machine::Woken::Up {
                        0
                    } else {
                        u64::MAX
                    })
                }),
            )
        }
        "__emulator_word_wake" => Outcome::Return(m.wake(Key::Word(a[0]), a[1] as usize) as u64),
        "__emulator_set_name" => {
            let name = m.read_text(a[0]);
            let current = m.current;
            m.threads[current].name = name;
            Outcome::Return(0)
        }
        "pthread_from_mach_thread_np" => {
            let index = m.ports.thread_of(a[0] as u32);
            Outcome::Return(index.map_or(0, |i| m.threads[i].pthread))
        }
        "sched_yield" | "swtch_pri" => Outcome::Yield(0),
        _ => return None,
    })
}
