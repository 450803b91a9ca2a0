//! Functions of either architecture, followed stop by stop: whole ones, pieces and labels of assembly, and code behind
//! jump tables.

use super::*;
use crate::capture::rule::Base;
use crate::capture::tests::{arm64, x86_64};

fn rules(arch: Arch, code: &[u8], ends: &[u64]) -> Vec<Option<Rule>> {
    let code = Code::of(arch, 0x1000, code);
    let mut follower = Follower::new();
    let at = |end: &u64| follower.rule(code, 0x1000 + end, false, None, false);
    ends.iter()
        .map(at)
        .map(|found| found.map(|(rule, _)| rule))
        .collect()
}

#[test]
fn registers_of_another_frame_are_no_way_to_a_caller() {
    let code =
        arm64("ldp x26, x27, [x0, #0xd0]; ldp x28, x29, [x0, #0xe0]; ldr x30, [x0, #0x100]; ret");
    let entered = Rule::frame(Base::Sp, 0, None, None);
    let restored = Some(Rule::RestoredContext);
    assert_eq!(
        rules(Arch::Arm64, &code, &[0, 4, 8, 12]),
        [entered, entered, restored, restored]
    );
    let code = x86_64("mov 0x30(%rdi),%rbp; mov 0x38(%rdi),%rsp; pop %rdi; ret");
    let entered = Rule::frame(Base::Sp, 8, Some(-8), None);
    assert_eq!(
        rules(Arch::X86_64, &code, &[0, 4, 8, 9]),
        [entered, restored, restored, restored]
    );
}

#[test]
fn a_function_that_moves_its_stack_by_numbers_alone_has_one_depth_at_each_place() {
    let moves = |code: &[u8]| moves_by_numbers(Code::of(Arch::X86_64, 0x1000, code));
    let plain = x86_64(
        "push %rbp; mov %rsp,%rbp; sub $0x20,%rsp; call .+5; add $0x20,%rsp; pop %rbp; jmp .+5",
    );
    assert!(moves(&plain));
    assert!(!moves(&plain[..plain.len() - 1]));
    for code in [
        x86_64("push %rbp; mov %rsp,%rbp; sub %rdi,%rsp; call .+5; nop"),
        x86_64("push %rbp; mov %rsp,%rbp; sub $0x10,%rsp; leave; ret"),
        x86_64("push %rbp; mov %rsp,%rbp; and $-32,%rsp; nop"),
        x86_64("mov (%rdi),%rsp; ret"),
        x86_64("pop %rsp; ret"),
        x86_64("xchg %rsp,%rax; ret"),
    ] {
        assert!(!moves(&code), "{code:x?}");
    }
}

#[test]
fn a_frame_whose_pages_are_touched_one_by_one_is_as_large_as_all() {
    let code = arm64(
        "stp x29, x30, [sp, #-16]!; mov x29, sp; sub x9, sp, #3, lsl #12; 1: sub sp, sp, #1, lsl #12; \
         str xzr, [sp]; cmp sp, x9; b.ne 1b; nop; add sp, sp, #3, lsl #12; ldp x29, x30, [sp], #16; ret",
    );
    let entered = Rule::frame(Base::Sp, 0, None, None);
    let body = Rule::frame(Base::Fp, 16, Some(-8), Some(-16));
    assert_eq!(
        rules(Arch::Arm64, &code, &[20, 28, 36, 40]),
        [body, body, body, entered]
    );
    let code = x86_64(
        "push %rbx; mov %rsp,%r11; sub $0x3000,%r11; 1: sub $0x1000,%rsp; movq $0,(%rsp); cmp %r11,%rsp; \
         jne 1b; nop; add $0x3000,%rsp; pop %rbx; ret",
    );
    let of = |size| Rule::frame(Base::Sp, size, Some(-8), None);
    assert_eq!(
        rules(Arch::X86_64, &code, &[31, 39, 40]),
        [of(0x3010), of(16), of(8)]
    );
}

