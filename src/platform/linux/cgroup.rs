//! The control group of this process: the memory it may have, the memory it had, and how many of its processes were
//! killed.

use crate::platform::descriptors::find_line;
use crate::platform::ownership::FileStat;
use crate::platform::surface::MemoryGroup;
use crate::platform::text::FixedText;

type Text = FixedText<1024>;

/// Names of the files, in one version of control groups.
struct CgroupFiles {
    limit: &'static str,
    /// The most that was used, best first.
    peak: [&'static str; 2],
    /// Counts the killed of this group alone.
    kills: &'static str,
}

/// Documentation/admin-guide/cgroup-v1/memory.rst; `oom_kill` in `memory.oom_control` since Linux 4.14.
const VERSION_1: CgroupFiles = CgroupFiles {
    limit: "memory.limit_in_bytes",
    peak: ["memory.max_usage_in_bytes", "memory.usage_in_bytes"],
    kills: "memory.oom_control",
};

/// Documentation/admin-guide/cgroup-v2.rst; `memory.peak` since Linux 5.19, `memory.events.local` since 5.2.
const VERSION_2: CgroupFiles = CgroupFiles {
    limit: "memory.max",
    peak: ["memory.peak", "memory.current"],
    kills: "memory.events.local",
};

/// The control group that counts this process' memory; `None` where none does, or where its files are not to be
/// seen. Allocates nothing, as a thread of ours calls it; not for handlers.
pub fn memory_group() -> Option<MemoryGroup> {
    // Version 2 does not count memory if version 1 does.
    let (names, (top, folder)) = locate(Some("memory"), "/proc/self")
        .map(|found| (VERSION_1, found))
        .or_else(|| Some((VERSION_2, locate(None, "/proc/self")?)))?;
    read_group(&names, top.as_str(), folder.as_str())
}

/// Returns the mount point of the hierarchy, and the folder of the group within it. `process` is the process' folder.
///
/// Source: cgroups(7), `/proc/pid/cgroup`; proc_pid_mountinfo(5).
fn locate(controller: Option<&str>, process: &str) -> Option<(Text, Text)> {
    let group = find_line(format_args!("{process}/cgroup"), |line| {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let is_it = match controller {
            Some(controller) => controllers.split(',').any(|each| each == controller),
            None => number == "0" && controllers.is_empty(),
        };
        is_it.then(|| Text::of(path.as_bytes()))
    })?;
    find_line(format_args!("{process}/mountinfo"), |line| {
        let (mount, system) = line.split_once(" - ")?;
        let mut system = system.split(' ');
        let (kind, options) = (system.next()?, system.nth(1).unwrap_or_default());
        let is_it = match controller {
            Some(controller) => {
                kind == "cgroup" && options.split(',').any(|option| option == controller)
            }
            None => kind == "cgroup2",
        };
        let mut words = mount.split(' ').skip(3);
        let (root, top) = (words.next()?, words.next()?);
        // A hierarchy of which only a part is mounted, as in a container, has the group within that part or as its root.
        let within = group.as_str().strip_prefix(root.trim_end_matches('/'));
        let within = within.filter(|within| within.starts_with('/'));
        let (top, mut folder) = (Text::of(top.as_bytes()), Text::of(top.as_bytes()));
        is_it.then(|| folder.add(within.unwrap_or_default()))?;
        Some((top, folder))
    })
}

fn read_group<'a>(names: &CgroupFiles, top: &str, folder: &'a str) -> Option<MemoryGroup> {
    let number = |folder: &str, file: &str| -> Option<u64> {
        find_line(format_args!("{folder}/{file}"), |line| line.parse().ok())
    };
    let peak = |folder: &str| names.peak.iter().find_map(|file| number(folder, file));
    let above = |folder: &&'a str| Some(folder.rsplit_once('/')?.0);
    // The smallest up to the root counts. Version 1 writes "no limit" as a number that no machine has, version 2
    // by a word.
    let (limit, limited) = std::iter::successors(Some(folder), above)
        .take_while(|each| each.starts_with(top))
        .filter_map(|each| Some((number(each, names.limit)?, each)))
        .filter(|&(limit, _)| limit < 1 << 60)
        .min_by_key(|&(limit, _)| limit)
        .unzip();
    let kills = |file: &str| {
        find_line(format_args!("{folder}/{file}"), |line| {
            line.strip_prefix("oom_kill ")?.trim().parse().ok()
        })
    };
    let own_kills = kills(names.kills);
    let mut processes = 0u32;
    find_line(format_args!("{folder}/cgroup.procs"), |_| {
        processes = processes.saturating_add(1);
        None::<()>
    });
    let path = Text::path(format_args!("{folder}"));
    Some(MemoryGroup {
        id: FileStat::at(libc::AT_FDCWD, path.as_c_str()).ok()?.inode,
        limit,
        peak: limited.and_then(peak),
        own_peak: peak(folder),
        // Older kernels count those of the groups below with it, so that it is not known whose they were.
        kills: own_kills.or_else(|| kills("memory.events")),
        alone: own_kills.is_some() && processes == 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
    const GROUPS: &str = "4:memory:/user/app\n2:cpuacct,cpu:/\n0::/user.slice/app.scope\n";

    /// The mount point and the folder by the texts of a process' two files.
    fn located(controller: Option<&str>, groups: &str, mounts: &str) -> Option<[String; 2]> {
        let process = tempfile::tempdir().unwrap();
        std::fs::write(process.path().join("cgroup"), groups).unwrap();
        std::fs::write(process.path().join("mountinfo"), mounts).unwrap();
        let (top, folder) = locate(controller, process.path().to_str()?)?;
        Some([top, folder].map(|path| path.as_str().to_owned()))
    }

    #[test]
    fn a_group_is_found_in_either_version() {
        let found = located(Some("memory"), GROUPS, MOUNTS).unwrap();
        assert_eq!(found[0], "/sys/fs/cgroup/memory");
        assert_eq!(found[1], "/sys/fs/cgroup/memory/user/app");
        let unified = "/sys/fs/cgroup/unified/user.slice/app.scope";
        assert_eq!(located(None, GROUPS, MOUNTS).unwrap()[1], unified);
        assert_eq!(located(Some("memory"), "0::/\n", MOUNTS), None);
        assert_eq!(located(None, "0::/\n", ""), None);
        // Behind more mounts than one read gives; one has a longer line.
        let other = "31 23 0:28 / /run/at rw - tmpfs tmpfs rw,mode=755\n";
        let long = format!(
            "{} - overlay over rw,{}",
            &other[..28],
            "lower:".repeat(2000)
        );
        let many = other.repeat(500) + &long + "\n" + MOUNTS.trim_end();
        assert_eq!(located(None, GROUPS, &many).unwrap()[1], unified);
    }

    #[test]
    fn of_a_container_the_root_that_it_sees_is_its_group() {
        let mounts = "35 31 0:32 /docker/f00 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let found = located(Some("memory"), "4:memory:/docker/f00\n", mounts).unwrap();
        assert_eq!(found[1], "/sys/fs/cgroup/memory");
        let found = located(Some("memory"), "4:memory:/docker/f00/in\n", mounts).unwrap();
        assert_eq!(found[1], "/sys/fs/cgroup/memory/in");
        for elsewhere in ["4:memory:/elsewhere\n", "4:memory:/docker/f001\n"] {
            let found = located(Some("memory"), elsewhere, mounts).unwrap();
            assert_eq!(found[1], "/sys/fs/cgroup/memory");
        }
    }

    /// Files as version 2 has them.
    #[test]
    fn the_smallest_limit_up_to_the_root_counts() {
        let top = std::env::temp_dir().join(format!("wedjat-cgroup-{}", std::process::id()));
        let inner = top.join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        let write = |file: &str, text: &str| std::fs::write(top.join(file), text).unwrap();
        let read_at = |folder: &std::path::Path| {
            read_group(&VERSION_2, top.to_str().unwrap(), folder.to_str().unwrap())
        };
        let read = || read_at(&inner);
        write("a/memory.max", "4096\n");
        write("a/memory.peak", "4000\n");
        write("a/b/memory.max", "max\n");
        write("a/b/memory.current", "100\n");
        write("a/b/memory.events", "oom 9\noom_kill 7\n");
        write("a/b/cgroup.procs", "17\n");
        let group = read().unwrap();
        assert_eq!((group.limit, group.peak), (Some(4096), Some(4000)));
        assert_eq!((group.own_peak, group.kills), (Some(100), Some(7)));
        assert!(!group.alone, "those below count too");
        write(
            "a/b/memory.events.local",
            "low 0\noom 1\noom_kill 3\noom_group_kill 0\n",
        );
        let group = read().unwrap();
        assert!(group.alone && group.kills == Some(3));
        write("a/b/cgroup.procs", "17\n18\n");
        write("a/b/memory.max", "2048\n");
        let group = read().unwrap();
        assert_eq!((group.alone, group.limit), (false, Some(2048)));
        assert_eq!(read_at(&top.join("none")), None);
        std::fs::remove_dir_all(&top).unwrap();
    }
}
