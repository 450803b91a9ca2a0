//! Ends for want of memory, in a control group of the test's own with a small limit.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use wedjat::Monitor;
use wedjat::store::{self, HowEnded};

use crate::child::deadline;
use crate::child::{Folder, command};
use crate::{Tests, tests};

const TAKES_ALL: &str = "who_takes_all_memory_at_once_ran_out_of_it";
const KILLED: &str = "who_is_killed_in_a_group_with_a_limit_did_not_run_out_of_memory";
const FALLBACK: &str = "who_is_killed_beside_one_that_ran_out_of_memory_did_not";
const EARLIER: &str = "who_is_killed_after_one_that_ran_out_of_memory_did_not";

pub fn trials() -> Tests {
    tests(&[
        (TAKES_ALL, takes_all),
        (KILLED, killed),
        (FALLBACK, beside),
        (EARLIER, earlier),
    ])
}

/// Why such a test is not possible here.
pub fn lacks(name: &str) -> Option<&'static str> {
    let is_one = [TAKES_ALL, KILLED, FALLBACK, EARLIER].contains(&name);
    let possible = !is_one || Group::new("none").is_some();
    (!possible).then_some("a control group with a limit takes the right to make one")
}

/// What each may have, bytes.
const LIMIT: u64 = 96 << 20;

/// A control group, gone when the value is.
struct Group(PathBuf);

impl Group {
    fn new(name: &str) -> Option<Group> {
        let name = format!("wedjat-test-{name}-{}", std::process::id());
        let one = |top: &str, limit: &str, with_swap: &str, swap: u64| {
            let folder = Path::new(top).join(&name);
            std::fs::create_dir(&folder).ok()?;
            let group = Group(folder);
            let set =
                |file: &str, value: u64| std::fs::write(group.0.join(file), value.to_string());
            set(limit, LIMIT).ok()?;
            // Not where there is no swap.
            let _ = set(with_swap, swap);
            Some(group)
        };
        let (first, second) = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes");
        one("/sys/fs/cgroup/memory", first, second, LIMIT)
            .or_else(|| one("/sys/fs/cgroup", "memory.max", "memory.swap.max", 0))
    }

    /// Starts this program in a role, in the group from its first instruction on.
    fn start(&self, role: &str, folder: &Path) -> std::process::Child {
        let list = self.0.join("cgroup.procs");
        let mut command = command(role, folder);
        // SAFETY: opens and writes a file by system calls alone; std makes the C string of so short a path on the
        // stack.
        unsafe {
            command.pre_exec(move || std::fs::File::create(&list)?.write_all(b"0"));
        }
        let command = command.process_group(0).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// The signal that a role in the group dies of.
    fn dies(&self, role: &str, folder: &Path) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt;
        let ended = deadline::end(self.start(role, folder), deadline::PATIENCE);
        let printed = String::from_utf8_lossy(&ended.stderr);
        assert!(
            ended.status.signal().is_some(),
            "{role}: {:?}, {printed}",
            ended.status
        );
        ended.status.signal()
    }

