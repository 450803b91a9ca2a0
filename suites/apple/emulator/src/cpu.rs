//! The CPU: registers by role, the same for both architectures, and Darwin's view of them
//! (`mach/arm/_structs.h`, `mach/i386/_structs.h`).

use unicorn_engine::{Arch, Context, Mode, RegisterARM64 as A, RegisterX86 as X, Unicorn};

/// What the hooks leave for the machine to see after the CPU has stopped.
#[derive(Default)]
pub struct Stopped {
    /// Entry of a trap: a function that the emulator has.
    pub trap: Option<u64>,
    /// A memory access that failed: address, whether it was mapped at all, whether it was a write.
    pub fault: Option<Fault>,
    /// Number of the CPU's own exception.
    pub interrupt: Option<u32>,
    /// The shadow stack is kept.
    pub watching: bool,
    /// The running thread is the main one.
    pub is_main: bool,
    /// Its turn is over, before the instruction that it stands at.
    pub held: bool,
    /// The running thread's shadow stack.
    pub shadow: crate::shadow::Shadow,
}

/// A failed access to memory.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The address.
    pub address: u64,
    /// There is memory, but not of this right.
    pub protected: bool,
}

/// Unicorn with our data.
pub type Uc = Unicorn<'static, Stopped>;

/// Registers by role.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Registers {
    /// Program counter.
    pub pc: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer.
    pub fp: u64,
    /// Link register; 0 on x86_64.
    pub lr: u64,
}

/// Every general register, in Darwin's order.
#[derive(Clone, Debug)]
pub struct File {
    /// arm64, or else x86_64.
    pub arm: bool,
    words: Vec<u64>,
}

impl File {
    /// The live ones.
    pub fn read(uc: &Unicorn<'_, Stopped>, arm: bool) -> File {
        let read = |r: i32| uc.reg_read(r).unwrap_or(0);
        let words = if arm {
            ARM.iter().map(|r| read(*r as i32)).collect()
        } else {
            X86[..17].iter().map(|r| read(*r as i32)).collect()
        };
        File { arm, words }
    }

    /// The program counter.
    pub fn pc(&self) -> u64 {
        self.words[if self.arm { 32 } else { 16 }]
    }

    /// Sets it: a hook finds an older one in the CPU.
    pub fn set_pc(&mut self, pc: u64) {
        self.words[if self.arm { 32 } else { 16 }] = pc;
    }

    /// The stack pointer.
    pub fn sp(&self) -> u64 {
        self.words[if self.arm { 31 } else { 7 }]
    }

    /// The frame pointer.
    pub fn fp(&self) -> u64 {
        self.words[if self.arm { 29 } else { 6 }]
    }

    /// The link register; 0 on x86_64.
    pub fn lr(&self) -> u64 {
        if self.arm { self.words[30] } else { 0 }
    }

    /// Those that have roles.
    pub fn roles(&self) -> Registers {
        Registers {
            pc: self.pc(),
            sp: self.sp(),
            fp: self.fp(),
            lr: self.lr(),
        }
    }

