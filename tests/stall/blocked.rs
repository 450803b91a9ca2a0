//! A thread that is blocked is stopped at most once a stall, in whatever call it waits: the stop's
//! signal makes some calls return EINTR. Where its stack can be read as it lies, it is not stopped
//! at all.

mod ended;

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use crate::support::stall::{DISTURBED, is_child, start, undisturbed};
use wedjat::{Monitor, Stall};

/// Waits in one call for a second in all, however often it is interrupted, and counts that.
fn wait(call: impl Fn(Duration) -> i64) -> u64 {
    let until = Instant::now() + Duration::from_secs(1);
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

/// What one play showed.
#[derive(Debug, Default)]
struct Shown {
    interrupted: u64,
    /// CPU time that the waiting took, nanoseconds.
    used: u64,
    /// How long the waiting thread, and the watchdog, were ready to run but had no CPU, nanoseconds.
    starved: u64,
    reports: u64,
    class: String,
    state: String,
    syscall: String,
    /// Samples, counted on although the thread was not stopped again.
    seen: u64,
}

fn play(name: &str, call: impl Fn(Duration) -> i64) {
    play_test(name, name, || wait(call));
}

/// Plays the test of this name, whose watched thread waits in this call, a second in all; `waiting` says
/// how often it was interrupted.
fn play_test(test: &str, name: &str, waiting: impl FnOnce() -> u64) {
    if is_child() {
        return play_child(name, waiting);
    }
    let play = || {
        let shown = Shown::read(&start(&format!("blocked::{test}")).rest());
        // A way back from a signal that took long is one that was interrupted itself.
        let starved = shown.starved + 100 * shown.used;
        (shown, starved)
    };
    // A few milliseconds at the wrong moment, on the way back from a signal, make it look awake.
    undisturbed(DISTURBED / 10, play, |shown| {
        assert_eq!(shown.reports, 1, "{shown:?}");
        assert!(shown.interrupted <= 1, "{shown:?}");
        println!("{test}: {} EINTR", shown.interrupted);
        assert_eq!(shown.class, "blocked", "{shown:?}");
        assert_eq!(shown.state, "blocked", "{shown:?}");
        assert!(shown.seen >= 10, "{shown:?}");
        assert!(
            shown.syscall.contains(name) || name == "sleep" && shown.syscall == "clock_nanosleep",
            "{shown:?}"
        );
    });
}

impl Shown {
    fn read(lines: &[String]) -> Shown {
        let word = |key: &str| {
            let found = lines
                .iter()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
            found.unwrap_or_default().to_owned()
        };
        let number = |key| word(key).parse().unwrap_or(u64::MAX);
        Shown {
            interrupted: number("interrupted"),
            used: number("used"),
            starved: number("starved"),
            reports: number("reports"),
            class: word("class"),
            state: word("state"),
            syscall: word("syscall"),
            seen: number("seen"),
        }
    }
}

fn play_child(name: &str, waiting: impl FnOnce() -> u64) {
    let directory = std::env::temp_dir().join(format!("wedjat-{name}-{}", std::process::id()));
    let monitor = Monitor::builder("Blocked", "1")
        .directory(&directory)
        .stall(Stall::default())
        .install()
        .unwrap();
    let heart = monitor.heartbeat();
    heart.turn(|| ());
    println!("ready");
    let before = schedule("/proc/thread-self");
    let watchdog = thread_named("wedjat");
    let watchdog_before = schedule(&watchdog);
    let mut interrupted = 0;
    heart.turn(|| interrupted = waiting());
    let after = schedule("/proc/thread-self");
    let watchdog_after = schedule(&watchdog);
    println!("interrupted {interrupted}");
    println!("used {}", after.0 - before.0);
    let starved = after.1 - before.1 + watchdog_after.1 - watchdog_before.1;
    println!("starved {starved}");
    drop(monitor);
    let reports = wedjat::store::reports(&directory).unwrap();
    println!("reports {}", reports.len());
    for stored in reports {
        let report = stored.read().unwrap().report;
        let thread = &report.threads[0];
        println!("class {}", report.event.unwrap().class.unwrap().as_str());
        println!("state {}", thread.state_word().unwrap_or("none"));
        println!("syscall {}", thread.syscall.as_deref().unwrap_or("none"));
        let seen: u64 = report.samples.iter().map(|sample| sample.count).sum();
        println!("seen {seen}");
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

/// CPU time of a thread, and its time without one although it was ready, nanoseconds.
fn schedule(folder: &str) -> (u64, u64) {
    let text = std::fs::read_to_string(format!("{folder}/schedstat")).unwrap();
    let mut words = text.split_whitespace().map(|word| word.parse().unwrap());
    (words.next().unwrap(), words.next().unwrap())
}

fn thread_named(name: &str) -> String {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let mut folders = tasks.map(|task| task.unwrap().path());
    let named = |folder: &std::path::PathBuf| {
        std::fs::read_to_string(folder.join("comm")).is_ok_and(|comm| comm.trim() == name)
    };
    let folder = folders.find(named).expect(name);
    folder.to_str().unwrap().to_owned()
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
        // SAFETY: the set is initialised before it is used; a signal that nothing sends.
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

/// A socket whose calls time out: without SO_RCVTIMEO they would be restarted.
fn timed(socket: i32, left: Duration) -> i32 {
    let time = libc::timeval {
        tv_sec: left.as_secs() as libc::time_t,
        tv_usec: libc::suseconds_t::from(left.subsec_micros() as i32 + 1).min(999_999),
    };
    // SAFETY: a valid timeval of that size.
    let done = unsafe {
        libc::setsockopt(
            socket,
            libc::SOL_SOCKET,
            libc::SO_RCVTIMEO,
            (&raw const time).cast(),
            size_of_val(&time) as u32,
        )
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    socket
}

/// That the time is over is no failure.
fn or_time_out(result: i64) -> i64 {
    let errno = std::io::Error::last_os_error().raw_os_error();
    if errno == Some(libc::EAGAIN) {
        0
    } else {
        result
    }
}

#[test]
fn recvfrom() {
    let (socket, _other) = std::os::unix::net::UnixDatagram::pair().unwrap();
    play("recvfrom", move |left| {
        let socket = timed(socket.as_raw_fd(), left);
        let mut byte = [0u8];
        // SAFETY: room for one byte.
        let result = unsafe { libc::recv(socket, byte.as_mut_ptr().cast(), 1, 0) };
        or_time_out(result as i64)
    });
}

#[test]
fn accept() {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    play("accept", move |left| {
        let socket = timed(socket.as_raw_fd(), left);
        let none = std::ptr::null_mut();
        // SAFETY: nothing reads the address.
        or_time_out(unsafe { libc::accept(socket, none, std::ptr::null_mut()) } as i64)
    });
}
