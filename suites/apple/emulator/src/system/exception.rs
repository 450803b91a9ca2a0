//! What the CPU can't go on with: to the exception ports first (`mach/exception_types.h`,
//! `mach/mach_exc.defs`), to the signal handlers then.

use unicorn_engine::uc_error;

use super::{kern, signal};
use crate::cpu::{self, Fault};
use crate::machine::{Exit, Key, Machine, Outcome};
use crate::ports::{Object, TASK};

const EXC_BAD_ACCESS: u32 = 1;
const EXC_BAD_INSTRUCTION: u32 = 2;
const EXC_ARITHMETIC: u32 = 3;
const EXC_BREAKPOINT: u32 = 6;
const EXC_GUARD: u32 = 12;
const EXCEPTION_DEFAULT: u32 = 1;
const EXCEPTION_STATE_IDENTITY: u32 = 3;
const MACH_EXCEPTION_CODES: u32 = 0x8000_0000;

/// Plays its functions.
pub fn call(m: &mut Machine, name: &str, a: &[u64; 8]) -> Option<Outcome> {
    Some(match name {
        // (task, mask, port, behavior, flavor)
        "task_set_exception_ports" => {
            for kind in (1..14).filter(|k| a[1] >> k & 1 == 1) {
                m.signals
                    .exception_ports
                    .insert(kind, (a[2] as u32, a[3] as u32, a[4] as u32));
            }
            Outcome::Return(kern::SUCCESS)
        }
        // (task, mask, masks, &count, ports, behaviors, flavors)
        "task_get_exception_ports" => {
            let mut count = 0;
            for kind in (1..14u32).filter(|k| a[1] >> k & 1 == 1) {
                if let Some((port, behavior, flavor)) =
                    m.signals.exception_ports.get(&kind).copied()
                {
                    for (at, value) in [
                        (a[2], 1 << kind),
                        (a[4], port),
                        (a[5], behavior),
                        (a[6], flavor),
                    ] {
                        m.write_u32(at + 4 * count, value);
                    }
                    count += 1;
                }
            }
            m.write_u32(a[3], count as u32);
            Outcome::Return(kern::SUCCESS)
        }
        _ => return None,
    })
}

/// Raises what stopped the CPU. Returns whether the thread goes on at once.
pub fn raise(
    m: &mut Machine,
    fault: Option<Fault>,
    interrupt: Option<u32>,
    error: Option<uc_error>,
) -> bool {
    let pc = m.registers().pc;
    let (kind, code, subcode, signal) = match (fault, interrupt, m.arm) {
        // EXC_I386_GPFLT 13: the address is none that a page can have, and the CPU does not say which
        (Some(f), _, false) if !is_canonical(f.address) => (EXC_BAD_ACCESS, 13, 0, signal::SIGSEGV),
        (_, Some(13), false) => (EXC_BAD_ACCESS, 13, 0, signal::SIGSEGV),
        // KERN_PROTECTION_FAILURE 2 is SIGBUS, KERN_INVALID_ADDRESS 1 SIGSEGV; the kernel's own rule
        (Some(f), _, _) if f.protected => (EXC_BAD_ACCESS, 2, f.address, signal::SIGBUS),
        (Some(f), ..) => (EXC_BAD_ACCESS, 1, f.address, signal::SIGSEGV),
        // arm64: QEMU's EXCP_UDEF 1, EXCP_BKPT 7
        (_, Some(7), true) => (EXC_BREAKPOINT, 1, pc, signal::SIGTRAP),
        (_, Some(1), true) => (EXC_BAD_INSTRUCTION, 1, pc, signal::SIGILL),
        // x86_64: the CPU's own numbers
        // 8: a fault while the CPU believes that it handles another one, which the system took over
        (_, Some(0 | 8), false) => (EXC_ARITHMETIC, 1, 0, signal::SIGFPE),
        (_, Some(3), false) => (EXC_BREAKPOINT, 2, 0, signal::SIGTRAP),
        (_, Some(6), false) => (EXC_BAD_INSTRUCTION, 1, 0, signal::SIGILL),
        (None, None, _)
            if error == Some(uc_error::INSN_INVALID) || error == Some(uc_error::EXCEPTION) =>
        {
            (EXC_BAD_INSTRUCTION, 1, 0, signal::SIGILL)
        }
        other => {
            let place = m.place(pc);
            m.exit = Some(Exit::Stuck(format!(
                "the CPU stopped at {place}: {other:?} {error:?}"
            )));
            return false;
        }
    };
    let signal = signal::Signal::fault(
        signal,
        code as u32,
        if kind == EXC_BAD_ACCESS { subcode } else { pc },
    );
    if m.trace {
        let place = m.place(pc);
        eprintln!(
            "[{:>12} t{}] exception {kind} code {code} {subcode:#x} at {place}",
            m.now, m.current
        );
    }
    triage(m, kind, [code, subcode], signal)
}