#[test]
fn a_frame_record_at_the_bottom_of_the_frame_stays_where_sp_moves_on_one_way_alone() {
    let code = arm64(
        "stp x29, x30, [sp, #-48]!; mov x29, sp; cbz x0, 1f; b 2f; 1: sub sp, sp, x1; 2: nop; \
         mov sp, x29; ldp x29, x30, [sp], #48; ret",
    );
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
    // What rdi points to is not that stack.
    let code = x86_64(
        "mov 0x38(%rdi),%rax; sub $16,%rax; mov %rax,0x38(%rdi); mov %rbx,(%rax); mov 0x38(%rdi),%rsp; ret",
    );
    let entered = Rule::frame(Base::Sp, 8, Some(-8), None);
    let restored = Some(Rule::RestoredContext);
    assert_eq!(
        rules(Arch::X86_64, &code, &[0, 4, 8, 12, 15, 19]),
        [entered, entered, entered, entered, restored, restored]
    );
    // Without the other stack.
    let code = x86_64("mov %rbx,(%rax); ret");
    assert_eq!(rules(Arch::X86_64, &code, &[3]), [entered]);
    let code = x86_64("push %rbx; mov 0x20(%rdi),%rbx; pop %rbx; ret");
    let pushed = Rule::frame(Base::Sp, 16, Some(-8), None);
    assert_eq!(rules(Arch::X86_64, &code, &[5, 6]), [pushed, entered]);
}

#[test]
fn a_frame_pointer_that_was_saved_may_hold_anything() {
    let code = x86_64("push %rbp; mov 0x30(%rdi),%rbp; pop %rbp; ret");
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
    let code = x86_64(
        "lea -0x88(%rsp),%rsp; mov %rbp,0x68(%rsp); mov %rcx,%rbp; call .+5; mov 0x68(%rsp),%rbp; \
         lea 0x88(%rsp),%rsp; ret",
    );
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
    let code = arm64(
        "mov x12, #0x4030; sub sp, sp, x12; stp x29, x30, [sp]; mov x29, sp; stp x19, x20, [sp, #16]; mov w19, w0; \
         bl .+0x4000; ldp x29, x30, [sp]; mov x12, #0x4030; ldp x19, x20, [sp, #16]; add sp, sp, x12; ret",
    );
    let entered = Rule::frame(Base::Sp, 0, None, None);
    let down = Rule::frame(Base::Sp, 0x4030, None, None);
    let body = Rule::frame(Base::Fp, 0x4030, Some(-0x4028), Some(-0x4030));
    assert_eq!(
        rules(Arch::Arm64, &code, &[4, 8, 16, 28, 32, 36, 40, 44]),
        [entered, down, body, body, down, down, down, entered]
    );
    // The number in its other forms; another value is none.
    let of = |code: Vec<u8>| rules(Arch::Arm64, &code, &[code.len() as u64 - 4])[0];
    let below = |size| Rule::frame(Base::Sp, size, None, None);
    let two = arm64("mov x12, #0x4030; movk x12, #1, lsl #16; sub sp, sp, x12; nop");
    assert_eq!(of(two), below(0x1_4030));
    assert_eq!(
        of(arm64("mov x12, #0x1fff0; sub sp, sp, x12; nop")),
        below(0x1_fff0)
    );
    assert_eq!(
        of(arm64("mov x12, #0x4030; mov x12, x0; sub sp, sp, x12; nop")),
        None
    );
}

