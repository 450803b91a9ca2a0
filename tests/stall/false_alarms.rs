//! What is no stall: each case really done to a process.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::stall::{
    burn, count, is_child, start, tell_starved, undisturbed_child, wait_for_parent, watch,
};

const HELD: Duration = Duration::from_millis(800);

/// The child of most tests: one turn that lasts until the parent writes.
fn one_turn() {
    let (heart, watchdog) = watch();
    // SAFETY: no arguments.
    heart.turn(|| {
        println!("ready");
        // SAFETY: no arguments.
        println!("{}", unsafe { libc::gettid() });
        wait_for_parent();
    });
    sleep(Duration::from_millis(200));
    tell_starved(&watchdog);
    drop(watchdog);
}

#[test]
fn a_stopped_process_has_no_stall() {
    if is_child() {
        return one_turn();
    }
    undisturbed_child(
        || {
            let mut child = start("false_alarms::a_stopped_process_has_no_stall");
            child.signal(libc::SIGSTOP);
            sleep(HELD);
            child.signal(libc::SIGCONT);
            child.tell();
            child.rest()
        },
        |lines| {
            assert_eq!(count(lines, "stalled"), 0, "{lines:#?}");
            assert_eq!(count(lines, "dropped background"), 1, "{lines:#?}");
        },
    );
}

#[test]
fn a_process_that_is_stopped_while_idle_has_none_either() {
    if is_child() {
        let (heart, watchdog) = watch();
        println!("ready");
        for _ in 0..150 {
            heart.turn(|| burn(Duration::from_millis(2)));
            sleep(Duration::from_millis(8));
        }
        tell_starved(&watchdog);
        return drop(watchdog);
    }
    undisturbed_child(
        || {
            let child = start("false_alarms::a_process_that_is_stopped_while_idle_has_none_either");
            for _ in 0..3 {
                child.signal(libc::SIGSTOP);
                sleep(Duration::from_millis(400));
                child.signal(libc::SIGCONT);
                sleep(Duration::from_millis(150));
            }
            child.rest()
        },
        |lines| {
            assert_eq!(count(lines, "stalled"), 0, "{lines:#?}");
        },
    );
}

#[test]
fn a_real_freeze_after_a_stop_is_still_found() {
    if is_child() {
        return one_turn();
    }
    undisturbed_child(
        || {
            let mut child = start("false_alarms::a_real_freeze_after_a_stop_is_still_found");
            child.signal(libc::SIGSTOP);
            sleep(HELD);
            child.signal(libc::SIGCONT);
            let real = Instant::now();
            sleep(Duration::from_millis(600));
            child.tell();
            let real = real.elapsed();
            let mut lines = child.rest();
            lines.push(format!("real {}", real.as_nanos()));
            lines
        },
        |lines| {
            assert_eq!(count(lines, "stalled"), 1, "{lines:#?}");
            // The time of the stop is not part of it.
            let end = lines.iter().find(|line| line.starts_with("ended")).unwrap();
            let (_, lasted) = end.split_once("; in all ").unwrap();
            let lasted: u64 = lasted.parse().unwrap();
            let real = lines.iter().find_map(|line| line.strip_prefix("real "));
            let real: u64 = real.unwrap().parse().unwrap();
            assert!(
                (550_000_000..real + 500_000_000).contains(&lasted),
                "{end}, not {real}"
            );
        },
    );
}

