//! Signals (`sys/signal.h`, `sys/_types/_ucontext64.h`, `mach/arm/_structs.h`): handlers on either
//! stack, with `siginfo` and `ucontext`, that return or don't.

use std::collections::HashMap;

use super::error;
use crate::cpu;
use crate::machine::{Exit, Machine, Outcome};

pub const SIGILL: u32 = 4;
pub const SIGTRAP: u32 = 5;
pub const SIGFPE: u32 = 8;
pub const SIGBUS: u32 = 10;
pub const SIGSEGV: u32 = 11;

const SA_ONSTACK: u32 = 1;
const SA_RESETHAND: u32 = 4;
const SA_NODEFER: u32 = 0x10;
const SS_ONSTACK: u32 = 1;
const SS_DISABLE: u32 = 4;
const EINVAL: u32 = 22;
const ESRCH: u32 = 3;

/// A signal on its way.
#[derive(Clone, Copy, Debug)]
pub struct Signal {
    /// Its number.
    pub number: u32,
    /// `si_code`.
    pub code: u32,
    /// `si_addr`.
    pub address: u64,
    /// The CPU raised it: it can be neither blocked nor ignored.
    pub synchronous: bool,
}

impl Signal {
    /// Raised by the CPU. `code` is that of the Mach exception.
    pub fn fault(number: u32, code: u32, address: u64) -> Signal {
        // SEGV_MAPERR 1, SEGV_ACCERR 2; BUS_ADRERR 2; ILL_ILLOPC 1; TRAP_BRKPT 1; FPE_INTDIV 7
        let code = match number {
            SIGFPE => 7,
            SIGBUS => 2,
            // A general protection fault has SEGV_NOOP.
            SIGSEGV if code == 13 => 0,
            SIGSEGV => code,
            _ => 1,
        };
        Signal {
            number,
            code,
            address,
            synchronous: true,
        }
    }

    /// Sent by a call.
    pub fn sent(number: u32) -> Signal {
        Signal {
            number,
            code: 0x10001,
            address: 0,
            synchronous: false,
        }
    }
}

/// `struct __sigaction` as the kernel takes it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Action {
    handler: u64,
    mask: u32,
    flags: u32,
}

/// The process's signal state.
#[derive(Default)]
pub struct Signals {
    actions: HashMap<u32, Action>,
    /// The task's exception ports by type.
    pub exception_ports: HashMap<u32, (u32, u32, u32)>,
    /// The signal that each waiting thread gets if its exception is not handled.
    pub unanswered: HashMap<usize, Signal>,
}