#[test]
fn a_piece_of_a_prologue_that_is_called_leaves_its_mark() {
    let all = arm64(
        "mov x5, x30; bl PIECE; mov x30, x5; stp x29, x30, [sp, #0x60]; add x29, sp, #0x60; ret; \
         PIECE: sub sp, sp, #0x70; stp x20, x19, [sp, #0x50]; ret",
    );
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
    let code = arm64("nop; blr x4; nop; ret x15");
    let kept = Some(Rule::LinkIn {
        register: 15,
        cfa: 0,
        fp: None,
    });
    assert_eq!(rules(Arch::Arm64, &code, &[0, 4, 8, 12]), [kept; 4]);
    let code = arm64("ldr x16, [x0, #0xf8]; nop; ret x16");
    let entered = Rule::frame(Base::Sp, 0, None, None);
    assert_eq!(rules(Arch::Arm64, &code, &[0, 4, 8]), [entered; 3]);
    // It restores what it has not saved.
    let code = arm64("nop; ldp x30, x19, [sp], #0x60; ret");
    let guess = entered.map(Rule::guessed);
    assert_eq!(rules(Arch::Arm64, &code, &[0, 4, 8]), [guess; 3]);
    // It has.
    let code = arm64("str x30, [sp, #-16]!; nop; ldr x30, [sp], #16; ret");
    assert_eq!(rules(Arch::Arm64, &code, &[0, 12]), [entered; 2]);
}

#[test]
fn a_label_into_which_code_falls_is_no_function() {
    let falls = |code: &[u8]| falls_in(Code::of(Arch::Arm64, 0x1000, code));
    assert!(falls(&arm64("ret; add x0, x0, #1")));
    assert!(falls(&arm64("ret; add x0, x0, #1; nop")));
    assert!(!falls(&arm64("add x0, x0, #1; ret")));
    assert!(!falls(&arm64("add x0, x0, #1; ret; nop; nop")));
    // The callee may be one that never returns.
    assert!(!falls(&arm64("add x0, x0, #1; bl .+64")));
}

#[test]
fn a_frame_pointer_given_back_behind_a_jump_table_is_the_callers() {
    let bytes = x86_64("jmp *%rax; push %rbp; mov %rsp,%rbp; call .+5; pop %rbp; ret");
    let code = Code::of(Arch::X86_64, 0x1000, &bytes);
    let entered = Rule::frame(Base::Sp, 8, Some(-8), None);
    let body = Rule::frame(Base::Fp, 16, Some(-8), Some(-16));
    let found = Follower::new().rule(code, 0x100c, false, body, true);
    assert_eq!(
        found.map(|(_, certain)| certain),
        Some(RuleConfidence::FromBody(0x1002))
    );
    assert_eq!(
        after_epilogue(code, 0x1002, entered.unwrap(), 0x100c),
        entered
    );
    assert_eq!(after_epilogue(code, 0x1002, entered.unwrap(), 0x100b), None);
    // With sp unknown.
    let bytes = x86_64("ud2; pop %rbp; ret");
    let code = Code::of(Arch::X86_64, 0x1000, &bytes);
    let found = Follower::new().rule(code, 0x1003, false, body, false);
    assert_eq!(found.map(|(rule, _)| rule), entered);
}