/// Holds threads of the child as a debugger does.
fn hold(threads: &[i32]) {
    for &thread in threads {
        // SAFETY: ATTACH reads and writes no memory.
        let done = unsafe { libc::ptrace(libc::PTRACE_ATTACH, thread, 0, 0) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
        let mut status = 0;
        // SAFETY: `status` is valid for the write.
        let waited = unsafe { libc::waitpid(thread, &mut status, libc::__WALL) };
        assert_eq!(waited, thread);
    }
    sleep(HELD);
    for &thread in threads {
        // SAFETY: DETACH reads and writes no memory.
        let done = unsafe { libc::ptrace(libc::PTRACE_DETACH, thread, 0, 0) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }
}

#[test]
fn a_debugger_that_holds_the_watched_thread_makes_no_stall() {
    if is_child() {
        return one_turn();
    }
    undisturbed_child(
        || {
            let mut child =
                start("false_alarms::a_debugger_that_holds_the_watched_thread_makes_no_stall");
            let watched = child.line().parse().unwrap();
            hold(&[watched]);
            child.tell();
            child.rest()
        },
        |lines| {
            assert_eq!(count(lines, "stalled"), 0, "{lines:#?}");
            assert_eq!(count(lines, "dropped debugger"), 1, "{lines:#?}");
        },
    );
}

#[test]
fn a_debugger_that_holds_the_whole_process_makes_no_stall() {
    if is_child() {
        return one_turn();
    }
    undisturbed_child(
        || {
            let mut child =
                start("false_alarms::a_debugger_that_holds_the_whole_process_makes_no_stall");
            let tasks = std::fs::read_dir(format!("/proc/{}/task", child.pid())).unwrap();
            let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
            let threads: Vec<i32> = tasks
                .map(|entry| name(entry).to_str().unwrap().parse().unwrap())
                .collect();
            hold(&threads);
            child.tell();
            child.rest()
        },
        |lines| {
            assert_eq!(count(lines, "stalled"), 0, "{lines:#?}");
            assert_eq!(count(lines, "dropped"), 1, "{lines:#?}");
        },
    );
}

#[test]
fn a_watchdog_without_cpu_makes_no_stalls_up() {
    if is_child() {
        let (heart, watchdog) = watch();
        // The watchdog gets only what three busy threads on the same core leave: next to nothing.
        // SAFETY: valid sets and parameters of our own threads.
        unsafe {
            let mut core: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(0, &mut core);
            let idle = libc::sched_param { sched_priority: 0 };
            let tid = watchdog.thread_id();
            assert_eq!(libc::sched_setscheduler(tid, libc::SCHED_IDLE, &idle), 0);
            assert_eq!(libc::sched_setaffinity(tid, size_of_val(&core), &core), 0);
            for _ in 0..3 {
                std::thread::spawn(move || {
                    libc::sched_setaffinity(0, size_of_val(&core), &core);
                    loop {
                        std::hint::spin_loop();
                    }
                });
            }
        }
        println!("ready");
        let (begin, mut slow) = (Instant::now(), 0);
        while begin.elapsed() < Duration::from_secs(4) {
            let turn = Instant::now();
            heart.turn(|| burn(Duration::from_millis(3)));
            // On a machine under load the watched thread may really freeze.
            slow += usize::from(turn.elapsed() > Duration::from_millis(150));
            sleep(Duration::from_millis(3));
        }
        println!("slow {slow}");
        return drop(watchdog);
    }
    let lines = start("false_alarms::a_watchdog_without_cpu_makes_no_stalls_up").rest();
    let slow = lines
        .iter()
        .find_map(|line| line.strip_prefix("slow "))
        .unwrap();
    assert!(
        count(&lines, "stalled") <= slow.parse().unwrap(),
        "{lines:#?}"
    );
}

#[test]
fn a_nested_loop_that_waits_for_events_is_no_stall_but_a_freeze_in_it_is() {
    if is_child() {
        let (heart, watchdog) = watch();
        println!("ready");
        // A dialog: its own loop, quick turns, and long waits for the next event.
        let dialog = || {
            for _ in 0..3 {
                heart.turn(|| burn(Duration::from_millis(2)));
                let mut none = libc::pollfd {
                    fd: -1,
                    events: 0,
                    revents: 0,
                };
                // SAFETY: one valid pollfd.
                unsafe { libc::poll(&mut none, 1, 700) };
            }
        };
        heart.turn(dialog);
        sleep(Duration::from_millis(100));
        heart.turn(|| {
            dialog();
            println!("and now");
            heart.turn(|| burn(Duration::from_millis(500)));
            heart.turn(|| ());
        });
        sleep(Duration::from_millis(200));
        tell_starved(&watchdog);
        return drop(watchdog);
    }
    undisturbed_child(
        || {
            start("false_alarms::a_nested_loop_that_waits_for_events_is_no_stall_but_a_freeze_in_it_is").rest()
        },
        |lines| {
            let stalled = lines
                .iter()
                .position(|line| line.starts_with("stalled"))
                .expect("the freeze");
            let and_now = lines.iter().position(|line| line == "and now").unwrap();
            assert!(and_now < stalled, "{lines:#?}");
            assert_eq!(count(lines, "stalled"), 1, "{lines:#?}");
            assert!(count(lines, "dropped modal") >= 1, "{lines:#?}");
        },
    );
}
