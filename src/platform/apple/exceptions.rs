//! Mach exceptions: the task's ports for them, and the thread that answers.
//!
//! The thread that faults stands still in the kernel meanwhile, so its stack may be overflowed or bad. The earlier
//! owner of the ports is given each message as it came, with the right to answer; without such an owner, or if it gives
//! up, the kernel raises the signal. Layouts: mach/message.h, mach/mach_exc.defs, mach/exception_types.h.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use mach2::kern_return::KERN_SUCCESS;
use mach2::mach_port::{mach_port_allocate, mach_port_insert_right, mach_port_mod_refs};
use mach2::message::{mach_msg, mach_msg_header_t};
use mach2::task::{task_get_exception_ports, task_set_exception_ports};

use super::context::{self, REGISTERS};
use super::task;
use crate::platform::signals::SignalInfo;
use crate::platform::{Thread, own_thread};

const EXC_BAD_ACCESS: u32 = 1;
/// A code of it on x86_64 (mach/i386/exception.h), of which XNU makes SIGSEGV (`machine_exception`).
const EXC_I386_GPFLT: u64 = 13;
const EXC_BAD_INSTRUCTION: u32 = 2;
const EXC_ARITHMETIC: u32 = 3;
const EXC_BREAKPOINT: u32 = 6;
const EXC_GUARD: u32 = 12;
const KINDS: [u32; 5] = [
    EXC_BAD_ACCESS,
    EXC_BAD_INSTRUCTION,
    EXC_ARITHMETIC,
    EXC_BREAKPOINT,
    EXC_GUARD,
];

const EXCEPTION_DEFAULT: u32 = 1;
const EXCEPTION_STATE_IDENTITY: u32 = 3;
const MACH_EXCEPTION_CODES: u32 = 0x8000_0000;
const THREAD_STATE_NONE: i32 = if cfg!(target_arch = "aarch64") { 5 } else { 13 };
const KERN_FAILURE: u32 = 5;

const RIGHT_RECEIVE: u32 = 1;

/// The owner of the port of one kind of exception before: port, behaviour, flavour; and whether
/// [`install_again`] is to take it from that one: who has set it after us keeps it.
struct PreviousOwner {
    port: AtomicU32,
    behavior: AtomicU32,
    flavor: AtomicU32,
    should_reclaim: AtomicBool,
}

static PREVIOUS: [PreviousOwner; KINDS.len()] = [const {
    PreviousOwner {
        port: AtomicU32::new(0),
        behavior: AtomicU32::new(0),
        flavor: AtomicU32::new(0),
        should_reclaim: AtomicBool::new(false),
    }
}; KINDS.len()];

/// Our port; 0 while nothing is installed.
static PORT: AtomicU32 = AtomicU32::new(0);

/// Functions to call when an exception has come, on the exception thread.
#[derive(Debug, Clone, Copy)]
pub struct Server {
    /// Writes the report; `false` if it wrote none. Ports and signals are as they were before
    /// [`install`] meanwhile, so that a fault in here comes as a signal.
    pub report: fn(&MachException) -> bool,
    /// The owner of the port before dealt with what was reported.
    pub survived: fn(&MachException),
}

/// An exception, while its thread stands still.
#[derive(Debug)]
pub struct MachException {
    kind: u32,
    codes: [u64; 2],
    port: u32,
    /// The thread.
    pub thread: Thread,
}