    /// By DWARF's numbers, pc as 32 or 16.
    pub fn by_dwarf(&self) -> Vec<(usize, u64)> {
        const X86: [usize; 17] = [0, 3, 2, 1, 5, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
        let words = self.words.iter().copied().enumerate();
        if self.arm {
            words.collect()
        } else {
            words.map(|(at, word)| (X86[at], word)).collect()
        }
    }
}

const ARM: [A; 33] = [
    A::X0,
    A::X1,
    A::X2,
    A::X3,
    A::X4,
    A::X5,
    A::X6,
    A::X7,
    A::X8,
    A::X9,
    A::X10,
    A::X11,
    A::X12,
    A::X13,
    A::X14,
    A::X15,
    A::X16,
    A::X17,
    A::X18,
    A::X19,
    A::X20,
    A::X21,
    A::X22,
    A::X23,
    A::X24,
    A::X25,
    A::X26,
    A::X27,
    A::X28,
    A::X29,
    A::X30,
    A::SP,
    A::PC,
];
const X86: [X; 21] = [
    X::RAX,
    X::RBX,
    X::RCX,
    X::RDX,
    X::RDI,
    X::RSI,
    X::RBP,
    X::RSP,
    X::R8,
    X::R9,
    X::R10,
    X::R11,
    X::R12,
    X::R13,
    X::R14,
    X::R15,
    X::RIP,
    X::EFLAGS,
    X::CS,
    X::FS,
    X::GS,
];
const ARM_ARGUMENTS: [A; 8] = [A::X0, A::X1, A::X2, A::X3, A::X4, A::X5, A::X6, A::X7];
const X86_ARGUMENTS: [X; 6] = [X::RDI, X::RSI, X::RDX, X::RCX, X::R8, X::R9];

/// A CPU of that architecture.
pub fn new(arm: bool) -> Uc {
    let (arch, mode) = if arm {
        (Arch::ARM64, Mode::LITTLE_ENDIAN)
    } else {
        (Arch::X86, Mode::MODE_64)
    };
    let mut uc = Unicorn::new_with_data(arch, mode, Stopped::default()).expect("Unicorn starts");
    // UC_CPU_ARM64_MAX, UC_CPU_X86_HASWELL: what compilers for these targets may assume.
    uc.ctl_set_cpu_model(if arm { 3 } else { 19 })
        .expect("a CPU model that Unicorn has");
    uc
}

/// The roles of the live registers.
pub fn registers(uc: &Unicorn<'_, Stopped>, arm: bool) -> Registers {
    let read = |r: i32| uc.reg_read(r).expect("a register that there is");
    if arm {
        Registers {
            pc: read(A::PC as i32),
            sp: read(A::SP as i32),
            fp: read(A::X29 as i32),
            lr: read(A::LR as i32),
        }
    } else {
        Registers {
            pc: read(X::RIP as i32),
            sp: read(X::RSP as i32),
            fp: read(X::RBP as i32),
            lr: 0,
        }
    }
}

/// Argument `index` of the call that the CPU stands at the entry of (integer registers only).
pub fn argument(uc: &Uc, arm: bool, index: usize) -> u64 {
    if arm {
        uc.reg_read(ARM_ARGUMENTS[index]).unwrap_or(0)
    } else {
        X86_ARGUMENTS
            .get(index)
            .map_or(0, |r| uc.reg_read(*r).unwrap_or(0))
    }
}

/// Sets an argument.
pub fn set_argument(uc: &mut Uc, arm: bool, index: usize, value: u64) {
    let done = if arm {
        uc.reg_write(ARM_ARGUMENTS[index], value)
    } else {
        uc.reg_write(X86_ARGUMENTS[index], value)
    };
    done.expect("a register that there is");
}

/// Sets the roles given.
pub fn set(uc: &mut Uc, arm: bool, pc: u64, sp: u64) {
    let (p, s) = if arm {
        (A::PC as i32, A::SP as i32)
    } else {
        (X::RIP as i32, X::RSP as i32)
    };
    uc.reg_write(p, pc).expect("pc is there");
    uc.reg_write(s, sp).expect("sp is there");
}

/// Sets the frame pointer.
pub fn set_fp(uc: &mut Uc, arm: bool, fp: u64) {
    uc.reg_write(if arm { A::X29 as i32 } else { X::RBP as i32 }, fp)
        .expect("fp is there");
}

/// Sets the link register of arm64.
pub fn set_lr(uc: &mut Uc, lr: u64) {
    uc.reg_write(A::LR, lr).expect("lr is there");
}

/// What the function returns.
pub fn set_result(uc: &mut Uc, arm: bool, value: u64) {
    uc.reg_write(if arm { A::X0 as i32 } else { X::RAX as i32 }, value)
        .expect("a register that there is");
}

/// Where `pthread_self` looks.
pub fn set_thread_pointer(uc: &mut Uc, arm: bool, value: u64) {
    uc.reg_write(
        if arm {
            A::TPIDRRO_EL0 as i32
        } else {
            X::GS_BASE as i32
        },
        value,
    )
    .expect("a register that there is");
}

/// `ARM_THREAD_STATE64` (68 words) or `x86_THREAD_STATE64` (42 words) of a thread that is not
/// running.
pub fn thread_state(context: &Context, arm: bool) -> Vec<u8> {
    let numbers: Vec<i32> = if arm {
        ARM.map(|r| r as i32).to_vec()
    } else {
        X86.map(|r| r as i32).to_vec()
    };
    let mut state: Vec<u8> = numbers
        .iter()
        .flat_map(|r| context.reg_read(*r).unwrap_or(0).to_le_bytes())
        .collect();
    if arm {
        state.extend((context.reg_read(A::NZCV).unwrap_or(0) as u32).to_le_bytes());
        state.extend([0; 4]);
    }
    state
}

/// Sets live registers from a state in Darwin's form.
pub fn set_thread_state(uc: &mut Uc, arm: bool, state: &[u8]) {
    let words = state
        .chunks_exact(8)
        .map(|c| u64::from_le_bytes(c.try_into().unwrap()));
    // The flags too, which what was interrupted may be about to look at; not the segments of x86_64: no
    // guest edits those.
    let numbers: Vec<i32> = if arm {
        let all = ARM.into_iter().chain([A::NZCV]);
        all.map(|r| r as i32).collect()
    } else {
        X86[..18].iter().map(|r| *r as i32).collect()
    };
    for (register, value) in numbers.into_iter().zip(words) {
        uc.reg_write(register, value)
            .expect("a register that there is");
    }
}

/// Flavour of the thread state and its count of 32-bit words.
pub fn flavor(arm: bool) -> (u64, usize) {
    if arm { (6, 68) } else { (4, 42) }
}

/// The two words there, such as a frame record.
pub fn read_pair(uc: &Unicorn<'_, Stopped>, at: u64) -> Option<[u64; 2]> {
    let mut bytes = [0; 16];
    uc.mem_read(at, &mut bytes).ok()?;
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|k| bytes[at + k]));
    Some([word(0), word(8)])
}
