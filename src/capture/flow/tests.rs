//! How functions of either architecture are followed, stop by stop.

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
fn a_frame_pointer_given_back_behind_a_jump_table_is_the_callers() {
    // jmp *%rax; push %rbp; mov %rsp,%rbp; call; pop %rbp; ret. Tables that speak of calls alone
    // say that the body's rule holds at the last one, too.
    let bytes = [
        0xff, 0xe0, 0x55, 0x48, 0x89, 0xe5, 0xe8, 0, 0, 0, 0, 0x5d, 0xc3,
    ];
    let code = Code {
        arch: Arch::X86_64,
        start: 0x1000,
        bytes: &bytes,
        around: (0, &[]),
    };
    let entered = Rule::frame(Base::Sp, 8, Some(-8), None);
    let body = Rule::frame(Base::Fp, 16, Some(-8), Some(-16));
    let found = Follower::new().rule(code, 0x100c, false, body, true);
    assert_eq!(
        found.map(|(_, certain)| certain),
        Some(RuleConfidence::FromBody(0x1002))
    );
    assert_eq!(
        behind_epilogue(code, 0x1002, entered.unwrap(), 0x100c),
        entered
    );
    assert_eq!(
        behind_epilogue(code, 0x1002, entered.unwrap(), 0x100b),
        None
    );
    // ud2; pop %rbp; ret, with sp unknown
    let bytes = [0x0f, 0x0b, 0x5d, 0xc3];
    let code = Code {
        bytes: &bytes,
        ..code
    };
    let found = Follower::new().rule(code, 0x1003, false, body, false);
    assert_eq!(found.map(|(rule, _)| rule), entered);
}