impl MachException {
    /// Its name and, of bad accesses, the kernel's reason.
    pub fn name(&self) -> &'static str {
        match (self.kind, self.codes[0]) {
            (EXC_BAD_ACCESS, 1) => "EXC_BAD_ACCESS KERN_INVALID_ADDRESS",
            (EXC_BAD_ACCESS, 2) => "EXC_BAD_ACCESS KERN_PROTECTION_FAILURE",
            (EXC_BAD_ACCESS, 0x101) => "EXC_BAD_ACCESS EXC_ARM_DA_ALIGN",
            (EXC_BAD_ACCESS, EXC_I386_GPFLT) => "EXC_BAD_ACCESS EXC_I386_GPFLT",
            (EXC_BAD_ACCESS, _) => "EXC_BAD_ACCESS",
            (EXC_BAD_INSTRUCTION, _) => "EXC_BAD_INSTRUCTION",
            (EXC_ARITHMETIC, _) => "EXC_ARITHMETIC",
            (EXC_BREAKPOINT, _) => "EXC_BREAKPOINT",
            // The guard's type is in the upper three bits (sys/kern/guarded.h).
            (EXC_GUARD, code) => match code >> 61 {
                1 => "EXC_GUARD GUARD_TYPE_MACH_PORT",
                2 => "EXC_GUARD GUARD_TYPE_FD",
                3 => "EXC_GUARD GUARD_TYPE_USER",
                4 => "EXC_GUARD GUARD_TYPE_VN",
                5 => "EXC_GUARD GUARD_TYPE_VIRT_MEMORY",
                _ => "EXC_GUARD",
            },
            _ => "EXC",
        }
    }

    /// The facts of the signal that the kernel makes of it (`ux_exception`, `sendsig` of XNU). A
    /// guard's exception kills without one.
    pub fn signal(&self) -> SignalInfo {
        let [code, subcode] = self.codes;
        // SEGV_MAPERR 1, BUS_ADRERR 2, ILL_ILLOPC 1, FPE_INTDIV 7, TRAP_BRKPT 1
        let (number, code, address) = match self.kind {
            EXC_BAD_ACCESS if code == 1 => (libc::SIGSEGV, 1, Some(subcode)),
            // An address that no page can have: the processor does not say which.
            EXC_BAD_ACCESS if code == EXC_I386_GPFLT => (libc::SIGSEGV, 0, None),
            EXC_BAD_ACCESS => (libc::SIGBUS, 2, Some(subcode)),
            EXC_BAD_INSTRUCTION => (libc::SIGILL, 1, None),
            EXC_ARITHMETIC => (libc::SIGFPE, 7, None),
            EXC_BREAKPOINT => (libc::SIGTRAP, 1, None),
            _ => (libc::SIGKILL, 1, None),
        };
        SignalInfo {
            number,
            code,
            address,
            sender: None,
        }
    }

    /// The registers of the thread; `None` where the kernel does not give them.
    pub fn registers(&self) -> Option<[u64; REGISTERS]> {
        context::of_thread(self.port)
    }
}

/// Takes the ports and starts the thread. `false` where the system does not let us: signals come
/// all the same. Where an owner gets registers without threads (`EXCEPTION_STATE`), a kind is
/// left to them.
pub fn install(server: Server) -> bool {
    if PORT.load(Ordering::Acquire) != 0 {
        install_again();
        return true;
    }
    let (mut port, mut answers) = (0, 0);
    // SAFETY: names only; both results live across the calls.
    let made = unsafe {
        mach_port_allocate(task::own(), RIGHT_RECEIVE, &mut port) == KERN_SUCCESS
            && mach_port_insert_right(task::own(), port, port, MAKE_SEND) == KERN_SUCCESS
            && mach_port_allocate(task::own(), RIGHT_RECEIVE, &mut answers) == KERN_SUCCESS
    };
    let thread = std::thread::Builder::new().name("wedjat-exceptions".into());
    let work = Box::new(move || serve(port, answers, server));
    if !made || own_thread::spawn(thread, work).is_err() {
        return false;
    }
    for (&kind, before) in KINDS.iter().zip(&PREVIOUS) {
        let (port, behavior, flavor) = current_handler(kind);
        before.port.store(port, Ordering::Relaxed);
        before.behavior.store(behavior, Ordering::Relaxed);
        before.flavor.store(flavor, Ordering::Relaxed);
        let names_the_thread = matches!(
            behavior & 0xff,
            EXCEPTION_DEFAULT | EXCEPTION_STATE_IDENTITY
        );
        before
            .should_reclaim
            .store(port == 0 || names_the_thread, Ordering::Release);
    }
    PORT.store(port, Ordering::Release);
    install_again();
    true
}

