//! Targets of jumps that install another frame, over instructions made by hand.

use super::*;
use crate::capture::memory::StackCopy;

const STACK: u64 = 0x7000;

fn code_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Runs the code from one of the offsets with these registers and this stack, and returns the pc, sp and fp it jumps
/// to.
fn lands(
    arch: Arch,
    bytes: &[u8],
    offset: u64,
    registers: &Registers,
    stack: &[u64],
) -> Option<(u64, u64, u64)> {
    let code = Code {
        arch,
        start: 0x1000,
        bytes,
        around: (0, &[]),
    };
    let stack: Vec<u8> = stack.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut memory = StackCopy::new(STACK, &stack);
    let known = (registers, u64::MAX);
    let (found, _) = jump_target(code, 0x1000 + offset, known, &mut memory)?;
    Some((found.pc(), found.sp(), found.fp()))
}

#[test]
fn longjmp_on_arm64_lands_where_setjmp_was_called() {
    // ldp x29, x30, [x0, #80]; ldr x2, [x0, #96]; ldp d8, d9, [x0, #104]; mov sp, x2;
    // cmp w1, #0; csinc w0, w1, wzr, ne; ret
    let code = code_of(&[
        0xa945_781d,
        0xf940_3002,
        0x6d46_a408,
        0x9100_005f,
        0x7100_003f,
        0x1a9f_1420,
        0xd65f_03c0,
    ]);
    let mut buffer = [0; 16];
    (buffer[10], buffer[11], buffer[12]) = (0xf00, 0x4444, STACK + 0x200);
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
    // mov 56(%rdi),%rax; sub $16,%rax; mov %rax,56(%rdi); mov 32(%rdi),%rbx; mov %rbx,(%rax);
    // mov 128(%rdi),%rbx; mov %rbx,8(%rax); mov 48(%rdi),%rbp; mov 56(%rdi),%rsp; pop %rdi;
    // pop %rcx; jmp *%rcx
    let code = [
        0x48, 0x8b, 0x47, 0x38, 0x48, 0x83, 0xe8, 0x10, 0x48, 0x89, 0x47, 0x38, 0x48, 0x8b, 0x5f,
        0x20, 0x48, 0x89, 0x18, 0x48, 0x8b, 0x9f, 0x80, 0, 0, 0, 0x48, 0x89, 0x58, 0x08, 0x48,
        0x8b, 0x6f, 0x30, 0x48, 0x8b, 0x67, 0x38, 0x5f, 0x59, 0xff, 0xe1,
    ];
    let mut buffer = [0; 32];
    (buffer[6], buffer[7], buffer[16]) = (0xf00, STACK + 0xe0, 0x4444);
    let mut registers = Registers::x86_64(0, STACK, 0x99);
    registers.set(5, STACK);
    let wanted = Some((0x4444, STACK + 0xe0, 0xf00));
    assert_eq!(lands(Arch::X86_64, &code, 0, &registers, &buffer), wanted);
    // With what the first instructions have written in memory.
    (buffer[7], buffer[26], buffer[27]) = (STACK + 0xd0, 0, 0x4444);
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
    let x86_64: [&[u8]; 6] = [
        &[0x65, 0x48, 0x8b, 0x08, 0xff, 0xe1], // mov %gs:(%rax),%rcx; jmp *%rcx
        &[0x48, 0x8b, 0x24, 0xc8, 0xc3],       // mov (%rax,%rcx,8),%rsp; ret
        &[0x74, 0x00, 0xc3],                   // je; ret
        &[0xe8, 0, 0, 0, 0, 0xc3],             // call; ret
        &[0x48, 0x8b, 0x25, 0, 0, 0, 0, 0xc3], // mov 0(%rip),%rsp; ret
        &[0x90],
    ];
    for code in x86_64 {
        assert_eq!(
            lands(Arch::X86_64, code, 0, &registers, &stack),
            None,
            "{code:x?}"
        );
    }
    let registers = Registers::arm64(0, STACK, 0x99, 0x88);
    let arm64: [&[u32]; 6] = [
        &[0xd53b_d070, 0xca10_03de, 0xd65f_03c0], // mrs x16, tpidrro_el0; eor x30, x30, x16; ret
        &[0xf861_681e, 0xd65f_03c0],              // ldr x30, [x0, x1]; ret
        &[0x5400_0020, 0xd65f_03c0],              // b.eq; ret
        &[0x9400_0001, 0xd65f_03c0],              // bl; ret
        &[0x927c_ec3f, 0xd65f_03c0],              // and sp, x1, #-16; ret
        &[0xd503_201f],
    ];
    for words in arm64 {
        let code = code_of(words);
        assert_eq!(
            lands(Arch::Arm64, &code, 0, &registers, &stack),
            None,
            "{words:x?}"
        );
    }
    // A value that is only signed stays known, without its top bits: autib lr, x1; ret.
    let code = code_of(&[0xdac1_143e, 0xd65f_03c0]);
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
