//! Each instruction of async functions, and what only looks like them.

use crate::capture::tests::{arm64, bytes_of, image, x86_64};
use crate::capture::{Arch, Images, Registers, StackCopy, Unwinder};
use crate::report::model::{Found, WalkEnd};

const BASE: u64 = 0x5000_0000;
const EXTENDED_BIT: u64 = 1 << 60;
/// The return addresses of the async function and of its caller, which both are in a function at 0x200.
const X86_64: [u64; 2] = [BASE + 0x209, BASE + 0x20e];
const ARM64: [u64; 2] = [BASE + 0x20c, BASE + 0x210];
/// The caller's frame pointer, its own caller's, and an async context.
const FP: u64 = 0x1080;
const CONTEXT: u64 = 0x7f00_6000_0040;

/// The frames of a walk from a function at 0x100 that a function with a frame pointer at 0x200 has called.
fn walk(
    arch: Arch,
    mut text: Vec<u8>,
    registers: &Registers,
    stack: &[u64],
) -> (Vec<(u64, Found)>, Option<WalkEnd>) {
    let calls = match arch {
        Arch::X86_64 => {
            x86_64("push %rbp; mov %rsp,%rbp; call .-0x104; call .-0x109; call .-0x10e; nop")
        }
        Arch::Arm64 => arm64(
            "stp x29, x30, [sp, #-16]!; mov x29, sp; bl .-0x108; bl .-0x10c; bl .-0x110; nop; nop",
        ),
    };
    text.resize(0x100, 0);
    text.extend(calls);
    let image = image(arch, BASE, 0x100, text).with_function_starts(&[0x80, 0x02, 0x80, 0x02, 0]);
    let images = Images::new(vec![image]);
    let stack = bytes_of(stack);
    let mut unwinder = Unwinder::new();
    let mut walk = unwinder.walk(registers, &images, StackCopy::new(0x1000, &stack));
    let frames = walk.by_ref().map(|frame| (frame.pc, frame.found)).collect();
    (frames, walk.end())
}

/// A stack of 24 words from 0x1000, with some of them.
fn stack(words: &[(u64, u64)]) -> Vec<u64> {
    let mut stack = vec![7; 24];
    for (at, word) in words {
        stack[(at - 0x1000) as usize / 8] = *word;
    }
    stack
}

fn is_whole(arch: Arch, frames: &[(u64, Found)], at: &str) {
    let pcs: Vec<u64> = frames.iter().skip(1).map(|frame| frame.0).collect();
    let callers = match arch {
        Arch::X86_64 => X86_64,
        Arch::Arm64 => ARM64,
    };
    assert_eq!(pcs, callers, "{arch:?} {at}");
    let certain = frames
        .iter()
        .skip(1)
        .all(|frame| frame.1 == Found::UnwindInfo);
    assert!(certain, "{arch:?} {at}: {frames:x?}");
}

#[test]
fn each_instruction_of_an_x86_64_async_function_of_mach_o_has_its_callers() {
    let code = x86_64(
        "bts $60,%rbp; push %rbp; push %r14; lea 8(%rsp),%rbp; sub $8,%rsp; nop; add $16,%rsp; pop %rbp; \
                btr $60,%rbp; ret",
    );
    // Pushed from 0x1060 down; the caller's frame record is at FP.
    let own = 0x1058;
    let stack = stack(&[
        (0x1060, X86_64[0]),
        (own, FP | EXTENDED_BIT),
        (0x1050, CONTEXT),
        (FP, 0),
        (FP + 8, X86_64[1]),
    ]);
    let places = [
        (0, 0x1060, FP),
        (5, 0x1060, FP | EXTENDED_BIT),
        (6, own, FP | EXTENDED_BIT),
        (8, 0x1050, FP | EXTENDED_BIT),
        (13, 0x1050, own),
        (17, 0x1048, own),
        (18, 0x1048, own),
        (22, own, own),
        (23, 0x1060, FP | EXTENDED_BIT),
        (28, 0x1060, FP),
    ];
    for (at, sp, fp) in places {
        let registers = Registers::x86_64(BASE + 0x100 + at, sp, fp);
        let (frames, _) = walk(Arch::X86_64, code.clone(), &registers, &stack);
        is_whole(Arch::X86_64, &frames, &format!("at {at}"));
    }
}

