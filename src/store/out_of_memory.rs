//! Decides if a launch ended because memory ran out: its record, compared with the counts of now.

use crate::platform::vitals::MemoryGroup;

/// The state at which the launch was last seen. Memory in bytes, 0 if it is not known.
#[derive(Debug, Clone, Default)]
pub(super) struct LastState {
    /// Its own memory.
    pub footprint: u64,
    /// Free memory of the machine.
    pub free: u64,
    /// Memory of the machine.
    pub total: u64,
    /// Processes that the kernel had killed on this machine.
    pub kills: Option<u64>,
    /// Its control group.
    pub group: Option<MemoryGroup>,
}

/// The counts of now.
#[derive(Debug, Clone, Default)]
pub(super) struct CurrentCounts {
    /// Processes that the kernel has killed on this machine.
    pub kills: Option<u64>,
    /// The control group of the process that looks.
    pub group: Option<MemoryGroup>,
}

/// Returns true if the launch, of which no end was noted, was killed because memory ran out: a process was killed,
/// memory was near its limit, and this launch had such a share of it that it must have been the one.
///
/// A group that outlives its processes counts exactly those of them that were killed; of another group, or where it was
/// made anew, the machine's counter is all there is. Where the launch was alone in its group, what the group had was
/// its own, and a process killed there was it; else its own memory must have been large, since a neighbour's end is
/// counted the same way.
pub(super) fn out_of_memory(was: &LastState, now: &CurrentCounts) -> bool {
    let grew = |then: Option<u64>, now: Option<u64>| matches!((then, now), (Some(then), Some(now)) if now > then);
    let same = match (&was.group, &now.group) {
        (Some(then), Some(now)) if then.id == now.id => Some((then, now)),
        _ => None,
    };
    let counted = same.filter(|(then, now)| then.kills.is_some() && now.kills.is_some());
    let killed = match counted {
        Some((then, now)) => grew(then.kills, now.kills),
        None => grew(was.kills, now.kills),
    };
    let group_limit = was.group.as_ref().and_then(|group| group.limit);
    let Some(limit) = group_limit.into_iter().chain(unless_zero(was.total)).min() else {
        return false;
    };
    let alone = counted.is_some_and(|(then, _)| then.alone);
    let peaks = was.group.iter().chain(same.map(|(_, now)| now));
    let own = if alone {
        peaks.clone().filter_map(|group| group.own_peak).max()
    } else {
        None
    };
    let own = own.unwrap_or(0).max(was.footprint);
    let together = peaks.filter_map(|group| group.peak).max().unwrap_or(0);
    let near = own >= limit / 2
        || group_limit == Some(limit) && together >= limit - limit / 10
        || unless_zero(was.total).is_some_and(|total| was.free < total / 10);
    killed && near && (alone || own >= limit / 4)
}

/// Works as [`out_of_memory`], for systems that count no kills: by the memory that the launch used, alone. A guess.
pub(super) fn by_use_alone(was: &LastState) -> bool {
    let Some(total) = unless_zero(was.total) else {
        return false;
    };
    was.footprint >= total - total / 10 || was.free < total / 20 && was.footprint >= total / 4
}

