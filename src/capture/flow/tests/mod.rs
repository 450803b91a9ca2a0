//! Functions of either architecture, followed stop by stop.

mod assembly;
mod tables;

use super::*;
use crate::capture::rule::Base;

fn rules(arch: Arch, code: &[u8], ends: &[u64]) -> Vec<Option<Rule>> {
    let code = Code {
        arch,
        start: 0x1000,
        bytes: code,
        around: (0, &[]),
    };
    let mut follower = Follower::new();
    let at = |end: &u64| follower.rule(code, 0x1000 + end, false, None, false);
    ends.iter()
        .map(at)
        .map(|found| found.map(|(rule, _)| rule))
        .collect()
}

#[test]
fn registers_of_another_frame_are_no_way_to_a_caller() {
    // ldp x26, x27, [x0, #0xd0]; ldp x28, x29, [x0, #0xe0]; ldr x30, [x0, #0x100]; ret
    let words = [0xa94d_6c1au32, 0xa94e_741c, 0xf940_801e, 0xd65f_03c0];
    let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let entered = Rule::frame(Base::Sp, 0, None, None);
    let restored = Some(Rule::RestoredContext);
    assert_eq!(
        rules(Arch::Arm64, &code, &[0, 4, 8, 12]),
        [entered, entered, restored, restored]
    );
    // mov 0x30(%rdi),%rbp; mov 0x38(%rdi),%rsp; pop %rdi; ret
    let code = [0x48, 0x8b, 0x6f, 0x30, 0x48, 0x8b, 0x67, 0x38, 0x5f, 0xc3];
    let entered = Rule::frame(Base::Sp, 8, Some(-8), None);
    assert_eq!(
        rules(Arch::X86_64, &code, &[0, 4, 8, 9]),
        [entered, restored, restored, restored]
    );
}

#[test]
fn a_frame_whose_pages_are_touched_one_by_one_is_as_large_as_all() {
    // stp x29, x30, [sp, #-16]!; mov x29, sp; sub x9, sp, #3, lsl #12; 1: sub sp, sp, #1, lsl #12;
    // str xzr, [sp]; cmp sp, x9; b.ne 1b; nop; add sp, sp, #3, lsl #12; ldp x29, x30, [sp], #16; ret
    let words = [
        0xa9bf_7bfdu32,
        0x9100_03fd,
        0xd140_0fe9,
        0xd140_07ff,
        0xf900_03ff,
        0xeb29_63ff,
        0x54ff_ffa1,
        0xd503_201f,
        0x9140_0fff,
        0xa8c1_7bfd,
        0xd65f_03c0,
    ];
    let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let entered = Rule::frame(Base::Sp, 0, None, None);
    let body = Rule::frame(Base::Fp, 16, Some(-8), Some(-16));
    assert_eq!(
        rules(Arch::Arm64, &code, &[20, 28, 36, 40]),
        [body, body, body, entered]
    );
    // push %rbx; mov %rsp,%r11; sub $0x3000,%r11; 1: sub $0x1000,%rsp; movq $0,(%rsp);
    // cmp %r11,%rsp; jne 1b; nop; add $0x3000,%rsp; pop %rbx; ret
    let code = [
        0x53, 0x49, 0x89, 0xe3, 0x49, 0x81, 0xeb, 0, 0x30, 0, 0, 0x48, 0x81, 0xec, 0, 0x10, 0, 0,
        0x48, 0xc7, 0x04, 0x24, 0, 0, 0, 0, 0x4c, 0x39, 0xdc, 0x75, 0xec, 0x90, 0x48, 0x81, 0xc4,
        0, 0x30, 0, 0, 0x5b, 0xc3,
    ];
    let of = |size| Rule::frame(Base::Sp, size, Some(-8), None);
    assert_eq!(
        rules(Arch::X86_64, &code, &[31, 39, 40]),
        [of(0x3010), of(16), of(8)]
    );
}

#[test]
fn a_frame_record_at_the_bottom_of_the_frame_stays_where_sp_moves_on_one_way_alone() {
    // stp x29, x30, [sp, #-48]!; mov x29, sp; cbz x0, 1f; b 2f; 1: sub sp, sp, x1; 2: nop; mov sp, x29;
    // ldp x29, x30, [sp], #48; ret
    let words = [
        0xa9bd_7bfdu32,
        0x9100_03fd,
        0xb400_0040,
        0x1400_0002,
        0xcb21_63ff,
        0xd503_201f,
        0x9100_03bf,
        0xa8c3_7bfd,
        0xd65f_03c0,
    ];
    let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let entered = Rule::frame(Base::Sp, 0, None, None);
    let pushed = Rule::frame(Base::Sp, 48, Some(-40), Some(-48));
    let body = Rule::frame(Base::Fp, 48, Some(-40), Some(-48));
    assert_eq!(
        rules(Arch::Arm64, &code, &[0, 4, 8, 20, 24, 28, 32]),
        [entered, pushed, body, body, body, body, entered]
    );
}