#[test]
fn each_instruction_of_an_arm64_async_function_of_mach_o_has_its_callers() {
    let code = arm64(
        "orr x29, x29, #0x1000000000000000; sub sp, sp, #0x30; stp x29, x30, [sp, #0x20]; \
                str x22, [sp, #0x18]; add x29, sp, #0x20; nop; ldp x29, x30, [sp, #0x20]; \
                and x29, x29, #0xefffffffffffffff; add sp, sp, #0x30; ret",
    );
    let (below, own, above) = (0x1030, 0x1050, 0x1060);
    let stack = stack(&[
        (own, FP | EXTENDED_BIT),
        (own + 8, ARM64[0]),
        (own - 8, CONTEXT),
        (FP, 0),
        (FP + 8, ARM64[1]),
    ]);
    let places = [
        (above, FP),
        (above, FP | EXTENDED_BIT),
        (below, FP | EXTENDED_BIT),
        (below, FP | EXTENDED_BIT),
        (below, FP | EXTENDED_BIT),
        (below, own),
        (below, own),
        (below, FP | EXTENDED_BIT),
        (below, FP),
        (above, FP),
    ];
    for ((sp, fp), at) in places.into_iter().zip((0..).step_by(4)) {
        let registers = Registers::arm64(BASE + 0x100 + at, sp, fp, ARM64[0]);
        let (frames, _) = walk(Arch::Arm64, code.clone(), &registers, &stack);
        is_whole(Arch::Arm64, &frames, &format!("at {at}"));
    }
}

/// As clang 22 emits it at -O2: other registers are saved between the extended frame pointer and the frame.
#[test]
fn saved_registers_between_the_mark_and_the_frame_lose_no_caller() {
    let code = arm64(
        "orr x29, x29, #0x1000000000000000; sub sp, sp, #0x70; stp x28, x27, [sp, #0x10]; \
                stp x26, x25, [sp, #0x20]; stp x24, x23, [sp, #0x30]; stp x21, x19, [sp, #0x40]; \
                stp x29, x30, [sp, #0x60]; str x22, [sp, #0x58]; add x29, sp, #0x60; nop; \
                ldp x29, x30, [sp, #0x60]; ldp x21, x19, [sp, #0x40]; ldp x24, x23, [sp, #0x30]; \
                ldp x26, x25, [sp, #0x20]; ldp x28, x27, [sp, #0x10]; and x29, x29, #0xefffffffffffffff; \
                add sp, sp, #0x70; ret",
    );
    let (below, own, above) = (0x1000, 0x1060, 0x1070);
    let stack = stack(&[
        (own, FP | EXTENDED_BIT),
        (own + 8, ARM64[0]),
        (own - 8, CONTEXT),
        (FP, 0),
        (FP + 8, ARM64[1]),
    ]);
    for index in 0..18 {
        let sp = if matches!(index, 0 | 1 | 17) {
            above
        } else {
            below
        };
        let fp = match index {
            0 | 16 | 17 => FP,
            9 | 10 => own,
            _ => FP | EXTENDED_BIT,
        };
        let registers = Registers::arm64(BASE + 0x100 + 4 * index, sp, fp, ARM64[0]);
        let (frames, _) = walk(Arch::Arm64, code.clone(), &registers, &stack);
        is_whole(Arch::Arm64, &frames, &format!("at {index}"));
    }
}

