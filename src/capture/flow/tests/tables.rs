//! Code behind jump tables.

use super::*;

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