/// Takes the ports again that [`step_aside`] has put back. Signal-safe.
pub fn install_again() {
    let port = PORT.load(Ordering::Acquire);
    if port == 0 {
        return;
    }
    for (&kind, before) in KINDS.iter().zip(&PREVIOUS) {
        if !before.should_reclaim.swap(false, Ordering::AcqRel) {
            continue;
        }
        // As the one before wants it, so that a message can go on to it as it is.
        let (behavior, flavor) = if before.port.load(Ordering::Relaxed) == 0 {
            let behavior = EXCEPTION_DEFAULT | MACH_EXCEPTION_CODES;
            (behavior, THREAD_STATE_NONE)
        } else {
            let flavor = before.flavor.load(Ordering::Relaxed);
            (before.behavior.load(Ordering::Relaxed), flavor as i32)
        };
        set(kind, port, behavior, flavor);
    }
}

/// Puts back the owners of the ports before, where they are ours. Signal-safe.
pub fn step_aside() -> bool {
    let ours = PORT.load(Ordering::Acquire);
    if ours == 0 {
        return true;
    }
    let mut all = true;
    for (&kind, before) in KINDS.iter().zip(&PREVIOUS) {
        let (now, ..) = current_handler(kind);
        if now != 0 {
            task::release(now);
        }
        if now != ours {
            all &= now == before.port.load(Ordering::Relaxed);
            continue;
        }
        let port = before.port.load(Ordering::Relaxed);
        let (behavior, flavor) = if port == 0 {
            (EXCEPTION_DEFAULT, THREAD_STATE_NONE)
        } else {
            let flavor = before.flavor.load(Ordering::Relaxed);
            (before.behavior.load(Ordering::Relaxed), flavor as i32)
        };
        set(kind, port, behavior, flavor);
        before.should_reclaim.store(true, Ordering::Release);
    }
    all
}

/// Puts back the owners of the ports before and ends the thread; where another owner has come after us, it
/// stays, and passes on what they pass to us.
pub fn uninstall() {
    if !step_aside() {
        return;
    }
    let port = PORT.swap(0, Ordering::AcqRel);
    if port != 0 {
        for before in &PREVIOUS {
            let port = before.port.swap(0, Ordering::AcqRel);
            if port != 0 {
                task::release(port);
            }
        }
        task::release(port);
        // SAFETY: a name of ours; a receive that waits there ends with an error.
        unsafe { mach_port_mod_refs(task::own(), port, RIGHT_RECEIVE, -1) };
    }
}

/// Port, behaviour and flavour of a kind; the port is a reference of the caller's.
fn current_handler(kind: u32) -> (u32, u32, u32) {
    // EXC_TYPES_COUNT (mach/exception_types.h) is 14.
    let (mut masks, mut ports, mut behaviors, mut flavors) = ([0; 14], [0; 14], [0; 14], [0; 14]);
    let mut count = 14;
    // SAFETY: the kernel writes at most `count` of each, the size of the arrays.
    let code = unsafe {
        task_get_exception_ports(
            task::own(),
            1 << kind,
            masks.as_mut_ptr(),
            &mut count,
            ports.as_mut_ptr(),
            behaviors.as_mut_ptr(),
            flavors.as_mut_ptr(),
        )
    };
    if code == KERN_SUCCESS && count > 0 {
        (ports[0], behaviors[0] as u32, flavors[0] as u32)
    } else {
        (0, 0, 0)
    }
}

fn set(kind: u32, port: u32, behavior: u32, flavor: i32) {
    // SAFETY: names and numbers only.
    unsafe {
        task_set_exception_ports(task::own(), 1 << kind, port, behavior as _, flavor as _);
    }
}