/// Plays its functions.
pub fn call(m: &mut Machine, name: &str, a: &[u64; 8]) -> Option<Outcome> {
    let current = m.current;
    Some(match name {
        // struct sigaction {handler, mask, flags}
        "sigaction" => {
            if a[0] == 0 || a[0] > 31 || a[0] == 9 || a[0] == 17 {
                return Some(error(m, EINVAL));
            }
            let old = m
                .signals
                .actions
                .get(&(a[0] as u32))
                .copied()
                .unwrap_or_default();
            if a[2] != 0 {
                m.write_u64(a[2], old.handler);
                m.write_u32(a[2] + 8, old.mask);
                m.write_u32(a[2] + 12, old.flags);
            }
            if a[1] != 0 {
                let handler = m.read_u64(a[1]).unwrap_or(0);
                let (mask, flags) = (
                    m.read_u32(a[1] + 8).unwrap_or(0),
                    m.read_u32(a[1] + 12).unwrap_or(0),
                );
                m.signals.actions.insert(
                    a[0] as u32,
                    Action {
                        handler,
                        mask,
                        flags,
                    },
                );
            }
            Outcome::Return(0)
        }
        // stack_t {sp, size, flags}
        "sigaltstack" => {
            let (thread, old) = (&m.threads[current], m.threads[current].alternate);
            let flags = if old.1 == 0 {
                SS_DISABLE
            } else if thread.on_alternate {
                SS_ONSTACK
            } else {
                0
            };
            if a[1] != 0 {
                m.write_u64(a[1], old.0);
                m.write_u64(a[1] + 8, old.1);
                m.write_u32(a[1] + 16, flags);
            }
            if a[0] != 0 {
                let disable = m.read_u32(a[0] + 16).unwrap_or(0) & SS_DISABLE != 0;
                let new = (
                    m.read_u64(a[0]).unwrap_or(0),
                    m.read_u64(a[0] + 8).unwrap_or(0),
                );
                if !disable && new.1 < 0x8000 {
                    return Some(error(m, 12)); // less than MINSIGSTKSZ: ENOMEM
                }
                m.threads[current].alternate = if disable { (0, 0) } else { new };
            }
            Outcome::Return(0)
        }
        "sigprocmask" | "pthread_sigmask" => {
            let old = m.threads[current].mask;
            if a[2] != 0 {
                m.write_u32(a[2], old);
            }
            if a[1] != 0 {
                let set = m.read_u32(a[1]).unwrap_or(0);
                m.threads[current].mask = match a[0] {
                    1 => old | set,
                    2 => old & !set,
                    _ => set,
                };
            }
            Outcome::Return(0)
        }
        "sigpending" => {
            let waiting = m.threads[current].pending.iter();
            let set = waiting.fold(0u32, |set, s| set | 1 << (s.number - 1));
            m.write_u32(a[0], set);
            Outcome::Return(0)
        }
        // (set, &signal): only for one that is pending already
        "sigwait" => {
            let set = m.read_u32(a[0]).unwrap_or(0);
            let pending = &mut m.threads[current].pending;
            let at = pending
                .iter()
                .position(|s| set >> (s.number - 1) & 1 == 1)?;
            let number = pending.remove(at).map_or(0, |s| s.number);
            m.write_u32(a[1], number);
            Outcome::Return(0)
        }
        "kill" => {
            if a[1] != 0 {
                m.threads[current]
                    .pending
                    .push_back(Signal::sent(a[1] as u32));
            }
            Outcome::Return(0)
        }
        // (port, signal)
        "__pthread_kill" => match m.ports.thread_of(a[0] as u32) {
            Some(index) => {
                if a[1] != 0 {
                    m.threads[index]
                        .pending
                        .push_back(Signal::sent(a[1] as u32));
                }
                Outcome::Return(0)
            }
            None => Outcome::Return(u64::from(ESRCH)),
        },
        // (ucontext, infostyle, token)
        "__sigreturn" => {
            let mcontext = m.read_u64(a[0] + 48).unwrap_or(0);
            let size = if m.arm { 272 } else { 168 };
            let state = m.read(mcontext + 16, size).unwrap_or_default();
            m.threads[current].on_alternate = m.read_u32(a[0]).unwrap_or(0) != 0;
            m.threads[current].mask = m.read_u32(a[0] + 4).unwrap_or(0);
            cpu::set_thread_state(&mut m.uc, m.arm, &state);
            let now = m.registers();
            m.uc.get_data_mut().shadow.resumed(m.arm, now);
            Outcome::Jump
        }
        _ => return None,
    })
}

/// Delivers what waits for the running thread and is not blocked.
pub fn deliver_pending(m: &mut Machine) {
    let mask = m.threads[m.current].mask;
    let pending = &mut m.threads[m.current].pending;
    let ready = pending
        .iter()
        .position(|s| s.synchronous || mask >> (s.number - 1) & 1 == 0);
    if let Some(signal) = ready.and_then(|i| pending.remove(i)) {
        deliver(m, signal);
    }
}

/// Delivers a signal to the running thread: its handler, or the default action.
pub fn deliver(m: &mut Machine, signal: Signal) {
    let action = m
        .signals
        .actions
        .get(&signal.number)
        .copied()
        .unwrap_or_default();
    let blocked = m.threads[m.current].mask >> (signal.number - 1) & 1 == 1;
    // SIGURG, SIGCONT, SIGCHLD, SIGIO, SIGWINCH, SIGINFO: nothing by default
    let harmless = matches!(signal.number, 16 | 19 | 20 | 23 | 28 | 29);
    match action.handler {
        1 if !signal.synchronous => {}
        0 if harmless => {}
        0 | 1 => m.exit = Some(Exit::Signal(signal.number)),
        _ if blocked && signal.synchronous => m.exit = Some(Exit::Signal(signal.number)),
        handler => enter(m, handler, action, signal),
    }
}

