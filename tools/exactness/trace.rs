//! Runs a program one instruction at a time, all of its threads, and compares at each stop.

use std::collections::HashMap;
use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64};
use framehop::{MustNotAllocateDuringUnwind, Unwinder as _};
use wedjat::unwind::{Arch, Found, RawFrame, Registers, RuleSource, Unwinder, WalkEnd};

use crate::remote::{Mapped, Remote};
use crate::shadow::Shadow;
use crate::table::{Outcome, Table};

type Error = Box<dyn std::error::Error>;

#[derive(Default)]
struct Thread {
    shadow: Shadow,
    /// What stood at the last stop: pc, sp, kind of instruction, length where it is a call.
    before: Option<(u64, u64, Kind)>,
    /// A signal is being delivered: its handler may be entered by the next step.
    delivering: bool,
    /// Stops of a function that has left its frame behind, as `longjmp` and the raising of
    /// exceptions do: whose caller it is shows by where it jumps to.
    leaving: Option<Vec<Stop>>,
}

/// What both unwinders made of one stop.
#[derive(Default)]
struct Stop {
    pc: u64,
    frames: Vec<RawFrame>,
    sources: Vec<RuleSource>,
    end: Option<WalkEnd>,
    theirs: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Call,
    Return,
    Jump,
    /// A system call, by number.
    System(u64),
    Other,
}

/// What is run, and how much of it is looked at.
pub struct Plan<'a> {
    /// The program and its arguments.
    pub command: &'a [OsString],
    /// Each so manieth stop is judged.
    pub stride: u64,
    /// After so many instructions it is ended.
    pub most: u64,
    /// Walks know the program counter and the stack pointer alone, as of a thread that is blocked in the kernel.
    pub blocked: bool,
}

impl Plan<'_> {
    /// All of a program that is to succeed.
    pub fn whole(command: &[OsString], blocked: bool) -> Plan<'_> {
        Plan {
            command,
            stride: 1,
            most: u64::MAX,
            blocked,
        }
    }
}

/// Steps through a program; says how many stops there were.
pub fn run(plan: &Plan<'_>, table: &mut Table) -> Result<u64, Error> {
    let pid = spawn(plan.command)?;
    let mut remote = Remote::new(pid);
    let mut mapped = Mapped::new();
    let mut threads: HashMap<i32, Thread> = HashMap::new();
    threads.insert(pid, Thread::default());
    let mut unwinder = Unwinder::new();
    let mut cache = CacheX86_64::<MustNotAllocateDuringUnwind>::new_in();
    let mut chain = Vec::new();
    let mut stop = Stop::default();
    let mut stale = true;
    let mut stops = 0u64;
    let mut tid = pid;
    // The stop of exec itself comes first, already waited for.
    let mut pending = 0;
    loop {
        if let Some(thread) = threads.get_mut(&tid) {
            let user = registers(tid)?;
            if stale {
                mapped.refresh(&remote);
                stale = false;
            }
            remote.forget();
            let code = remote.bytes(user.rip, 15);
            if code.is_empty() && pending == 0 {
                pending = libc::SIGSEGV;
            }
            follow(thread, &user, &remote);
            if let Some((.., Kind::Jump | Kind::Return)) = thread.before
                && let Some(stops) = thread.leaving.take()
            {
                for stop in stops {
                    thread.shadow.chain_of_jump(stop.pc, user.rip, &mut chain);
                    stop.count(&chain, &mapped, table);
                }
            }
            let kind = kind_of(&code, user.rax);
            if matches!(kind, Kind::System(9..=11 | 25)) {
                stale = true;
            }
            if !code.is_empty() {
                stops += 1;
            }
            if stops >= plan.most {
                // SAFETY: a child of ours that was not waited for to its end.
                unsafe { libc::kill(pid, libc::SIGKILL) };
                return Ok(stops);
            }
            if !code.is_empty() && stops.is_multiple_of(plan.stride) {
                let target = (kind == Kind::Return)
                    .then(|| remote.bytes(user.rsp, 8))
                    .and_then(|bytes| bytes.try_into().ok())
                    .map(u64::from_le_bytes);
                thread.shadow.chain(user.rip, user.rsp, target, &mut chain);
                stop.pc = user.rip;
                unwind(
                    &mut stop,
                    (&user, plan.blocked),
                    &mut unwinder,
                    &mut cache,
                    &mut mapped,
                    &mut remote,
                );
                if let Some(stops) = &mut thread.leaving {
                    stops.push(std::mem::take(&mut stop));
                } else {
                    stop.count(&chain, &mapped, table);
                }
            }
            thread.before = Some((user.rip, user.rsp, kind));
            thread.delivering = pending != 0;
            step(tid, pending);
        }
        // The next thread that has stopped.
        let mut status = 0;
        // SAFETY: `status` lives across the call. Only what this thread traces is waited for.
        tid = unsafe { libc::waitpid(-1, &mut status, libc::__WALL | libc::__WNOTHREAD) };
        if tid < 0 {
            return Ok(stops);
        }
        pending = 0;
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            threads.remove(&tid);
            if tid == pid {
                let good = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
                if !good && plan.stride == 1 {
                    return Err(format!("{:?} ended with {status:#x}", plan.command).into());
                }
                return Ok(stops);
            }
            tid = 0;
            continue;
        }
        let signal = libc::WSTOPSIG(status);
        let new = !threads.contains_key(&tid);
        threads.entry(tid).or_default();
        if !new && signal != libc::SIGTRAP {
            pending = signal;
        }
    }
}

