//! Reads samples back and compares them with those taken.

use super::*;
use crate::capture::Registers;
use crate::platform::context::REGISTERS;

fn add(
    samples: &mut Samples,
    at: u64,
    state: Option<ThreadState>,
    frames: &[RawFrame],
    omitted: Option<Omitted>,
    end: WalkEnd,
    tasks: RawChains<'_>,
) {
    let captured = Captured {
        registers: &Registers::native([0; REGISTERS]),
        frames,
        tasks,
        omitted,
        end,
        stopped: 0,
        unwind: 0,
        bytes: 0,
        cut: false,
    };
    samples.add(at, state, &captured);
}

fn stack(pcs: &[u64]) -> Vec<RawFrame> {
    pcs.iter()
        .map(|&pc| RawFrame {
            pc,
            ..RawFrame::default()
        })
        .collect()
}

/// Reads the sections as a reader does: the whole stacks again, each as often as it was seen.
fn read(samples: &mut Samples, all: bool, before: &mut Vec<u64>) -> Vec<Vec<u64>> {
    let mut stacks = Vec::new();
    while let Some(section) = samples.next_section(all) {
        let kept = before.split_off(before.len() - section.keep as usize);
        *before = section
            .frames
            .iter()
            .map(|frame| frame.pc)
            .chain(kept)
            .collect();
        stacks.extend((0..section.count).map(|_| before.clone()));
    }
    stacks
}

#[test]
fn what_is_read_back_is_what_was_taken() {
    // Random walks over a small tree of calls; written at random moments.
    let mut random = 7u64;
    let mut next = |below: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % below
    };
    for _ in 0..200 {
        let mut samples = Samples::new();
        let (mut taken, mut written, mut before) = (Vec::new(), Vec::new(), Vec::new());
        let mut now = vec![1u64];
        for at in 0..next(25) {
            match next(4) {
                0 if now.len() > 1 => _ = now.remove(0),
                1 => now.insert(0, 10 * at + next(3)),
                2 => now[0] = next(5),
                _ => {}
            }
            add(
                &mut samples,
                at,
                None,
                &stack(&now),
                None,
                WalkEnd::Root,
                RawChains::default(),
            );
            taken.push(now.clone());
            if next(3) == 0 {
                written.extend(read(&mut samples, false, &mut before));
            }
        }
        written.extend(read(&mut samples, true, &mut before));
        assert_eq!(written, taken);
        assert_eq!(samples.taken() as usize, taken.len());
    }
}

#[test]
fn a_run_is_written_when_it_begins_and_its_rest_when_it_is_over() {
    let mut samples = Samples::new();
    add(
        &mut samples,
        0,
        None,
        &stack(&[2, 1]),
        None,
        WalkEnd::Root,
        RawChains::default(),
    );
    assert_eq!(
        samples.next_section(false).map(|section| section.count),
        Some(1)
    );
    samples.repeat(50);
    samples.repeat(100);
    assert_eq!(samples.next_section(false), None);
    add(
        &mut samples,
        150,
        None,
        &stack(&[3, 1]),
        None,
        WalkEnd::Root,
        RawChains::default(),
    );
    let rest = samples.next_section(false).unwrap();
    assert_eq!((rest.count, rest.keep, rest.frames.len()), (2, 2, 0));
    assert_eq!(rest.at, 50, "when the stack was seen again");
    let next = samples.next_section(false).unwrap();
    assert_eq!((next.count, next.keep, next.frames.len()), (1, 1, 1));
}

#[test]
fn a_cut_walk_is_another_stack_than_a_whole_one_and_is_marked() {
    let mut samples = Samples::new();
    add(
        &mut samples,
        0,
        None,
        &stack(&[2, 1]),
        None,
        WalkEnd::Root,
        RawChains::default(),
    );
    add(
        &mut samples,
        50,
        None,
        &stack(&[2, 1]),
        None,
        WalkEnd::Unreadable,
        RawChains::default(),
    );
    samples.repeat(100);
    let ends: Vec<_> = std::iter::from_fn(|| {
        let section = samples.next_section(true)?;
        Some((section.count, section.end))
    })
    .collect();
    let (whole, cut) = (Some(WalkEnd::Root), Some(WalkEnd::Unreadable));
    assert_eq!(ends, [(1, whole), (2, cut)]);
}

