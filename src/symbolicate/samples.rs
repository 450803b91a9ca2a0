//! Samples unfolded: each with the outermost frames that it shares with the one before.

use crate::report::model::{Frame, Omitted, Report, Thread};

/// Frames of all samples together. An honest report has some ten thousand; a hostile one could say
/// of a million samples that each shares ten thousand frames with the one before. As JSON a frame takes up to
/// 1.4 KB of memory.
pub(super) const MAX_FRAMES: usize = 1 << 17;

/// Count of the frames, of which one with a long name is as much as several.
pub(super) fn weight(frames: &[Frame]) -> usize {
    let names = frames.iter().filter_map(|frame| frame.name.as_ref());
    frames.len() + names.map(|name| name.len() / 1024).sum::<usize>()
}

/// Each sample as a thread of its own. Frames that were left out when the report was written count as
/// if they were there; where they would stand, [`Thread::omitted`] says so.
pub(super) fn in_full(report: &Report) -> Vec<Thread> {
    let mut full: Vec<Thread> = Vec::with_capacity(report.samples.len());
    let mut total = 0;
    for sample in &report.samples {
        let shared = match full.last() {
            Some(before) => outermost(before, sample.keep, MAX_FRAMES - total),
            None => (&[][..], None),
        };
        let mut frames = Vec::with_capacity(sample.frames.len() + shared.0.len());
        frames.extend_from_slice(&sample.frames);
        let own = Thread {
            frames,
            tasks: sample.tasks.clone(),
            omitted: sample.omitted,
            ..Thread::default()
        };
        let thread = join_stacks(own, shared);
        total = MAX_FRAMES.min(total + weight(&thread.frames));
        full.push(thread);
    }
    full
}

/// The `keep` outermost frames of a stack, and the gap in them; no more than `most` of them.
fn outermost(stack: &Thread, keep: u64, most: usize) -> (&[Frame], Option<Omitted>) {
    let frames = &stack.frames;
    let len = frames.len() as u64;
    let gap = stack.omitted.unwrap_or(Omitted { at: len, count: 0 });
    let gap_at = gap.at.min(len);
    let behind = len - gap_at;
    let (kept, missing) = if keep <= behind {
        (keep, 0)
    } else {
        let missing = gap.count.min(keep - behind);
        (behind + (keep - behind - missing).min(gap_at), missing)
    };
    let (kept, missing, gap_at) = if kept > most as u64 {
        // Frames that do not fit are a gap before those that are left.
        (most as u64, missing.saturating_add(kept - most as u64), 0)
    } else {
        (kept, missing, kept.saturating_sub(behind))
    };
    let from = frames.len() - kept as usize;
    let gap = (missing > 0).then_some(Omitted {
        at: gap_at,
        count: missing,
    });
    (frames.get(from..).unwrap_or_default(), gap)
}

/// A stack continued by `shared` ones. A stack has room for one gap: frames between two are given up.
fn join_stacks(mut stack: Thread, (frames, gap): (&[Frame], Option<Omitted>)) -> Thread {
    let own = stack.frames.len() as u64;
    stack.frames.extend_from_slice(frames);
    let second = gap.map(|gap| Omitted {
        at: own + gap.at,
        ..gap
    });
    stack.omitted = match (stack.omitted, second) {
        (Some(first), Some(second)) => {
            let from = first.at.min(own);
            let to = second.at.max(from);
            stack.frames.drain(from as usize..to as usize);
            // The indices of those behind are others now.
            stack.tasks.retain(|chain| chain.frame < from);
            let count = first.count.saturating_add(second.count);
            Some(Omitted {
                at: from,
                count: count.saturating_add(to - from),
            })
        }
        (first, second) => first.or(second),
    };
    stack
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::Sample;

    fn frames(pcs: std::ops::Range<u64>) -> Vec<Frame> {
        let frame = |pc| Frame {
            pc,
            ..Frame::default()
        };
        pcs.map(frame).collect()
    }

    fn sample(pcs: std::ops::Range<u64>, omitted: Option<(u64, u64)>, keep: u64) -> Sample {
        Sample {
            frames: frames(pcs),
            omitted: omitted.map(|(at, count)| Omitted { at, count }),
            keep,
            ..Sample::default()
        }
    }

    /// The pcs of the last sample in full, and its gap.
    fn last(samples: Vec<Sample>) -> (Vec<u64>, Option<(u64, u64)>) {
        let report = Report {
            samples,
            ..Report::default()
        };
        let full = in_full(&report).pop().unwrap();
        let pcs = full.frames.iter().map(|frame| frame.pc).collect();
        (pcs, full.omitted.map(|gap| (gap.at, gap.count)))
    }

    #[test]
    fn what_is_missing_counts_as_if_it_were_there() {
        // 0 1 2 [10 missing] 3 4
        let first = || sample(0..5, Some((3, 10)), 0);
        let with = |keep| last(vec![first(), sample(90..91, None, keep)]);
        assert_eq!(with(0), (vec![90], None));
        assert_eq!(with(2), (vec![90, 3, 4], None));
        assert_eq!(with(5), (vec![90, 3, 4], Some((1, 3))));
        assert_eq!(with(12), (vec![90, 3, 4], Some((1, 10))));
        assert_eq!(with(13), (vec![90, 2, 3, 4], Some((2, 10))));
        assert_eq!(with(15), (vec![90, 0, 1, 2, 3, 4], Some((4, 10))));
        assert_eq!(with(u64::MAX), (vec![90, 0, 1, 2, 3, 4], Some((4, 10))));
        // Its own gap and that of the one before: one, with what stood between them.
        let second = sample(90..92, Some((1, 7)), 13);
        assert_eq!(
            last(vec![first(), second]),
            (vec![90, 3, 4], Some((1, 7 + 2 + 10)))
        );
    }

    #[test]
    fn gaps_that_lie_do_no_harm() {
        let lies = [(u64::MAX, u64::MAX), (0, u64::MAX), (7, 1), (3, 0)];
        for (at, count) in lies {
            let samples = (0..9).map(|n| sample(0..3, Some((at, count)), n * (u64::MAX / 8)));
            let (pcs, _) = last(samples.collect());
            assert!(pcs.len() <= 27);
        }
    }

    #[test]
    fn a_report_cannot_make_more_frames_than_there_is_room_for() {
        let mut samples = vec![sample(0..60_000, None, 0)];
        samples.extend((0..1000).map(|_| sample(0..1, None, 60_000)));
        let report = Report {
            samples,
            ..Report::default()
        };
        let full = in_full(&report);
        let total: usize = full.iter().map(|thread| thread.frames.len()).sum();
        assert!(total <= MAX_FRAMES + 1000, "{total}");
        let last = full.last().unwrap();
        assert_eq!(
            (last.frames.len(), last.omitted.unwrap().count > 0),
            (1, true)
        );
    }
}