#[test]
fn a_stack_that_is_written_to_for_another_frame_is_no_way_to_a_caller() {
    // mov 0x38(%rdi),%rax; mov %rax,0x38(%rdi); mov %rbx,(%rax); mov 0x38(%rdi),%rsp; ret: what
    // rdi points to is not that stack.
    let code = [
        0x48, 0x8b, 0x47, 0x38, 0x48, 0x89, 0x47, 0x38, 0x48, 0x89, 0x18, 0x48, 0x8b, 0x67, 0x38,
        0xc3,
    ];
    let entered = Rule::frame(Base::Sp, 8, Some(-8), None);
    let restored = Some(Rule::RestoredContext);
    assert_eq!(
        rules(Arch::X86_64, &code, &[0, 4, 8, 11, 15]),
        [entered, entered, entered, restored, restored]
    );
    // Without the other stack: mov %rbx,(%rax); ret
    assert_eq!(
        rules(Arch::X86_64, &[0x48, 0x89, 0x18, 0xc3], &[3]),
        [entered]
    );
    // push %rbx; mov 0x20(%rdi),%rbx; pop %rbx; ret
    let code = [0x53, 0x48, 0x8b, 0x5f, 0x20, 0x5b, 0xc3];
    let pushed = Rule::frame(Base::Sp, 16, Some(-8), None);
    assert_eq!(rules(Arch::X86_64, &code, &[5, 6]), [pushed, entered]);
}

#[test]
fn a_frame_pointer_that_was_saved_may_hold_anything() {
    // push %rbp; mov 0x30(%rdi),%rbp; pop %rbp; ret
    let code = [0x55, 0x48, 0x8b, 0x6f, 0x30, 0x5d, 0xc3];
    assert_eq!(
        rules(Arch::X86_64, &code, &[5, 6]),
        [
            Rule::frame(Base::Sp, 16, Some(-8), Some(-16)),
            Rule::frame(Base::Sp, 8, Some(-8), None)
        ]
    );
}

#[test]
fn a_frame_pointer_that_is_saved_without_a_push_is_found_there() {
    // lea -0x88(%rsp),%rsp; mov %rbp,0x68(%rsp); mov %rcx,%rbp; call; mov 0x68(%rsp),%rbp; lea 0x88(%rsp),%rsp; ret
    let code = [
        0x48, 0x8d, 0xa4, 0x24, 0x78, 0xff, 0xff, 0xff, 0x48, 0x89, 0x6c, 0x24, 0x68, 0x48, 0x89,
        0xcd, 0xe8, 0, 0, 0, 0, 0x48, 0x8b, 0x6c, 0x24, 0x68, 0x48, 0x8d, 0xa4, 0x24, 0x88, 0, 0,
        0, 0xc3,
    ];
    let of = |fp| Rule::frame(Base::Sp, 0x90, Some(-8), fp);
    assert_eq!(
        rules(Arch::X86_64, &code, &[8, 0xd, 0x15, 0x1a, 0x22]),
        [
            of(None),
            of(Some(-40)),
            of(Some(-40)),
            of(None),
            Rule::frame(Base::Sp, 8, Some(-8), None)
        ]
    );
}

/// The code that GCC 12 makes for arm64 of a function with 16,400 bytes of its own.
#[test]
fn a_frame_that_is_moved_by_a_register_is_as_large_as_its_number() {
    // mov x12, #0x4030; sub sp, sp, x12; stp x29, x30, [sp]; mov x29, sp; stp x19, x20, [sp, #16];
    // mov w19, w0; bl; ldp x29, x30, [sp]; mov x12, #0x4030; ldp x19, x20, [sp, #16]; add sp, sp, x12; ret
    let words = [
        0xd288_060cu32,
        0xcb2c_63ff,
        0xa900_7bfd,
        0x9100_03fd,
        0xa901_53f3,
        0x2a00_03f3,
        0x9400_1000,
        0xa940_7bfd,
        0xd288_060c,
        0xa941_53f3,
        0x8b2c_63ff,
        0xd65f_03c0,
    ];
    let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let entered = Rule::frame(Base::Sp, 0, None, None);
    let down = Rule::frame(Base::Sp, 0x4030, None, None);
    let body = Rule::frame(Base::Fp, 0x4030, Some(-0x4028), Some(-0x4030));
    assert_eq!(
        rules(Arch::Arm64, &code, &[4, 8, 16, 28, 32, 36, 40, 44]),
        [entered, down, body, body, down, down, down, entered]
    );
    // mov x12, #imm in its other forms: movk, a run of ones; another value is none.
    let of = |before: &[u32]| {
        let words = [before, &[0xcb2c_63ff, 0xd503_201f]].concat();
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        rules(Arch::Arm64, &code, &[words.len() as u64 * 4 - 4])[0]
    };
    let below = |size| Rule::frame(Base::Sp, size, None, None);
    assert_eq!(of(&[0xd288_060c, 0xf2a0_002c]), below(0x1_4030));
    assert_eq!(of(&[0xb27c_33ec]), below(0x1_fff0));
    // mov x12, x0
    assert_eq!(of(&[0xd288_060c, 0xaa00_03ec]), None);
}