/// Whether the bits that no page needs are all alike, as x86_64 wants it.
fn is_canonical(address: u64) -> bool {
    matches!(address as i64 >> 47, 0 | -1)
}

/// The thread's ports first, the task's then, and the signal at last.
fn triage(m: &mut Machine, kind: u32, codes: [u64; 2], signal: signal::Signal) -> bool {
    let own = m.threads[m.current].exception_ports.get(&kind).copied();
    let port = own
        .or_else(|| m.signals.exception_ports.get(&kind).copied())
        .filter(|p| p.0 != 0);
    match port {
        Some(port) => post(m, kind, codes, port, signal),
        None => {
            signal::deliver(m, signal);
            m.exit.is_none()
        }
    }
}

/// A guarded port was to be taken away (`kern/exc_guard.h`): GUARD_TYPE_MACH_PORT 1 in the upper
/// three bits, the flavour kGUARD_EXC_DESTROY 1 from bit 32 on, the name below. It kills.
pub fn guard(m: &mut Machine, name: u32, guard: u64) -> Outcome {
    const SIGKILL: u32 = 9;
    let code = 1 << 61 | 1 << 32 | u64::from(name);
    let signal = signal::Signal::fault(SIGKILL, 1, 0);
    triage(m, EXC_GUARD, [code, guard], signal);
    Outcome::Raised
}

/// Sends the exception's message and leaves the thread waiting for the answer.
fn post(
    m: &mut Machine,
    kind: u32,
    codes: [u64; 2],
    (port, behavior, flavor): (u32, u32, u32),
    signal: signal::Signal,
) -> bool {
    let current = m.current;
    let reply = m.ports.add(Object::Reply(current), 1);
    let wide = behavior & MACH_EXCEPTION_CODES != 0;
    let identity = matches!(
        behavior & 0xff,
        EXCEPTION_DEFAULT | EXCEPTION_STATE_IDENTITY
    );
    let with_state = behavior & 0xff != EXCEPTION_DEFAULT;
    let mut body: Vec<u8> = vec![];
    let mut word = |value: u32| body.extend(value.to_le_bytes());
    if identity {
        // Body with two port descriptors: name, pad, pad and disposition and type.
        let thread = m.threads[current].port;
        m.ports.retain(thread);
        m.ports.retain(TASK);
        word(2);
        for name in [thread, TASK] {
            word(name);
            word(0);
            word(17 << 16);
        }
    }
    word(0); // NDR
    word(1);
    word(kind);
    word(2);
    for code in codes {
        word(code as u32);
        if wide {
            word((code >> 32) as u32);
        }
    }
    if with_state {
        let mut context = m.uc.context_alloc().expect("memory for a context");
        m.uc.context_save(&mut context)
            .expect("a context of this CPU");
        let state = cpu::thread_state(&context, m.arm);
        word(flavor);
        word(state.len() as u32 / 4);
        body.extend(state);
    }
    // mach_exception_raise 2405, _state 2406, _state_identity 2407; exception_raise 2401 ..
    let id = if wide { 2404 } else { 2400 } + (behavior & 0xff);
    let bits = 0x12 | 0x11 << 8 | if identity { 0x8000_0000u32 } else { 0 };
    let mut message: Vec<u8> = vec![];
    for value in [bits, body.len() as u32 + 24, reply, port, 0, id] {
        message.extend(value.to_le_bytes());
    }
    message.extend(body);
    match m.ports.get(port).map(|p| &mut p.object) {
        Some(Object::Receive(queue)) => queue.push_back(message),
        _ => {
            m.ports.remove(reply);
            signal::deliver(m, signal);
            return m.exit.is_none();
        }
    }
    m.wake(Key::Message(port), 1);
    m.signals.unanswered.insert(current, signal);
    m.settle(Outcome::Wait(
        Key::Exception(current),
        None,
        Box::new(|_, _| Outcome::Jump),
    ))
}

/// The server has answered: `RetCode` says whether the thread goes on as it stands.
pub fn answered(m: &mut Machine, thread: usize, message: &[u8]) {
    let word = |at: usize| {
        message
            .get(at..at + 4)
            .map_or(5, |b| u32::from_le_bytes(b.try_into().unwrap()))
    };
    // header 24, NDR 8, RetCode
    if word(32) != 0
        && let Some(signal) = m.signals.unanswered.remove(&thread)
    {
        m.threads[thread].pending.push_back(signal);
    }
    m.wake(Key::Exception(thread), 1);
}
