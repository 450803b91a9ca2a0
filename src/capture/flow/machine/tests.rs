//! Targets of jumps that install another frame, over instructions made by hand.

use super::*;
use crate::capture::memory::StackCopy;
use crate::capture::registers::Arch;
use crate::capture::tests::{arm64, bytes_of, x86_64};

const STACK: u64 = 0x7000;

/// Runs the code from one of the offsets with these registers and this stack, and returns the pc, sp and fp it jumps
/// to.
fn lands(
    arch: Arch,
    bytes: &[u8],
    offset: u64,
    registers: &Registers,
    stack: &[u64],
) -> Option<(u64, u64, u64)> {
    let code = Code::of(arch, 0x1000, bytes);
    let stack = bytes_of(stack);
    let mut memory = StackCopy::new(STACK, &stack);
    let known = (registers, u64::MAX);
    let (found, _) = jump_target(code, 0x1000 + offset, known, &mut memory)?;
    Some((found.pc(), found.sp(), found.fp()))
}

#[test]
fn longjmp_on_arm64_lands_where_setjmp_was_called() {
    let code = arm64(
        "ldp x29, x30, [x0, #80]; ldr x2, [x0, #96]; ldp d8, d9, [x0, #104]; mov sp, x2; cmp w1, #0; \
         csinc w0, w1, wzr, ne; ret",
    );
    let mut buffer = [0; 16];
    buffer[10] = 0xf00;
    buffer[11] = 0x4444;
    buffer[12] = STACK + 0x200;
    let mut registers = Registers::arm64(0, STACK, 0x99, 0x88);
    registers.set(0, STACK);
    let wanted = Some((0x4444, STACK + 0x200, 0xf00));
    assert_eq!(lands(Arch::Arm64, &code, 0, &registers, &buffer), wanted);
    // Half way: what has been loaded already is in the registers.
    registers.set(30, 0x4444);
    registers.set(29, 0xf00);
    assert_eq!(lands(Arch::Arm64, &code, 4, &registers, &buffer), wanted);
    registers.set(2, STACK + 0x200);
    assert_eq!(lands(Arch::Arm64, &code, 12, &registers, &[]), wanted);
}

#[test]
fn jumpto_on_x86_64_lands_by_what_it_writes_to_the_other_stack() {
    let code = x86_64(
        "mov 56(%rdi),%rax; sub $16,%rax; mov %rax,56(%rdi); mov 32(%rdi),%rbx; mov %rbx,(%rax); \
         mov 128(%rdi),%rbx; mov %rbx,8(%rax); mov 48(%rdi),%rbp; mov 56(%rdi),%rsp; pop %rdi; pop %rcx; \
         jmp *%rcx",
    );
    let mut buffer = [0; 32];
    buffer[6] = 0xf00;
    buffer[7] = STACK + 0xe0;
    buffer[16] = 0x4444;
    let mut registers = Registers::x86_64(0, STACK, 0x99);
    registers.set(5, STACK);
    let wanted = Some((0x4444, STACK + 0xe0, 0xf00));
    assert_eq!(lands(Arch::X86_64, &code, 0, &registers, &buffer), wanted);
    // With what the first instructions have written in memory.
    buffer[7] = STACK + 0xd0;
    buffer[26] = 0;
    buffer[27] = 0x4444;
    assert_eq!(
        lands(Arch::X86_64, &code, 0x1e, &registers, &buffer),
        wanted
    );
    // Without the stack nothing is known.
    assert_eq!(
        lands(Arch::X86_64, &code, 0, &registers, &buffer[..4]),
        None
    );
}

#[test]
fn what_depends_on_the_unknown_is_left_out() {
    let registers = Registers::x86_64(0, STACK, 0x99);
    let stack = [7; 8];
    let unknown = [
        x86_64("mov %gs:(%rax),%rcx; jmp *%rcx"),
        x86_64("mov (%rax,%rcx,8),%rsp; ret"),
        x86_64("je .+2; ret"),
        x86_64("call .+5; ret"),
        x86_64("mov 0(%rip),%rsp; ret"),
        x86_64("nop"),
    ];
    for code in unknown {
        let found = lands(Arch::X86_64, &code, 0, &registers, &stack);
        assert_eq!(found, None, "{code:x?}");
    }
    let registers = Registers::arm64(0, STACK, 0x99, 0x88);
    let unknown = [
        arm64("mrs x16, tpidrro_el0; eor x30, x30, x16; ret"),
        arm64("ldr x30, [x0, x1]; ret"),
        arm64("b.eq .+4; ret"),
        arm64("bl .+4; ret"),
        arm64("bic x9, x1, x2; mov sp, x9; ret"),
        arm64("nop"),
    ];
    for code in unknown {
        let found = lands(Arch::Arm64, &code, 0, &registers, &stack);
        assert_eq!(found, None, "{code:x?}");
    }
    // A value that is only signed stays known, without its top bits.
    let code = arm64("autib x30, x1; ret");
    assert_eq!(
        lands(Arch::Arm64, &code, 0, &registers, &stack),
        Some((0x88, STACK, 0x99))
    );
}

/// Any bytes, any registers: an end, and no panic.
#[test]
fn no_code_is_too_strange() {
    let mut seed = 1u64;
    let mut draw = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        seed ^ seed >> 29
    };
    for round in 0..200_000 {
        let arch = [Arch::Arm64, Arch::X86_64][round % 2];
        let bytes: Vec<u8> = (0..8).flat_map(|_| draw().to_le_bytes()).collect();
        let mut registers = Registers::new(arch);
        for number in 0..COUNT {
            registers.set(number, draw());
        }
        lands(arch, &bytes, draw() % 8 * 4, &registers, &[draw(); 4]);
    }
}
