//! Functions that share an entry are distinguished, and what is uncertain is marked.

use super::*;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn found(arch: Arch, bytes: &[u8], entries: &[u64]) -> Vec<(u64, EntryConfidence)> {
    let code = Code {
        arch,
        start: 0x1000,
        bytes,
        around: (0, &[]),
    };
    let entries: Vec<_> = entries.iter().map(|at| (0x1000 + at, false)).collect();
    let found = functions(code, &entries);
    found
        .into_iter()
        .map(|(at, confidence)| (at - 0x1000, confidence))
        .collect()
}

const SAVE: u32 = 0xa9bf_7bfd; // stp x29, x30, [sp, #-16]!
const FRAME: u32 = 0x9100_03fd; // mov x29, sp
const RESTORE: u32 = 0xa8c1_7bfd; // ldp x29, x30, [sp], #16
const RET: u32 = 0xd65f_03c0;
const CALL_AWAY: u32 = 0x9410_0000; // bl, far behind

#[test]
fn neighbours_that_share_an_entry_are_distinguished() {
    let one = [SAVE, FRAME, CALL_AWAY, RESTORE, RET];
    // cbz x0, behind the return: nothing but the code shows that a function begins there.
    let wrapped = [0xb400_00c0, SAVE, FRAME, CALL_AWAY, RESTORE, RET, RET];
    let bytes = words(&[&one[..], &wrapped[..], &one[..]].concat());
    let confidence = EntryConfidence::All;
    assert_eq!(
        found(Arch::Arm64, &bytes, &[0]),
        [(0, confidence), (20, confidence), (48, confidence)]
    );
}

#[test]
fn behind_a_call_that_never_returns_the_next_one_begins() {
    let bytes = words(&[SAVE, FRAME, CALL_AWAY, SAVE, FRAME, CALL_AWAY, RESTORE, RET]);
    let confidence = EntryConfidence::All;
    assert_eq!(
        found(Arch::Arm64, &bytes, &[0]),
        [(0, confidence), (12, confidence)]
    );
    // push %rbp; mov %rsp,%rbp; call; nopw; and again, with pop %rbp; ret
    let begin = [0x55, 0x48, 0x89, 0xe5, 0xe8, 0, 0, 0x10, 0];
    let bytes = [&begin[..], &[0x66, 0x90], &begin, &[0x5d, 0xc3]].concat();
    assert_eq!(
        found(Arch::X86_64, &bytes, &[0]),
        [(0, confidence), (11, confidence)]
    );
}

#[test]
fn a_function_without_a_frame_begins_behind_a_call_that_never_returns() {
    let starts = |leaf: &[u32]| {
        let bytes = words(&[&[SAVE, FRAME, CALL_AWAY, CALL_AWAY], leaf].concat());
        let found = found(Arch::Arm64, &bytes, &[0]);
        assert!(
            found.iter().all(|f| f.1 == EntryConfidence::All),
            "{found:?}"
        );
        found.iter().map(|f| f.0).collect::<Vec<_>>()
    };
    let nop = 0xd503_201f;
    assert_eq!(starts(&[0x9100_0400, RET]), [0, 16]);
    // b, far behind, and to the function before.
    assert_eq!(starts(&[nop, 0xaa01_03e0, 0x1410_0000]), [0, 20]);
    assert_eq!(starts(&[0xaa01_03e0, 0x17ff_fffb]), [0, 16]);
    // br x2 may be a jump within the function.
    let bytes = words(&[SAVE, FRAME, CALL_AWAY, CALL_AWAY, 0xaa01_03e0, 0xd61f_0040]);
    let unsure = EntryConfidence::Nothing;
    assert_eq!(found(Arch::Arm64, &bytes, &[0]), [(0, unsure)]);
    // b to a piece of an epilogue.
    let bytes = words(&[
        SAVE,
        FRAME,
        CALL_AWAY,
        0x1400_0004,
        SAVE,
        RESTORE,
        RET,
        RESTORE,
        RET,
    ]);
    let found = found(Arch::Arm64, &bytes, &[0, 16, 28]);
    assert!(
        found
            .iter()
            .all(|f| f.1 != EntryConfidence::Nothing || f.0 == 28)
    );
    assert_eq!(found.iter().map(|f| f.0).collect::<Vec<_>>(), [0, 16, 28]);
}

#[test]
fn pieces_behind_a_jump_table_are_uncertain_and_prologues_among_them_are_not() {
    // br x8; then a piece of the function, then another function.
    let piece = [0xd61f_0100, CALL_AWAY, RESTORE, RET];
    let bytes = words(&[&[SAVE, FRAME], &piece[..], &[SAVE, FRAME, RESTORE, RET]].concat());
    assert_eq!(
        found(Arch::Arm64, &bytes, &[0]),
        [(0, EntryConfidence::Followed), (24, EntryConfidence::All)]
    );
}

#[test]
fn a_prologue_that_calls_a_piece_of_itself_begins_before_the_call() {
    // br x8; a piece of the function; then mov x0, x30; bl; mov x30, x0; stp x29, x30, [sp, #0xb0]; ret
    let piece = [0xd61f_0100, CALL_AWAY, RESTORE, RET];
    let other = [0xaa1e_03e0, CALL_AWAY, 0xaa00_03fe, 0xa90b_7bfd, RET];
    let bytes = words(&[&[SAVE, FRAME], &piece[..], &other].concat());
    let starts = found(Arch::Arm64, &bytes, &[0]).into_iter().map(|f| f.0);
    assert_eq!(starts.collect::<Vec<_>>(), [0, 24]);
}

#[test]
fn arguments_that_are_taken_off_the_stack_make_no_tail_call_of_a_jump_table() {
    // push %rbp; mov %rsp,%rbp; push $1; call; add $8,%rsp; jmp *%rax; then a block: pop %rbp; ret
    let begin = [0x55, 0x48, 0x89, 0xe5, 0x6a, 1, 0xe8, 0, 0, 0x10, 0];
    let block = [0x48, 0x83, 0xc4, 8, 0xff, 0xe0, 0x5d, 0xc3, 0x90];
    let other = [0x55, 0x48, 0x89, 0xe5, 0x5d, 0xc3];
    let bytes = [&begin[..], &block, &other].concat();
    assert_eq!(
        found(Arch::X86_64, &bytes, &[0]),
        [(0, EntryConfidence::Followed), (20, EntryConfidence::All)]
    );
}

#[test]
fn a_return_with_a_frame_that_was_not_left_makes_all_of_it_uncertain() {
    // push %rax; call; push %rax; call; pop %rax; ret: where the second one begins, nothing shows.
    let begin = [0x50, 0xe8, 0, 0, 0x10, 0];
    let bytes = [&begin[..], &begin, &[0x58, 0xc3]].concat();
    assert_eq!(
        found(Arch::X86_64, &bytes, &[0]),
        [(0, EntryConfidence::Nothing)]
    );
}

#[test]
fn what_is_called_or_jumped_to_from_elsewhere_begins_there() {
    // bl +12; ret; nop; ret | b -8
    let bytes = words(&[0x9400_0003, RET, 0xd503_201f, RET, 0x17ff_fffe]);
    let starts: Vec<u64> = found(Arch::Arm64, &bytes, &[0, 16])
        .into_iter()
        .map(|f| f.0)
        .collect();
    assert_eq!(starts, [0, 8, 12, 16]);
}