/// Keeps the shadow stack in step with what the last instruction did.
fn follow(thread: &mut Thread, user: &libc::user_regs_struct, remote: &Remote) {
    let word = |address| {
        remote
            .bytes(address, 8)
            .try_into()
            .map_or(0, u64::from_le_bytes)
    };
    let Some((pc, sp, kind)) = thread.before else {
        return;
    };
    if std::mem::take(&mut thread.delivering) && (user.rip, user.rsp) != (pc, sp) {
        // A handler's first instruction: its return address, and what was interrupted (ucontext's
        // own words, as the kernel has just put them there).
        let saved = word(user.rsp + 8 + 40 + 16 * 8);
        let saved_sp = word(user.rsp + 8 + 40 + 15 * 8);
        thread
            .shadow
            .signal(user.rsp, word(user.rsp), saved, saved_sp);
        return;
    }
    match kind {
        Kind::Call if user.rsp == sp.wrapping_sub(8) => {
            thread.shadow.call(user.rsp, word(user.rsp));
        }
        Kind::System(15) => thread.shadow.returned_from_signal(),
        _ => {
            let left = thread.shadow.at(user.rsp, word);
            if left && kind == Kind::Other && thread.leaving.is_none() {
                thread.leaving = Some(Vec::new());
            }
        }
    }
}

fn unwind(
    stop: &mut Stop,
    (user, blocked): (&libc::user_regs_struct, bool),
    unwinder: &mut Unwinder,
    cache: &mut CacheX86_64<MustNotAllocateDuringUnwind>,
    mapped: &mut Mapped,
    remote: &mut Remote,
) {
    let registers = to_registers(user);
    let mut walk = if blocked {
        unwinder.walk_known(&registers, 0, &mapped.images, &mut *remote)
    } else {
        unwinder.walk(&registers, &mapped.images, &mut *remote)
    };
    stop.frames.clear();
    stop.sources.clear();
    while let Some(frame) = walk.next() {
        stop.frames.push(frame);
        stop.sources.extend(walk.rule_source());
    }
    stop.end = walk.end();
    stop.theirs.clear();
    let regs = UnwindRegsX86_64::new(user.rip, user.rsp, user.rbp);
    let mut read = |address| wedjat::unwind::Memory::read(remote, address).map_err(|_| ());
    let mut walk = mapped
        .framehop
        .iter_frames(user.rip, regs, cache, &mut read);
    while stop.theirs.len() < 4096 {
        match walk.next() {
            Ok(Some(frame)) => stop.theirs.push(frame.address()),
            Ok(None) | Err(_) => break,
        }
    }
}

impl Stop {
    fn count(&self, chain: &[u64], mapped: &Mapped, table: &mut Table) {
        let ours = judge(chain, &self.frames, self.end);
        let theirs = judge_plain(chain, &self.theirs);
        table.count_sources(&self.sources, self.end);
        table.count(ours, theirs, self.pc, || {
            let known = chain
                .iter()
                .zip(&self.frames)
                .take_while(|(a, b)| **a == b.pc)
                .count();
            let at = chain.get(known.saturating_sub(1)).copied().unwrap_or(0);
            format!(
                "{ours:?} at {}; {known} of {}, left at {}: {}; want {}, got {}",
                mapped.place(self.pc),
                chain.len(),
                mapped.place(at),
                self.end.map_or("?", WalkEnd::as_str),
                chain.get(known).map_or("root".into(), |a| mapped.place(*a)),
                self.frames
                    .get(known)
                    .map_or("nothing".into(), |frame| mapped.place(frame.pc)),
            )
        });
    }
}