#[test]
fn only_the_newest_are_kept_when_too_many_come_before_the_stall_is_certain() {
    let mut samples = Samples::new();
    for at in 0..100 {
        add(
            &mut samples,
            at,
            None,
            &stack(&[at, 1]),
            None,
            WalkEnd::Root,
            RawChains::default(),
        );
    }
    let stacks = read(&mut samples, true, &mut Vec::new());
    assert_eq!(stacks.len(), MAX_RUNS);
    assert_eq!(
        (stacks[0][0], stacks[MAX_RUNS - 1][0]),
        (100 - MAX_RUNS as u64, 99)
    );
}

#[test]
fn the_heaviest_is_the_longest_in_time_not_the_last() {
    let mut samples = Samples::new();
    add(
        &mut samples,
        0,
        None,
        &stack(&[90, 1]),
        None,
        WalkEnd::Root,
        RawChains::default(),
    );
    for at in 1..=5 {
        // One call, seen at different places in it.
        add(
            &mut samples,
            at * 50,
            None,
            &stack(&[20 + at, 2, 1]),
            None,
            WalkEnd::Root,
            RawChains::default(),
        );
    }
    for at in 6..8 {
        add(
            &mut samples,
            at * 50,
            None,
            &stack(&[30, 3, 1]),
            None,
            WalkEnd::Root,
            RawChains::default(),
        );
    }
    assert_eq!(samples.heaviest(), Some(key(stack(&[0, 2, 1]).iter())));
    for at in 0..1_000 {
        add(
            &mut samples,
            400 + at,
            None,
            &stack(&[1, 1_000 + at]),
            None,
            WalkEnd::Root,
            RawChains::default(),
        );
    }
    assert_eq!(
        samples.heaviest(),
        Some(key(stack(&[0, 2, 1]).iter())),
        "many light ones do not win"
    );
}

#[test]
fn a_deep_stack_keeps_both_ends_and_the_count_between() {
    let mut samples = Samples::new();
    let deep: Vec<u64> = (0..1_000).rev().collect();
    add(
        &mut samples,
        0,
        None,
        &stack(&deep),
        None,
        WalkEnd::Root,
        RawChains::default(),
    );
    let deeper: Vec<u64> = (0..1_100).rev().collect();
    // The capture has left out 588 frames of this stack behind the first 448.
    let captured: Vec<u64> = [&deeper[..448], &deeper[1_036..]].concat();
    let gap = Omitted {
        at: 448,
        count: 588,
    };
    add(
        &mut samples,
        50,
        None,
        &stack(&captured),
        Some(gap),
        WalkEnd::Root,
        RawChains::default(),
    );
    add(
        &mut samples,
        100,
        None,
        &stack(&[7, 1, 0]),
        None,
        WalkEnd::Root,
        RawChains::default(),
    );
    let first = samples.next_section(true).unwrap();
    let pcs: Vec<u64> = first.frames.iter().map(|frame| frame.pc).collect();
    assert_eq!(pcs, [&deep[..208], &deep[952..]].concat());
    let omitted = Omitted {
        at: 208,
        count: 744,
    };
    assert_eq!((first.keep, first.omitted), (0, Some(omitted)));
    let second = samples.next_section(true).unwrap();
    let omitted = Omitted {
        at: 208,
        count: 844,
    };
    assert_eq!(
        (second.keep, second.frames.len(), second.omitted),
        (48, 208, Some(omitted))
    );
    assert_eq!(second.frames[0].pc, 1_099);
    let third = samples.next_section(true).unwrap();
    assert_eq!((third.keep, third.omitted), (2, None));
}

#[test]
fn a_deep_stack_that_lasts_is_kept_whole() {
    let mut samples = Samples::new();
    let deep: Vec<u64> = (0..1_000).rev().collect();
    let mut add = |at: u64| {
        let (stack, root) = (stack(&deep), WalkEnd::Root);
        add(
            &mut samples,
            at,
            None,
            &stack,
            None,
            root,
            RawChains::default(),
        );
        let section = samples.next_section(true).unwrap();
        (
            section.keep,
            section.frames.len(),
            section.omitted.is_some(),
        )
    };
    assert_eq!(add(0), (0, 256, true));
    assert_eq!(add(50), (1_000, 0, false));
}