fn unless_zero(bytes: u64) -> Option<u64> {
    Some(bytes).filter(|&bytes| bytes != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    /// A small process of a machine with 8 GiB, in a group of 256 MiB, alone; 3 were killed there, 5 in all.
    fn was() -> LastState {
        LastState {
            footprint: 8 * MIB,
            free: 4 * GIB,
            total: 8 * GIB,
            kills: Some(5),
            group: Some(MemoryGroup {
                id: 77,
                limit: Some(256 * MIB),
                peak: Some(20 * MIB),
                own_peak: Some(20 * MIB),
                kills: Some(3),
                alone: true,
            }),
        }
    }

    /// The counts after `killed` more were killed in the group, which had at most `peak` bytes.
    fn now(killed: u64, peak: u64) -> CurrentCounts {
        let group = MemoryGroup {
            kills: Some(3 + killed),
            peak: Some(peak),
            own_peak: Some(peak),
            ..was().group.unwrap()
        };
        CurrentCounts {
            kills: Some(5 + killed),
            group: Some(group),
        }
    }

    fn with(change: impl Fn(&mut LastState, &mut MemoryGroup)) -> LastState {
        let mut was = was();
        let mut group = was.group.take().unwrap();
        change(&mut was, &mut group);
        was.group = Some(group);
        was
    }

    #[test]
    fn one_that_took_all_at_once_was_killed_for_it() {
        assert!(out_of_memory(&was(), &now(1, 256 * MIB)));
        assert!(
            !out_of_memory(&was(), &now(0, 256 * MIB)),
            "no process was killed"
        );
        assert!(
            !out_of_memory(&was(), &now(1, 40 * MIB)),
            "there was enough"
        );
    }

    #[test]
    fn a_neighbours_end_is_not_ours() {
        let fallback = with(|_, group| group.alone = false);
        assert!(!out_of_memory(&fallback, &now(1, 256 * MIB)));
        let large = with(|was, group| (was.footprint, group.alone) = (200 * MIB, false));
        assert!(out_of_memory(&large, &now(1, 256 * MIB)));
        // One of another group is not counted in ours, whatever we used.
        let mut elsewhere = now(0, 256 * MIB);
        elsewhere.kills = Some(6);
        assert!(!out_of_memory(
            &with(|was, _| was.footprint = 250 * MIB),
            &elsewhere
        ));
    }

    #[test]
    fn a_group_that_was_made_anew_does_not_count_for_the_last_one() {
        let mut anew = now(0, 256 * MIB);
        let group = anew.group.as_mut().unwrap();
        group.id = 78;
        group.kills = Some(0);
        anew.kills = Some(6);
        assert!(!out_of_memory(&was(), &anew), "it was small when last seen");
        assert!(out_of_memory(
            &with(|was, _| was.footprint = 200 * MIB),
            &anew
        ));
        // Nor does one whose counter is not to be read.
        let unread = with(|was, group| (was.footprint, group.kills) = (200 * MIB, None));
        assert!(out_of_memory(&unread, &now(1, 256 * MIB)));
    }

    #[test]
    fn without_a_group_the_machines_memory_is_the_limit() {
        let on = |footprint, free| LastState {
            footprint,
            free,
            group: None,
            ..was()
        };
        let killed = CurrentCounts {
            kills: Some(6),
            group: None,
        };
        assert!(
            !out_of_memory(&on(GIB / 4, 4 * GIB), &killed),
            "another one"
        );
        assert!(!out_of_memory(&on(GIB, GIB / 8), &killed), "a larger one");
        assert!(
            !out_of_memory(&on(3 * GIB, 4 * GIB), &killed),
            "half of it was free"
        );
        assert!(out_of_memory(&on(3 * GIB, GIB / 8), &killed));
        assert!(out_of_memory(&on(5 * GIB, 3 * GIB), &killed));
        let none = CurrentCounts {
            kills: Some(5),
            group: None,
        };
        assert!(!out_of_memory(&on(7 * GIB, GIB / 8), &none), "none was");
        let uncounted = LastState {
            kills: None,
            ..on(7 * GIB, GIB / 8)
        };
        assert!(!out_of_memory(&uncounted, &killed));
        assert!(!out_of_memory(&LastState::default(), &killed));
    }

    #[test]
    fn where_kills_are_not_counted_only_use_decides() {
        let on = |footprint, free| {
            by_use_alone(&LastState {
                footprint,
                free,
                ..was()
            })
        };
        assert!(!on(2 * GIB, 4 * GIB) && !on(GIB, GIB / 8));
        assert!(on(3 * GIB, GIB / 8) && on(15 * GIB / 2, 4 * GIB));
        assert!(!by_use_alone(&LastState::default()));
    }
}