pub fn judge(chain: &[u64], frames: &[wedjat::unwind::RawFrame], end: Option<WalkEnd>) -> Outcome {
    let known = chain
        .iter()
        .zip(frames)
        .take_while(|(a, b)| **a == b.pc)
        .count();
    if known == frames.len() {
        return match (known == chain.len(), end == Some(WalkEnd::Root)) {
            (true, true) => Outcome::Exact,
            (_, false) => Outcome::Early,
            (false, true) => Outcome::Wrong,
        };
    }
    let certain = frames[..=known]
        .iter()
        .all(|f| matches!(f.found, Found::Context | Found::UnwindInfo));
    if certain {
        Outcome::Wrong
    } else {
        Outcome::Doubtful
    }
}

/// It does not always know the root when it is there: that much is not held against it.
fn judge_plain(chain: &[u64], frames: &[u64]) -> Outcome {
    if chain == frames {
        Outcome::Exact
    } else if chain.starts_with(frames) {
        Outcome::Early
    } else {
        Outcome::Wrong
    }
}

/// Calls, returns and system calls (Intel SDM volume 2).
fn kind_of(code: &[u8], rax: u64) -> Kind {
    let prefixes = |byte: &&u8| matches!(**byte, 0x66 | 0x67 | 0x3e | 0xf2 | 0xf3 | 0x40..=0x4f);
    let skip = code.iter().take_while(prefixes).count();
    match code.get(skip..) {
        // A compiler's thunk (a retpoline) that calls over its own `pause` takes down what that has pushed.
        Some([0xe8, 7, 0, 0, 0, 0xf3, 0x90, ..]) => Kind::Other,
        Some([0xe8, ..]) => Kind::Call,
        Some([0xff, modrm, ..]) if modrm & 0x38 == 0x10 => Kind::Call,
        Some([0xff, modrm, ..]) if modrm & 0x38 == 0x20 => Kind::Jump,
        Some([0xe9 | 0xeb, ..]) => Kind::Jump,
        Some([0xc3 | 0xc2, ..]) => Kind::Return,
        Some([0x0f, 0x05, ..]) => Kind::System(rax),
        _ => Kind::Other,
    }
}

fn to_registers(user: &libc::user_regs_struct) -> Registers {
    let mut registers = Registers::new(Arch::X86_64);
    let values = [
        user.rax, user.rdx, user.rcx, user.rbx, user.rsi, user.rdi, user.rbp, user.rsp, user.r8,
        user.r9, user.r10, user.r11, user.r12, user.r13, user.r14, user.r15, user.rip,
    ];
    for (value, number) in values.into_iter().zip(0..) {
        registers.set(number, value);
    }
    registers
}

fn registers(tid: i32) -> Result<libc::user_regs_struct, Error> {
    // SAFETY: a plain struct of integers; the kernel fills it.
    unsafe {
        let mut user: libc::user_regs_struct = std::mem::zeroed();
        if libc::ptrace(libc::PTRACE_GETREGS, tid, 0, &mut user) != 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        Ok(user)
    }
}

fn step(tid: i32, signal: i32) {
    // SAFETY: the thread is ours and stopped; where it is gone, the call fails and that is all.
    unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, tid, 0, signal as usize) };
}

/// Starts the program, stopped at its first instruction; its output is thrown away.
fn spawn(command: &[OsString]) -> Result<i32, Error> {
    let words: Result<Vec<CString>, _> = command
        .iter()
        .map(|word| CString::new(word.as_bytes()))
        .collect();
    let words = words?;
    let path = words.first().ok_or("no program")?;
    let mut arguments: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
    arguments.push(std::ptr::null());
    let environment = [c"LC_ALL=C".as_ptr(), c"HOME=/".as_ptr(), std::ptr::null()];
    // SAFETY: the child calls only async-signal-safe functions before it becomes another program.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
            let null = libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY);
            libc::dup2(null, 1);
            let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY);
            libc::dup2(nothing, 0);
            libc::execve(path.as_ptr(), arguments.as_ptr(), environment.as_ptr());
            libc::_exit(127);
        }
        if pid < 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        let mut status = 0;
        libc::waitpid(pid, &mut status, 0);
        if !libc::WIFSTOPPED(status) {
            return Err(format!("{path:?} did not start: {status:#x}").into());
        }
        let options = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
        libc::ptrace(libc::PTRACE_SETOPTIONS, pid, 0, options as usize);
        Ok(pid)
    }
}
