//! The caller of every function: two functions with frame records, one of which has called the other, which
//! calls the function; and what it has in its registers.

use unicorn_engine::{RegisterARM64 as A, RegisterX86 as X};

use crate::cpu::{self, Uc};
use crate::loader::Image;
use crate::machine::Machine;
use crate::macho::{File, Section, Segment};

/// Where the caller lies, and where its stack does.
const BASE: u64 = 0x6_0000_0000;
const STACK: u64 = 0x6_1000_0000;
const STACK_SIZE: u64 = 0x1_0000;
/// The outer function's frame record.
const RECORD: u64 = STACK + STACK_SIZE - 0x1000;

/// Offsets of its two functions, and its end.
const OUTER: u64 = 0x100;
const INNER: u64 = 0x120;
const END: u64 = 0x140;

/// `stp x29, x30, [sp, #-16]!; mov x29, sp; bl INNER; ldp x29, x30, [sp], #16; ret`; INNER, with `blr x16`,
/// has its frame record far from what it calls, whose arguments on the stack are its own to write.
#[rustfmt::skip]
const ARM: [u32; 15] = [
    0xa9bf_7bfd, 0x9100_03fd, 0x9400_0006, 0xa8c1_7bfd, 0xd65f_03c0, 0, 0, 0,
    0xd108_03ff, 0xa91f_7bfd, 0x9107_c3fd, 0xd63f_0200, 0xa95f_7bfd, 0x9108_03ff, 0xd65f_03c0,
];
/// `push rbp; mov rbp, rsp; call INNER; pop rbp; ret`; INNER, with `call rax`, the same way.
#[rustfmt::skip]
const X86: [u8; 56] = [
    0x55, 0x48, 0x89, 0xe5, 0xe8, 0x17, 0, 0, 0, 0x5d, 0xc3, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0x55, 0x48, 0x89, 0xe5, 0x48, 0x81, 0xec, 0, 2, 0, 0, 0xff, 0xd0,
    0x48, 0x81, 0xc4, 0, 2, 0, 0, 0x5d, 0xc3, 0, 0,
];

#[rustfmt::skip]
const ARM_PRESERVED: [A; 18] = [
    A::X19, A::X20, A::X21, A::X22, A::X23, A::X24, A::X25, A::X26, A::X27, A::X28,
    A::D8, A::D9, A::D10, A::D11, A::D12, A::D13, A::D14, A::D15,
];
const X86_PRESERVED: [X; 5] = [X::RBX, X::R12, X::R13, X::R14, X::R15];

/// The caller, mapped.
pub struct Caller {
    arm: bool,
    /// Where the function returns to, and where the one that called it does; innermost first.
    pub returns: [u64; 2],
    /// The stack pointer, once the function has returned.
    sp: u64,
    fp: u64,
}

impl Caller {
    /// Maps it, as an image of its own.
    pub fn new(m: &mut Machine) -> Caller {
        let arm = m.arm;
        let mut bytes = vec![0; OUTER as usize];
        if arm {
            bytes.extend(ARM.iter().flat_map(|word| word.to_le_bytes()))
        } else {
            bytes.extend(X86)
        }
        bytes.resize(END as usize, 0);
        // LC_FUNCTION_STARTS: 0x100, and 0x20 further.
        let starts = bytes.len()..bytes.len() + 4;
        bytes.extend([0x80, 0x02, 0x20, 0]);
        m.memory.map(&mut m.uc, Some(BASE), 0x1000, 5);
        m.write(BASE, &bytes);
        m.memory.map(&mut m.uc, Some(STACK), STACK_SIZE, 3);
        let file = File {
            arm,
            segments: vec![Segment {
                name: "__TEXT".into(),
                svma: 0..0x1000,
                file: 0..bytes.len(),
                protection: 5,
            }],
            sections: vec![Section {
                segment: "__TEXT".into(),
                name: "__text".into(),
                svma: OUTER..END,
                offset: OUTER as usize,
                // S_ATTR_PURE_INSTRUCTIONS
                flags: 0x8000_0000,
                first_symbol: 0,
                stub_size: 0,
            }],
            function_starts: starts,
            symbols: vec![(OUTER, "a caller".into()), (INNER, "the caller".into())],
            bytes,
            ..File::default()
        };
        m.images.push(Image {
            path: "caller".into(),
            file,
            slide: BASE,
            name_at: 0,
        });
        let fp = RECORD - 16;
        let (outer, inner, sp) = if arm {
            (OUTER + 12, INNER + 16, RECORD - 0x200)
        } else {
            (OUTER + 9, INNER + 13, fp - 0x200)
        };
        Caller {
            arm,
            returns: [BASE + inner, BASE + outer],
            sp,
            fp,
        }
    }

    /// The stack pointer at the function's first instruction.
    pub fn sp_at_entry(&self) -> u64 {
        self.sp - if self.arm { 0 } else { 8 }
    }

    /// The stack pointers of the two, once what they have called has returned.
    pub fn sps(&self) -> [u64; 2] {
        [self.sp, RECORD]
    }

    /// Sets the stack, and all registers but the arguments, as the call leaves them.
    pub fn enter(&self, uc: &mut Uc, function: u64) {
        let clean = vec![0; STACK_SIZE as usize];
        uc.mem_write(STACK, &clean).expect("the stack is mapped");
        let [inner, outer] = self.returns;
        let mut put = |at: u64, word: u64| {
            let done = uc.mem_write(at, &word.to_le_bytes());
            done.expect("the stack is mapped");
        };
        // The inner function's record; that of the outer one is zeros.
        put(self.fp, RECORD);
        put(self.fp + 8, outer);
        if !self.arm {
            put(self.sp - 8, inner);
        }
        for (register, value) in self.preserved() {
            uc.reg_write(register, value)
                .expect("a register that there is");
        }
        cpu::set(uc, self.arm, function, self.sp_at_entry());
        cpu::set_fp(uc, self.arm, self.fp);
        if self.arm {
            cpu::set_lr(uc, inner);
        }
    }

    /// Whether all that a call preserves is as it was, and the two frame records.
    pub fn is_intact(&self, uc: &Uc) -> bool {
        let now = cpu::registers(uc, self.arm);
        let same = |(register, value)| uc.reg_read(register) == Ok(value);
        let records = [(self.fp, [RECORD, self.returns[1]]), (RECORD, [0; 2])];
        let kept = |(at, record)| cpu::read_pair(uc, at) == Some(record);
        now.sp == self.sp
            && now.fp == self.fp
            && self.preserved().all(same)
            && records.into_iter().all(kept)
    }

    fn preserved(&self) -> impl Iterator<Item = (i32, u64)> {
        let arm = self.arm.then_some(ARM_PRESERVED.map(|r| r as i32));
        let x86 = (!self.arm).then_some(X86_PRESERVED.map(|r| r as i32));
        let all = arm.into_iter().flatten().chain(x86.into_iter().flatten());
        all.zip(0u64..)
            .map(|(r, k)| (r, 0x7_0000_0000 + k * 0x1_0000))
    }
}