/// Builds `siginfo_t`, `ucontext_t` and `mcontext_t` on the handler's stack and goes to the
/// trampoline: `_sigtramp(handler, style, signal, info, ucontext, token)`.
fn enter(m: &mut Machine, handler: u64, action: Action, signal: Signal) {
    let registers = m.registers();
    let current = m.current;
    let (base, size) = m.threads[current].alternate;
    let was = m.threads[current].on_alternate;
    let alternate = action.flags & SA_ONSTACK != 0 && size != 0 && !was;
    let top = if alternate {
        base + size
    } else {
        registers.sp - 128
    };
    let mut context = m.uc.context_alloc().expect("memory for a context");
    m.uc.context_save(&mut context)
        .expect("a context of this CPU");
    let state = cpu::thread_state(&context, m.arm);
    // mcontext64: exception state 16, thread state, floating point state
    let rest = if m.arm { 528 } else { 524 };
    let mut mcontext = vec![0; 16];
    let at = if m.arm { 0 } else { 8 };
    mcontext[at..at + 8].copy_from_slice(&signal.address.to_le_bytes());
    mcontext.extend(&state);
    mcontext.extend(vec![0; rest]);
    let mcontext_at = (top - mcontext.len() as u64) & !63;
    let mut ucontext = vec![];
    ucontext.extend(u32::from(was).to_le_bytes());
    ucontext.extend(m.threads[current].mask.to_le_bytes());
    for word in [
        if alternate { base } else { 0 },
        if alternate { size } else { 0 },
        0,
        0,
        mcontext.len() as u64,
        mcontext_at,
    ] {
        ucontext.extend(word.to_le_bytes());
    }
    let ucontext_at = (mcontext_at - 64) & !15;
    // siginfo_t: signo, errno, code, pid, uid, status, addr, ...
    let mut info = vec![0; 104];
    info[0..4].copy_from_slice(&signal.number.to_le_bytes());
    info[8..12].copy_from_slice(&signal.code.to_le_bytes());
    info[12..16].copy_from_slice(&(if signal.synchronous { 0u32 } else { 4242 }).to_le_bytes());
    info[24..32].copy_from_slice(&signal.address.to_le_bytes());
    let info_at = (ucontext_at - 112) & !15;
    let written = m.write(mcontext_at, &mcontext)
        && m.write(ucontext_at, &ucontext)
        && m.write(info_at, &info);
    let writable = m
        .memory
        .region(info_at)
        .is_some_and(|(start, _, bits)| start <= info_at && bits & 2 != 0);
    let trampoline = crate::loader::resolve(m, "__sigtramp");
    let (Some(trampoline), true, true) = (trampoline, written, writable) else {
        // No stack to handle it on: the kernel kills.
        m.exit = Some(Exit::Signal(signal.number));
        return;
    };
    m.threads[current].on_alternate = was || alternate;
    m.threads[current].mask |= action.mask;
    if action.flags & SA_NODEFER == 0 {
        m.threads[current].mask |= 1 << (signal.number - 1);
    }
    if action.flags & SA_RESETHAND != 0 {
        m.signals.actions.remove(&signal.number);
    }
    let arguments = [
        handler,
        u64::from(action.flags),
        u64::from(signal.number),
        info_at,
        ucontext_at,
        0,
    ];
    for (index, value) in arguments.into_iter().enumerate() {
        cpu::set_argument(&mut m.uc, m.arm, index, value);
    }
    let sp = info_at - if m.arm { 0 } else { 8 };
    cpu::set(&mut m.uc, m.arm, trampoline, sp);
    let shadow = &mut m.uc.get_data_mut().shadow;
    let signal = crate::shadow::Signal {
        alternate,
        // The exception state, then registers in order.
        saved_pc: mcontext_at + 16 + 8 * if m.arm { 32 } else { 16 },
    };
    shadow.interrupted(m.arm, registers, signal);
}