#[test]
fn blocks_behind_a_jump_table_in_the_function_have_the_frame_of_the_jump() {
    // lea table(%rip),%rdx; movslq (%rdx,%rcx,4),%rcx; add %rdx,%rcx
    let jump = |table: u8| {
        let code = [
            0x48, 0x8d, 0x15, table, 0, 0, 0, 0x48, 0x63, 0x0c, 0x8a, 0x48, 0x01, 0xd1,
        ];
        code.to_vec()
    };
    let entered = Rule::frame(Base::Sp, 8, Some(-8), None);
    let body = Rule::frame(Base::Fp, 16, Some(-8), Some(-16));
    let confidence = RuleConfidence::Followed;
    let found = |bytes: &[u8], at: u64| {
        let code = Code {
            arch: Arch::X86_64,
            start: 0x1000,
            bytes,
            around: (0x1000, bytes),
        };
        Follower::new().rule(code, 0x1000 + at, false, body, false)
    };
    // push %rbp; mov %rsp,%rbp; ...; pop %rbp; jmp *%rcx; 0x15: nop; ret; 0x17: nop; ret; and a table of
    // both, of the second one twice.
    let begin = [0x55, 0x48, 0x89, 0xe5];
    let cases = [0x5d, 0xff, 0xe1, 0x90, 0xc3, 0x90, 0xc3];
    let words = |distances: &[i32]| -> Vec<u8> {
        distances
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect()
    };
    let bytes = [&begin[..], &jump(14), &cases, &words(&[-4, -2, -2, 0x70])].concat();
    assert_eq!(bytes.len(), 0x19 + 16);
    for at in 0x15..0x19 {
        assert_eq!(
            found(&bytes, at),
            Some((entered.unwrap(), confidence)),
            "{at:#x}"
        );
    }
    // Two tables, in either order: behind the jump by one of them the frame is there still. 0x04: that jump;
    // 0x14: another one, behind an epilogue; 0x25: nop; pop; ret; 0x28: nop; ret
    for (kept, left) in [(0x2e, 0x2a), (0x2a, 0x32)] {
        let distance = |from: u8, to: i32| [i32::from(from) - to];
        let first = [&begin[..], &jump(kept as u8 - 0x0b), &[0xff, 0xe1]].concat();
        let second = [&jump(left as u8 - 0x1b)[..], &[0x5d, 0xff, 0xe1]].concat();
        let of_kept = words(&[distance(0x14, kept), distance(0x25, kept)].concat());
        let of_left = words(&distance(0x28, left));
        let blocks = [0x90, 0x5d, 0xc3, 0x90, 0xc3].to_vec();
        let tables = if kept > left {
            [of_left, of_kept]
        } else {
            [of_kept, of_left]
        };
        let bytes = [first, second, blocks, tables.concat()].concat();
        let rules = [
            (0x14, body),
            (0x25, body),
            (0x27, entered),
            (0x28, entered),
            (0x29, entered),
        ];
        for (at, rule) in rules {
            assert_eq!(
                found(&bytes, at),
                Some((rule.unwrap(), confidence)),
                "{at:#x}"
            );
        }
    }
    // A table between blocks, whose first word is not used; 0x12: nop; ret; 0x20: nop; push %rbx; nop
    let bytes = [
        &jump(13)[..],
        &[0xff, 0xe1, 0x75, 0x0e, 0x90, 0xc3],
        &words(&[0, 0x0c, 0x0d]),
        &[0x90, 0x53, 0x90],
    ]
    .concat();
    let pushed = Rule::frame(Base::Sp, 16, Some(-8), None);
    for (at, rule) in [(0x20, entered), (0x21, entered), (0x22, pushed)] {
        assert_eq!(
            found(&bytes, at),
            Some((rule.unwrap(), confidence)),
            "{at:#x}"
        );
    }
    // The table lies elsewhere: behind the jump the frame may be there, or not.
    let bytes = [&begin[..], &jump(0x7f), &cases].concat();
    assert_eq!(
        found(&bytes, 0x16).map(|found| found.1),
        Some(RuleConfidence::Either)
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
fn a_piece_of_a_prologue_that_is_called_leaves_its_mark() {
    // mov x5, x30; bl PIECE; mov x30, x5; stp x29, x30, [sp, #0x60]; add x29, sp, #0x60; ret;
    // PIECE: sub sp, sp, #0x70; stp x20, x19, [sp, #0x50]; ret
    let words = [
        0xaa1e_03e5u32,
        0x9400_0005,
        0xaa05_03fe,
        0xa906_7bfd,
        0x9101_83fd,
        0xd65f_03c0,
        0xd101_c3ff,
        0xa905_4ff4,
        0xd65f_03c0,
    ];
    let all: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let body = Rule::frame(Base::Fp, 16, Some(-8), Some(-16));
    let code = Code {
        arch: Arch::Arm64,
        start: 0x1000,
        bytes: &all[..24],
        around: (0x1000, &all),
    };
    let mut follower = Follower::new();
    let mut at = |pc: u64, behind_call: bool| {
        let found = follower.rule(code, pc, behind_call, body, false);
        found.map(|(rule, _)| rule)
    };
    let by_link = |cfa: u16| {
        Some(Rule::LinkIn {
            register: 5,
            cfa,
            fp: None,
        })
    };
    assert_eq!(at(0x1004, false), Rule::frame(Base::Sp, 0, None, None));
    assert_eq!(at(0x1008, true), by_link(0), "while the piece runs");
    assert_eq!(at(0x1008, false), by_link(14), "it has made the frame");
    assert_eq!(at(0x100c, false), Rule::frame(Base::Sp, 0x70, None, None));
    assert_eq!(
        at(0x1010, false),
        Rule::frame(Base::Sp, 0x70, Some(-8), Some(-16))
    );
    assert_eq!(at(0x1014, false), body);
}

#[test]
fn assembly_that_returns_by_another_register_has_its_caller_there() {
    // A label that is jumped to: nop; blr x4; nop; ret x15
    let words = [0xd503_201fu32, 0xd63f_0080, 0xd503_201f, 0xd65f_01e0];
    let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let kept = Some(Rule::LinkIn {
        register: 15,
        cfa: 0,
        fp: None,
    });
    assert_eq!(rules(Arch::Arm64, &code, &[0, 4, 8, 12]), [kept; 4]);
    // ldr x16, [x0, #0xf8]; nop; ret x16: what it jumps to is no caller.
    let words = [0xf940_7c10u32, 0xd503_201f, 0xd65f_0200];
    let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let entered = Rule::frame(Base::Sp, 0, None, None);
    assert_eq!(rules(Arch::Arm64, &code, &[0, 4, 8]), [entered; 3]);
    // nop; ldp x30, x19, [sp], #0x60; ret restores what it has not saved.
    let words = [0xd503_201fu32, 0xa8c6_4ffe, 0xd65f_03c0];
    let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let guess = entered.map(Rule::guessed);
    assert_eq!(rules(Arch::Arm64, &code, &[0, 4, 8]), [guess; 3]);
    // str x30, [sp, #-16]! has.
    let words = [0xf81f_0ffeu32, 0xd503_201f, 0xf841_07fe, 0xd65f_03c0];
    let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(rules(Arch::Arm64, &code, &[0, 12]), [entered; 2]);
}

#[test]
fn a_label_into_which_code_falls_is_no_function() {
    let falls = |words: &[u32]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        falls_in(Code {
            arch: Arch::Arm64,
            start: 0x1000,
            bytes: &bytes,
            around: (0x1000, &bytes),
        })
    };
    let (nop, ret, add, call) = (0xd503_201f, 0xd65f_03c0, 0x9100_0400, 0x9400_0010);
    assert!(falls(&[ret, add]));
    assert!(falls(&[ret, add, nop]));
    assert!(!falls(&[add, ret]));
    assert!(!falls(&[add, ret, nop, nop]));
    // That may be one that never returns.
    assert!(!falls(&[add, call]));
}

#[test]
fn assembly_that_aligns_its_stack_has_its_caller_where_it_keeps_the_old_one() {
    let of = |size, fp| Rule::frame(Base::Sp, size, Some(-8), fp);
    let kept = |at, register, fp| {
        Some(Rule::KeptSp {
            at,
            register,
            above: 1,
            fp,
        })
    };
    // mov %rsp,%rax; push %rbp; sub $0xa0,%rsp; and $-64,%rsp; mov %rax,0x98(%rsp); xor %eax,%eax; push %rdx;
    // pop %rdx; mov %eax,%ebp; mov 0x98(%rsp),%rsi; mov -8(%rsi),%rbp; lea (%rsi),%rsp; ret
    let code = [
        0x48, 0x89, 0xe0, 0x55, 0x48, 0x81, 0xec, 0xa0, 0, 0, 0, 0x48, 0x83, 0xe4, 0xc0, 0x48,
        0x89, 0x84, 0x24, 0x98, 0, 0, 0, 0x31, 0xc0, 0x52, 0x5a, 0x89, 0xc5, 0x48, 0x8b, 0xb4,
        0x24, 0x98, 0, 0, 0, 0x48, 0x8b, 0x6e, 0xf8, 0x48, 0x8d, 0x26, 0xc3,
    ];
    let saved = Some(-2);
    assert_eq!(
        rules(
            Arch::X86_64,
            &code,
            &[3, 4, 0xb, 0xf, 0x17, 0x19, 0x1a, 0x1b, 0x25, 0x29, 0x2c]
        ),
        [
            of(8, None),
            of(16, Some(-16)),
            of(176, Some(-16)),
            kept(None, Some(0), saved),
            kept(Some(19), None, saved),
            kept(Some(19), None, saved),
            kept(Some(20), None, saved),
            kept(Some(19), None, saved),
            kept(Some(19), None, saved),
            kept(Some(19), None, None),
            of(8, None),
        ]
    );
    // mov %rsp,%rax; push %rbp; neg %r9; lea -0x10(%rsp,%r9,8),%r10; neg %r9; lea (%r10,%r11),%rsp;
    // mov %rax,8(%rsp,%r9,8); mul %rbx; mov 8(%rsp,%r9,8),%rsi; mov $1,%rax; mov -8(%rsi),%rbp; mov %rsi,%rsp; ret
    let code = [
        0x48, 0x89, 0xe0, 0x55, 0x49, 0xf7, 0xd9, 0x4e, 0x8d, 0x54, 0xcc, 0xf0, 0x49, 0xf7, 0xd9,
        0x4b, 0x8d, 0x24, 0x1a, 0x4a, 0x89, 0x44, 0xcc, 0x08, 0x48, 0xf7, 0xe3, 0x4a, 0x8b, 0x74,
        0xcc, 0x08, 0x48, 0xc7, 0xc0, 1, 0, 0, 0, 0x48, 0x8b, 0x6e, 0xf8, 0x48, 0x89, 0xf4, 0xc3,
    ];
    let by_index = |fp| kept(Some(1), Some(9), fp);
    assert_eq!(
        rules(
            Arch::X86_64,
            &code,
            &[0x13, 0x18, 0x1b, 0x20, 0x27, 0x2b, 0x2e]
        ),
        [
            kept(None, Some(0), saved),
            by_index(saved),
            by_index(saved),
            by_index(saved),
            by_index(saved),
            by_index(None),
            of(8, None),
        ]
    );
    // Where the word is written over, nothing is known: and $-64,%rsp; mov %rcx,0x98(%rsp); nop
    let code = [
        0x48, 0x89, 0xe0, 0x48, 0x83, 0xe4, 0xc0, 0x48, 0x89, 0x84, 0x24, 0x98, 0, 0, 0, 0x31,
        0xc0, 0x48, 0x89, 0x8c, 0x24, 0x98, 0, 0, 0, 0x90,
    ];
    assert_eq!(
        rules(Arch::X86_64, &code, &[0x11, 0x19]),
        [kept(Some(19), None, None), None]
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

#[test]
fn a_label_that_code_points_a_register_to_has_the_frame_of_the_jump() {
    // push %rbx; lea 4(%rip),%r8; jmp *%r8; 0x0b: ret; 0x0c: nop; pop %rbx; ret
    let code = [
        0x53, 0x4c, 0x8d, 0x05, 0x04, 0, 0, 0, 0x41, 0xff, 0xe0, 0xc3, 0x90, 0x5b, 0xc3,
    ];
    let of = |size| Rule::frame(Base::Sp, size, Some(-8), None);
    assert_eq!(
        rules(Arch::X86_64, &code, &[0x0c, 0x0d, 0x0e]),
        [of(16), of(16), of(8)]
    );
    // Another value since: mov (%rdi),%r8 before the jump, which may lead anywhere.
    let code = [
        0x4c, 0x8d, 0x05, 0x08, 0, 0, 0, 0x4c, 0x8b, 0x07, 0x53, 0x41, 0xff, 0xe0, 0xc3, 0x5b, 0xc3,
    ];
    let arch = Arch::X86_64;
    let code = Code {
        arch,
        start: 0x1000,
        bytes: &code,
        around: (0x1000, &code),
    };
    let found = Follower::new().rule(code, 0x100f, false, None, false);
    assert_ne!(found.map(|found| found.1), Some(RuleConfidence::Followed));
}