    /// How the last launch ended, as the next one in the group finds it.
    fn how(&self, folder: &Path) -> HowEnded {
        let ended = deadline::end(self.start("memory_tells", folder), deadline::PATIENCE);
        assert!(
            ended.status.success(),
            "{:?}",
            String::from_utf8_lossy(&ended.stderr)
        );
        let how = std::fs::read_to_string(folder.join("how")).unwrap();
        let all = [HowEnded::OutOfMemory, HowEnded::Abrupt, HowEnded::Stalled];
        let found = all.into_iter().find(|each| each.as_str() == how);
        found.unwrap_or_else(|| panic!("ended by {how}"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that has just died may still be counted.
        until("end of the group", || std::fs::remove_dir(&self.0).is_ok());
    }
}

/// Without `.stall`: nothing looks at the memory between install and the end.
fn watch(folder: &Path) -> Monitor {
    let builder = Monitor::builder("memory", "1").directory(folder);
    builder.install().unwrap()
}

pub fn role(role: &str, folder: &Path) -> bool {
    match role {
        "memory_takes_all" => {
            let _monitor = watch(folder);
            eat();
        }
        "memory_killed" => {
            let _monitor = watch(folder);
            kill();
        }
        "memory_eats" => eat(),
        // Lies in the group before the app is installed; ends by being killed.
        "memory_waits_and_eats" => {
            std::fs::write(folder.join("waits"), "").unwrap();
            until("app", || folder.join("eat").exists());
            eat();
        }
        "memory_beside" => {
            let _monitor = watch(folder);
            std::fs::write(folder.join("eat"), "").unwrap();
            until("neighbour's end", || folder.join("eaten").exists());
            kill();
        }
        "memory_earlier" => {
            let _monitor = watch(folder);
            let mut eater = Command::new(crate::child::program());
            let ended = eater
                .env(crate::child::ROLE, "memory_eats")
                .status()
                .unwrap();
            assert!(!ended.success());
            // Until the helper thread has counted it.
            let now = SystemTime::now();
            until("count", || written(folder) > now);
            // The record may have been written for another reason: the helper thread counts once in 5 s.
            let begin = Instant::now();
            until("round", || begin.elapsed() > Duration::from_secs(6));
            kill();
        }
        "memory_tells" => {
            let mut launches = store::launches(folder).unwrap();
            assert_eq!(launches.len(), 1, "{launches:?}");
            let how = launches.remove(0).how;
            std::fs::write(folder.join("how"), how.as_str()).unwrap();
        }
        _ => return false,
    }
    true
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "no {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn eat() -> ! {
    let mut all = Vec::new();
    loop {
        // Each page is touched.
        all.push(std::hint::black_box(vec![1u8; 1 << 20]));
        assert!(all.len() < 4096, "nothing stops it");
    }
}

fn kill() {
    // SAFETY: nothing of the process is used any more.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

/// When the launch's record was written last.
fn written(folder: &Path) -> SystemTime {
    let mut files = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let record = files.find(|file| {
        file.path()
            .extension()
            .is_some_and(|ending| ending == "launch")
    });
    record.unwrap().metadata().unwrap().modified().unwrap()
}

fn takes_all() {
    let (group, folder) = (Group::new("all").unwrap(), Folder::new("takes-all"));
    assert_eq!(
        group.dies("memory_takes_all", &folder.0),
        Some(libc::SIGKILL)
    );
    assert_eq!(group.how(&folder.0), HowEnded::OutOfMemory);
}

fn killed() {
    let (group, folder) = (Group::new("killed").unwrap(), Folder::new("killed"));
    // The group has been at its limit before, and has counted it.
    assert_eq!(group.dies("memory_eats", &folder.0), Some(libc::SIGKILL));
    assert_eq!(group.dies("memory_killed", &folder.0), Some(libc::SIGKILL));
    assert_eq!(group.how(&folder.0), HowEnded::Abrupt);
}

fn beside() {
    let (group, folder) = (Group::new("beside").unwrap(), Folder::new("beside"));
    let mut eater = group.start("memory_waits_and_eats", &folder.0);
    until("neighbour", || folder.0.join("waits").exists());
    let app = group.start("memory_beside", &folder.0);
    assert!(!eater.wait().unwrap().success());
    std::fs::write(folder.0.join("eaten"), "").unwrap();
    let ended = deadline::end(app, deadline::PATIENCE);
    assert!(
        !ended.status.success(),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    assert_eq!(group.how(&folder.0), HowEnded::Abrupt);
}

fn earlier() {
    let (group, folder) = (Group::new("earlier").unwrap(), Folder::new("earlier"));
    assert_eq!(group.dies("memory_earlier", &folder.0), Some(libc::SIGKILL));
    assert_eq!(group.how(&folder.0), HowEnded::Abrupt);
}