/// The exception thread.
fn serve(port: u32, answers: u32, server: Server) {
    let (mut message, mut answer) = (MachMessage::new(), MachMessage::new());
    while message.receive(port) {
        let exception = read(&message);
        let kernel = message.word(REMOTE);
        let id = message.word(ID);
        // A child of `fork` has its parent's ports: its threads are no business of ours.
        let ours = message.word(TASK) == task::own();
        step_aside();
        let reported = ours && (server.report)(&exception);
        let index = KINDS.iter().position(|&kind| kind == exception.kind);
        let before = index.and_then(|index| PREVIOUS.get(index));
        let before = before.map_or(0, |before| before.port.load(Ordering::Acquire));
        let answered =
            before != 0 && forward(&mut message, before, answers) && answer.receive(answers);
        // If the owner dies, the kernel sends a notification in place of an answer.
        if answered && answer.word(ID) == id.wrapping_add(100) {
            if reported && answer.word(RESULT) == 0 {
                (server.survived)(&exception);
            }
        } else {
            if !answered {
                task::release(exception.port);
                task::release(message.word(TASK));
            }
            answer.set(4, ANSWER as u32);
            answer.set(ID, id.wrapping_add(100));
            answer.set(24, 0); // NDR_record: little-endian
            answer.set(28, 1);
            answer.set(RESULT, KERN_FAILURE);
        }
        if !reported {
            install_again();
        }
        let complex = answer.word(0) & COMPLEX;
        answer.set(0, MOVE_SEND_ONCE | complex);
        answer.set(REMOTE, kernel);
        answer.set(LOCAL, 0);
        answer.send();
        answer.set(0, 0);
    }
    // SAFETY: a name of ours.
    unsafe { mach_port_mod_refs(task::own(), answers, RIGHT_RECEIVE, -1) };
}

/// Sends the message on, with the rights that came in it and an answer to us.
fn forward(message: &mut MachMessage, to: u32, answers: u32) -> bool {
    message.set(0, COPY_SEND | MAKE_SEND_ONCE << 8 | COMPLEX);
    message.set(REMOTE, to);
    message.set(LOCAL, answers);
    message.send()
}

fn read(message: &MachMessage) -> MachException {
    let word = |at| u64::from(message.word(at));
    let codes = if message.word(ID) >= MACH_EXC_FIRST_ID {
        [
            word(CODES) | word(CODES + 4) << 32,
            word(CODES + 8) | word(CODES + 12) << 32,
        ]
    } else {
        [word(CODES), word(CODES + 4)]
    };
    let port = message.word(THREAD);
    MachException {
        kind: message.word(KIND),
        codes,
        port,
        thread: Thread::from_port(port),
    }
}

/// Dispositions of a port in a message, and the bit for having any.
const MOVE_SEND_ONCE: u32 = 18;
const COPY_SEND: u32 = 19;
const MAKE_SEND: u32 = 20;
const MAKE_SEND_ONCE: u32 = 21;
const COMPLEX: u32 = 0x8000_0000;
const SEND: i32 = 1;
const RECEIVE: i32 = 2;

/// A message, as large as any of these: two ports, codes and a thread state.
#[repr(C, align(8))]
struct MachMessage([u8; 4096]);

/// Offsets of the header's and the body's fields.
const REMOTE: usize = 8;
const LOCAL: usize = 12;
const ID: usize = 20;
const THREAD: usize = 28;
const TASK: usize = 40;
const KIND: usize = 60;
const CODES: usize = 68;
/// The first of the messages with codes of 64 bits (mach_exc.defs: subsystem 2405).
const MACH_EXC_FIRST_ID: u32 = 2405;
/// Offsets in an answer: the kernel's result behind header and NDR record, and the length.
const RESULT: usize = 32;
const ANSWER: usize = 36;

impl MachMessage {
    /// All zero.
    fn new() -> MachMessage {
        MachMessage([0; 4096])
    }

    /// The word at a byte; 0 behind its end.
    fn word(&self, at: usize) -> u32 {
        let bytes = self.0.get(at..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }

    /// Sets the word at a byte.
    fn set(&mut self, at: usize, word: u32) {
        if let Some(place) = self.0.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
            *place = word.to_ne_bytes();
        }
    }

    /// Sends it as it is; whether that was possible.
    fn send(&mut self) -> bool {
        let size = self.word(4);
        // SAFETY: a message in memory of ours, no longer than that.
        unsafe { mach_msg(self.header(), SEND, size, 0, 0, 0, 0) == KERN_SUCCESS }
    }

    /// Waits for one; `false` once the port is gone.
    fn receive(&mut self, port: u32) -> bool {
        let room = self.0.len() as u32;
        // SAFETY: the kernel writes at most so many bytes.
        unsafe { mach_msg(self.header(), RECEIVE, 0, room, port, 0, 0) == KERN_SUCCESS }
    }

    fn header(&mut self) -> *mut mach_msg_header_t {
        std::ptr::from_mut(self).cast()
    }
}
