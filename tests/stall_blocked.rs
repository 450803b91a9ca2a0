//! A thread that is blocked is stopped at most once a stall, in whatever call it waits: the stop's
//! signal makes some calls return EINTR.
#![cfg(target_os = "linux")]

mod stall_support;

use std::time::{Duration, Instant};

use stall_support::{is_child, start};
use wedjat::{Monitor, Stall};

/// Waits in one call for two seconds in all, however often it is interrupted, and counts that.
fn wait(call: impl Fn(Duration) -> i64) -> u64 {
    let until = Instant::now() + Duration::from_secs(2);
    let mut interrupted = 0;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        if call(left) == -1 {
            let errno = std::io::Error::last_os_error();
            assert_eq!(errno.raw_os_error(), Some(libc::EINTR), "{errno}");
            interrupted += 1;
        }
    }
    interrupted
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: time.subsec_nanos().into(),
    }
}

fn play(name: &str, call: impl Fn(Duration) -> i64) {
    let directory = std::env::temp_dir().join(format!("wedjat-{name}-{}", std::process::id()));
    if is_child() {
        let monitor = Monitor::builder("Blocked", "1")
            .directory(&directory)
            .stall(Stall::default())
            .install()
            .unwrap();
        let heart = monitor.heartbeat();
        heart.turn(|| ());
        println!("ready");
        let mut interrupted = 0;
        heart.turn(|| interrupted = wait(call));
        println!("interrupted {interrupted}");
        drop(monitor);
        let reports = wedjat::store::reports(&directory).unwrap();
        let mut count = 0;
        for stored in reports {
            let bytes = std::fs::read(stored.path()).unwrap();
            let report = wedjat::report::read(&bytes).unwrap().report;
            assert_eq!(report.event.unwrap().class.as_deref(), Some("blocked"));
            assert_eq!(report.threads[0].state.as_deref(), Some("blocked"));
            println!(
                "syscall {}",
                report.threads[0].syscall.as_deref().unwrap_or("none")
            );
            // Counted on, although not stopped again.
            let seen: u64 = report.samples.iter().map(|sample| sample.count).sum();
            assert!(seen >= 20, "{seen}");
            count += 1;
        }
        assert_eq!(count, 1);
        std::fs::remove_dir_all(&directory).unwrap();
        return;
    }
    let lines = start(name).rest();
    let number = lines
        .iter()
        .find_map(|line| line.strip_prefix("interrupted "));
    assert!(number.unwrap().parse::<u64>().unwrap() <= 1, "{lines:#?}");
    let call = lines
        .iter()
        .find_map(|line| line.strip_prefix("syscall "))
        .unwrap();
    assert!(
        call.contains(name) || name == "sleep" && call == "clock_nanosleep",
        "{call}"
    );
}

#[test]
fn poll() {
    play("poll", |left| {
        let mut none = libc::pollfd {
            fd: -1,
            events: 0,
            revents: 0,
        };
        // SAFETY: one valid pollfd.
        unsafe { libc::poll(&mut none, 1, left.as_millis() as i32 + 1) as i64 }
    });
}

#[test]
fn select() {
    play("select", |left| {
        let mut time = libc::timeval {
            tv_sec: left.as_secs() as libc::time_t,
            tv_usec: left.subsec_micros() as libc::suseconds_t,
        };
        let none = std::ptr::null_mut();
        // SAFETY: no sets, and a valid timeval.
        unsafe { libc::select(0, none, none, none, &mut time) as i64 }
    });
}

#[test]
fn epoll_wait() {
    // SAFETY: no memory is involved.
    let epoll = unsafe { libc::epoll_create1(0) };
    play("epoll_wait", move |left| {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: room for one event.
        unsafe { libc::epoll_wait(epoll, &mut event, 1, left.as_millis() as i32 + 1) as i64 }
    });
}

#[test]
fn sleep() {
    play("sleep", |left| {
        let (time, mut rest) = (timespec(left), timespec(left));
        // SAFETY: two valid timespecs.
        unsafe { libc::nanosleep(&time, &mut rest) as i64 }
    });
}

#[test]
fn futex() {
    play("futex", |left| {
        let word = std::sync::atomic::AtomicU32::new(7);
        let time = timespec(left);
        // SAFETY: a live word and a valid timespec.
        let done =
            unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, 7, &time) };
        // Its own time-out is no interruption.
        let errno = std::io::Error::last_os_error().raw_os_error();
        if done == -1 && errno == Some(libc::ETIMEDOUT) {
            0
        } else {
            done
        }
    });
}

#[test]
fn rt_sigtimedwait() {
    play("rt_sigtimedwait", |left| {
        let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        let time = timespec(left);
        // SAFETY: the set is initialised before it is used; a signal that nobody sends.
        let done = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), libc::SIGWINCH);
            libc::sigtimedwait(set.as_ptr(), std::ptr::null_mut(), &time)
        };
        let errno = std::io::Error::last_os_error().raw_os_error();
        if done == -1 && errno == Some(libc::EAGAIN) {
            0
        } else {
            i64::from(done)
        }
    });
}

#[test]
fn semtimedop() {
    // SAFETY: no memory is involved.
    let set = unsafe { libc::semget(libc::IPC_PRIVATE, 1, 0o600) };
    play("semtimedop", move |left| {
        let mut wait = libc::sembuf {
            sem_num: 0,
            sem_op: -1,
            sem_flg: 0,
        };
        let time = timespec(left);
        // SAFETY: one operation and a valid timespec.
        let done = unsafe { libc::syscall(libc::SYS_semtimedop, set, &mut wait, 1, &time) };
        let errno = std::io::Error::last_os_error().raw_os_error();
        if done == -1 && errno == Some(libc::EAGAIN) {
            0
        } else {
            done
        }
    });
    // SAFETY: no memory is involved.
    unsafe { libc::semctl(set, 0, libc::IPC_RMID) };
}
