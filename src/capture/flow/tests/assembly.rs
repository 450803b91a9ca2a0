//! Assembly, and pieces that were moved out of functions.

use super::*;

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
    // The callee may be one that never returns.
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
    // Nothing is known once the word is written over: and $-64,%rsp; mov %rcx,0x98(%rsp); nop
    let code = [
        0x48, 0x89, 0xe0, 0x48, 0x83, 0xe4, 0xc0, 0x48, 0x89, 0x84, 0x24, 0x98, 0, 0, 0, 0x31,
        0xc0, 0x48, 0x89, 0x8c, 0x24, 0x98, 0, 0, 0, 0x90,
    ];
    assert_eq!(
        rules(Arch::X86_64, &code, &[0x11, 0x19]),
        [kept(Some(19), None, None), None]
    );
}