#[test]
fn blocks_behind_a_jump_table_in_the_function_have_the_frame_of_the_jump() {
    let entered = Rule::frame(Base::Sp, 8, Some(-8), None);
    let body = Rule::frame(Base::Fp, 16, Some(-8), Some(-16));
    let confidence = RuleConfidence::Followed(ExtendedFrame::None);
    let found = |bytes: &[u8], at: u64| {
        let code = Code::of(Arch::X86_64, 0x1000, bytes);
        Follower::new().rule(code, 0x1000 + at, false, body, false)
    };
    // A table of two blocks, of the second one twice.
    let bytes = x86_64(
        "push %rbp; mov %rsp,%rbp; lea 9f(%rip),%rdx; movslq (%rdx,%rcx,4),%rcx; add %rdx,%rcx; pop %rbp; jmp *%rcx; \
         1: nop; ret; 2: nop; ret; 9: .long 1b-9b, 2b-9b, 2b-9b, 0x70",
    );
    for at in 0x15..0x19 {
        let found = found(&bytes, at);
        assert_eq!(found, Some((entered.unwrap(), confidence)), "{at:#x}");
    }
    // Two tables, in either order: behind the jump by one of them the frame is there still.
    let orders = [
        x86_64(
            "push %rbp; mov %rsp,%rbp; lea 8f(%rip),%rdx; movslq (%rdx,%rcx,4),%rcx; add %rdx,%rcx; jmp *%rcx; \
             1: lea 9f(%rip),%rdx; movslq (%rdx,%rcx,4),%rcx; add %rdx,%rcx; pop %rbp; jmp *%rcx; \
             2: nop; pop %rbp; ret; 3: nop; ret; 9: .long 3b-9b; 8: .long 1b-8b, 2b-8b",
        ),
        x86_64(
            "push %rbp; mov %rsp,%rbp; lea 8f(%rip),%rdx; movslq (%rdx,%rcx,4),%rcx; add %rdx,%rcx; jmp *%rcx; \
             1: lea 9f(%rip),%rdx; movslq (%rdx,%rcx,4),%rcx; add %rdx,%rcx; pop %rbp; jmp *%rcx; \
             2: nop; pop %rbp; ret; 3: nop; ret; 8: .long 1b-8b, 2b-8b; 9: .long 3b-9b",
        ),
    ];
    for bytes in orders {
        let rules = [
            (0x14, body),
            (0x25, body),
            (0x27, entered),
            (0x28, entered),
            (0x29, entered),
        ];
        for (at, rule) in rules {
            let found = found(&bytes, at);
            assert_eq!(found, Some((rule.unwrap(), confidence)), "{at:#x}");
        }
    }
    // A table between blocks, whose first word is not used.
    let bytes = x86_64(
        "lea 9f(%rip),%rdx; movslq (%rdx,%rcx,4),%rcx; add %rdx,%rcx; jmp *%rcx; jne 1f; nop; ret; \
         9: .long 0, 1f-9b, 2f-9b; 1: nop; 2: push %rbx; nop",
    );
    let pushed = Rule::frame(Base::Sp, 16, Some(-8), None);
    for (at, rule) in [(0x20, entered), (0x21, entered), (0x22, pushed)] {
        let found = found(&bytes, at);
        assert_eq!(found, Some((rule.unwrap(), confidence)), "{at:#x}");
    }
    // The table lies elsewhere: behind the jump the frame may be there, or not.
    let bytes = x86_64(
        "push %rbp; mov %rsp,%rbp; lea 0x7f(%rip),%rdx; movslq (%rdx,%rcx,4),%rcx; add %rdx,%rcx; pop %rbp; \
         jmp *%rcx; nop; ret; nop; ret",
    );
    assert_eq!(
        found(&bytes, 0x16).map(|found| found.1),
        Some(RuleConfidence::Either)
    );
}

#[test]
fn a_label_that_code_points_a_register_to_has_the_frame_of_the_jump() {
    let code = x86_64("push %rbx; lea 1f(%rip),%r8; jmp *%r8; ret; 1: nop; pop %rbx; ret");
    let of = |size| Rule::frame(Base::Sp, size, Some(-8), None);
    assert_eq!(
        rules(Arch::X86_64, &code, &[0x0c, 0x0d, 0x0e]),
        [of(16), of(16), of(8)]
    );
    // Another value before the jump, which may lead anywhere.
    let code =
        x86_64("lea 1f(%rip),%r8; mov (%rdi),%r8; push %rbx; jmp *%r8; ret; 1: pop %rbx; ret");
    let code = Code::of(Arch::X86_64, 0x1000, &code);
    let found = Follower::new().rule(code, 0x100f, false, None, false);
    assert_ne!(
        found.map(|found| found.1),
        Some(RuleConfidence::Followed(ExtendedFrame::None))
    );
}

#[test]
fn an_address_between_the_first_two_instructions_of_memory_is_read_without_what_lies_before() {
    let code = arm64("add x0, x0, #1; ret");
    let code = Code::of(Arch::Arm64, 0, &code);
    for pc in 0..8 {
        Follower::new().rule(code, pc, false, None, false);
        straight::block_start(code, pc);
    }
}