/// Arguments of the next part that it jumps to take room above its own frame.
#[test]
fn a_stack_pointer_that_moves_between_the_mark_and_the_frame_loses_no_caller() {
    let code = x86_64(
        "bts $60,%rbp; sub $32,%rsp; push %rbp; push %r14; lea 8(%rsp),%rbp; sub $8,%rsp; nop; add $16,%rsp; \
                pop %rbp; btr $60,%rbp; jmp .+0x200",
    );
    let own = 0x1038;
    let stack = stack(&[
        (0x1060, X86_64[0]),
        (own, FP | EXTENDED_BIT),
        (0x1030, CONTEXT),
        (FP, 0),
        (FP + 8, X86_64[1]),
    ]);
    let places = [
        (0, 0x1060, FP),
        (5, 0x1060, FP | EXTENDED_BIT),
        (9, 0x1040, FP | EXTENDED_BIT),
        (10, own, FP | EXTENDED_BIT),
        (12, 0x1030, FP | EXTENDED_BIT),
        (17, 0x1030, own),
        (21, 0x1028, own),
    ];
    for (at, sp, fp) in places {
        let registers = Registers::x86_64(BASE + 0x100 + at, sp, fp);
        let (frames, _) = walk(Arch::X86_64, code.clone(), &registers, &stack);
        is_whole(Arch::X86_64, &frames, &format!("at {at}"));
    }
}

/// As clang 22 emits it: the callee has popped its arguments' room, and an async function jumps to the next part.
#[test]
fn callees_that_pop_their_arguments_lose_no_caller() {
    let code = x86_64(
        "bts $60,%rbp; push %rbp; push %r14; lea 8(%rsp),%rbp; sub $8,%rsp; call .+0x200; sub $8,%rsp; call .+0x200; \
                sub $8,%rsp; add $16,%rsp; pop %rbp; btr $60,%rbp; jmp .+0x200",
    );
    let own = 0x1058;
    let stack = stack(&[
        (0x1060, X86_64[0]),
        (own, FP | EXTENDED_BIT),
        (0x1050, CONTEXT),
        (FP, 0),
        (FP + 8, X86_64[1]),
    ]);
    let places = [
        (22, 0x1050, own),
        (26, 0x1048, own),
        (31, 0x1050, own),
        (35, 0x1048, own),
        (39, own, own),
        (40, 0x1060, FP | EXTENDED_BIT),
        (45, 0x1060, FP),
    ];
    for (at, sp, fp) in places {
        let registers = Registers::x86_64(BASE + 0x100 + at, sp, fp);
        let (frames, _) = walk(Arch::X86_64, code.clone(), &registers, &stack);
        is_whole(Arch::X86_64, &frames, &format!("at {at}"));
    }
}

#[test]
fn a_plain_frame_pointer_that_has_the_bit_by_chance_ends_the_walk() {
    let code = x86_64("push %rbp; mov %rsp,%rbp; sub $16,%rsp; nop; add $16,%rsp; pop %rbp; ret");
    let at = |pc: u64, sp: u64, fp: u64, words: &[(u64, u64)]| {
        let registers = Registers::x86_64(BASE + 0x100 + pc, sp, fp);
        walk(Arch::X86_64, code.clone(), &registers, &stack(words)).0
    };
    let record = [(0x1060, X86_64[0]), (FP, 0), (FP + 8, X86_64[1])];
    let with = |saved: u64, below: u64| {
        let mut words = record.to_vec();
        words.extend([(0x1058, saved), (0x1050, below)]);
        words
    };
    // Below a saved one is no context, or what is above the address is more than the bit.
    assert_eq!(at(8, 0x1048, 0x1058, &with(FP, CONTEXT)).len(), 3);
    assert_eq!(at(8, 0x1048, 0x1058, &with(FP | EXTENDED_BIT, 7)).len(), 2);
    assert_eq!(at(8, 0x1048, 0x1058, &with(FP | 3 << 60, CONTEXT)).len(), 2);
    // It points further in, or far out.
    for fp in [0x1010, 0x1084, 0x1050 + (65 << 20)] {
        assert_eq!(
            at(8, 0x1048, 0x1058, &with(fp | EXTENDED_BIT, CONTEXT)).len(),
            2
        );
    }
    // A frame's own.
    assert_eq!(
        at(8, 0x1048, 0x1058 | EXTENDED_BIT, &with(FP, CONTEXT)).len(),
        1
    );
    assert_eq!(at(0, 0x1060, FP, &record).len(), 3);
}
