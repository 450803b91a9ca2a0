//! Stacks out of the ordinary: one that overflowed, and one below a jump to null.

use wedjat::report::Found;

use crate::child::{calls, play, stack};
use crate::{Tests, tests};

pub fn trials() -> Tests {
    tests(&[
        (
            "a_stack_overflow_is_reported_and_rust_still_says_so",
            stack_overflow,
        ),
        ("a_jump_to_null_names_the_caller", jump_to_null),
    ])
}

fn stack_overflow() {
    let ended = play("overflow");
    assert_eq!(ended.signal(), Some(libc::SIGABRT));
    assert!(
        ended.stderr.contains("has overflowed its stack"),
        "{}",
        ended.stderr
    );
    let report = ended.report();
    assert_eq!(
        report.event.as_ref().unwrap().signal.as_ref().unwrap().name,
        "SIGSEGV"
    );
    let thread = &report.threads[0];
    assert!(thread.omitted.is_some() && thread.frames.len() > 100);
    let stack = stack(&report, 0);
    assert!(
        calls(&stack, &["deeper", "deeper", "deeper"]),
        "innermost frames"
    );
    assert!(
        calls(&stack, &["culprit", "middle", "outer"]),
        "outermost frames: {stack:#?}"
    );
}

fn jump_to_null() {
    let ended = play("jump_to_null");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV));
    let report = ended.report();
    let frames = &report.threads[0].frames;
    assert_eq!((frames[0].pc, frames[0].image), (8, None));
    assert_eq!(frames[1].found, Found::LeafReturnAddress);
    let stack = stack(&report, 0);
    assert!(calls(&stack, &["culprit", "middle", "outer"]), "{stack:#?}");
}
