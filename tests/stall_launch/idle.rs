//! Apps that are idle before their first heartbeat, each in another call: none of them returns.

use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, RwLock, mpsc};
use std::time::Duration;

use wedjat::Monitor;
use wedjat::platform::clock::monotonic;

use super::burn;

const MS: Duration = Duration::from_millis(1);

/// When the save began that is under way, nanoseconds; 0 for none.
static SAVING: AtomicU64 = AtomicU64::new(0);
/// How long one took, nanoseconds.
static SLOWEST: AtomicU64 = AtomicU64::new(0);

fn saving() -> u64 {
    match SAVING.load(Ordering::Relaxed) {
        0 => 0,
        begin => monotonic() - begin,
    }
}

/// How long the disk held up a save, nanoseconds: long enough, that is a stall.
pub fn slowest_save() -> u64 {
    SLOWEST.load(Ordering::Relaxed).max(saving())
}

/// What each waits in, by its name.
pub const ALL: &[&str] = &[
    "poll",
    "ppoll",
    "select",
    "pselect",
    "epoll_wait",
    "sigwait",
    "sigsuspend",
    "signalfd",
    "nanosleep",
    "nanosleep_again_and_again",
    "read_pipe",
    "read_socket",
    "read_terminal",
    "read_eventfd",
    "read_timerfd",
    "read_inotify",
    "open_fifo",
    "accept",
    "recv",
    "io_uring_or_epoll_pwait2",
    "flock",
    "msgrcv",
    "semop",
    "mq_receive",
    "sem_wait",
    "pthread_cond_wait",
    "waitpid",
    "vfork",
    "join",
    "park",
    "channel",
    "condvar",
    "std_mutex",
    "std_rwlock",
    "block_on_parked",
    "block_on_io",
    "readme_loop",
    "run_loop_with_timers",
    "run_loop_that_saves",
];

/// A pipe from which nothing comes.
fn silence() -> i32 {
    let mut ends = [0; 2];
    // SAFETY: two descriptors go into the array; both stay open.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    ends[0]
}

fn temporary(folder: &Path, name: &str) -> CString {
    let path = folder.join(name);
    CString::new(path.into_os_string().into_string().unwrap()).unwrap()
}

fn read(file: i32) {
    let mut byte = [0u8; 256];
    // SAFETY: room of the length given.
    let got = unsafe { libc::read(file, byte.as_mut_ptr().cast(), byte.len()) };
    println!("read gave {got}: {}", std::io::Error::last_os_error());
}

/// Waits in this way, for ever.
pub fn wait(kind: &str, folder: &Path, monitor: &Monitor) -> ! {
    loop {
        once(kind, folder, monitor);
    }
}

#[allow(clippy::too_many_lines, reason = "a table of calls")]
fn once(kind: &str, folder: &Path, monitor: &Monitor) {
    // SAFETY, for all that follows: plain calls on structures of this function's own, which live across
    // the calls.
    let mut one = libc::pollfd {
        fd: silence(),
        events: libc::POLLIN,
        revents: 0,
    };
    let nothing = std::ptr::null_mut::<u8>();
    match kind {
        // SAFETY: see above.
        "poll" => unsafe {
            libc::poll(&mut one, 1, -1);
        },
        // SAFETY: see above.
        "ppoll" => unsafe {
            libc::ppoll(&mut one, 1, std::ptr::null(), std::ptr::null());
        },
        // SAFETY: see above.
        "select" | "pselect" => unsafe {
            let mut set: libc::fd_set = std::mem::zeroed();
            libc::FD_SET(one.fd, &mut set);
            let (no, none) = (std::ptr::null_mut(), std::ptr::null());
            if kind == "select" {
                libc::select(one.fd + 1, &mut set, no, no, std::ptr::null_mut());
            } else {
                libc::pselect(one.fd + 1, &mut set, no, no, none, std::ptr::null());
            }
        },
        // SAFETY: see above.
        "epoll_wait" => unsafe {
            let epoll = libc::epoll_create1(0);
            let mut event: libc::epoll_event = std::mem::zeroed();
            libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, one.fd, &mut event);
            libc::epoll_wait(epoll, &mut event, 1, -1);
        },
        // SAFETY: see above.
        "io_uring_or_epoll_pwait2" => unsafe {
            let mut parameters = [0u32; 30];
            let ring = libc::syscall(libc::SYS_io_uring_setup, 4, parameters.as_mut_ptr());
            if ring >= 0 {
                // To wait for one completion that never comes (IORING_ENTER_GETEVENTS).
                libc::syscall(libc::SYS_io_uring_enter, ring, 0, 1, 1, 0usize, 0usize);
            } else {
                let mut event: libc::epoll_event = std::mem::zeroed();
                let (epoll, none) = (libc::epoll_create1(0), 0usize);
                libc::syscall(
                    libc::SYS_epoll_pwait2,
                    epoll,
                    &mut event,
                    1,
                    none,
                    none,
                    none,
                );
            }
        },
        // SAFETY: see above.
        "sigwait" | "sigsuspend" | "signalfd" => unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            if kind == "sigsuspend" {
                libc::sigsuspend(&set);
                return;
            }
            libc::sigaddset(&mut set, libc::SIGUSR1);
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            if kind == "sigwait" {
                libc::sigwait(&set, &mut 0);
            } else {
                read(libc::signalfd(-1, &set, 0));
            }
        },
        "nanosleep" => std::thread::sleep(3_600_000 * MS),
        "nanosleep_again_and_again" => std::thread::sleep(7 * MS),
        "read_pipe" => read(one.fd),
        "read_socket" => {
            let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
            read(socket.as_raw_fd());
        }
        // SAFETY: see above.
        "read_terminal" => unsafe {
            let (mut master, mut slave) = (0, 0);
            let opened = libc::openpty(
                &mut master,
                &mut slave,
                std::ptr::null_mut(),
                nothing.cast(),
                nothing.cast(),
            );
            assert_eq!(opened, 0);
            read(slave);
        },
        // SAFETY: see above.
        "read_eventfd" => read(unsafe { libc::eventfd(0, 0) }),
        // SAFETY: see above.
        "read_timerfd" => unsafe {
            let timer = libc::timerfd_create(libc::CLOCK_MONOTONIC, 0);
            let mut when: libc::itimerspec = std::mem::zeroed();
            when.it_value.tv_sec = 3600;
            libc::timerfd_settime(timer, 0, &when, std::ptr::null_mut());
            read(timer);
        },
        // SAFETY: see above.
        "read_inotify" => unsafe {
            let watch = libc::inotify_init1(0);
            let path = CString::new(folder.to_str().unwrap()).unwrap();
            libc::inotify_add_watch(watch, path.as_ptr(), libc::IN_DELETE_SELF);
            read(watch);
        },
        // SAFETY: see above.
        "open_fifo" => unsafe {
            let path = temporary(folder, "fifo");
            libc::mkfifo(path.as_ptr(), 0o600);
            libc::open(path.as_ptr(), libc::O_RDONLY);
        },
        "accept" => drop(std::net::TcpListener::bind("127.0.0.1:0").unwrap().accept()),
        "recv" => drop(
            std::net::UdpSocket::bind("127.0.0.1:0")
                .unwrap()
                .recv(&mut [0; 8]),
        ),
        // SAFETY: see above.
        "flock" => unsafe {
            let path = temporary(folder, "lock");
            let open = || libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CREAT, 0o600);
            let (first, second) = (open(), open());
            assert_eq!(libc::flock(first, libc::LOCK_EX), 0);
            libc::flock(second, libc::LOCK_EX);
        },
        // SAFETY: see above; the queue is removed while nothing else waits on it.
        "msgrcv" => unsafe {
            let queue = libc::msgget(libc::IPC_PRIVATE, 0o600);
            after_the_end(move || _ = libc::msgctl(queue, libc::IPC_RMID, std::ptr::null_mut()));
            libc::msgrcv(queue, [0u8; 64].as_mut_ptr().cast(), 8, 0, 0);
        },
        // SAFETY: see above.
        "semop" => unsafe {
            let set = libc::semget(libc::IPC_PRIVATE, 1, 0o600);
            after_the_end(move || _ = libc::semctl(set, 0, libc::IPC_RMID));
            let mut take = libc::sembuf {
                sem_num: 0,
                sem_op: -1,
                sem_flg: 0,
            };
            libc::semop(set, &mut take, 1);
        },
        // SAFETY: see above.
        "mq_receive" => unsafe {
            let name = CString::new(format!("/wedjat-{}", std::process::id())).unwrap();
            let flags = libc::O_RDWR | libc::O_CREAT;
            let queue = libc::mq_open(name.as_ptr(), flags, 0o600, 0usize);
            assert!(queue >= 0, "{}", std::io::Error::last_os_error());
            libc::mq_unlink(name.as_ptr());
            libc::mq_receive(
                queue,
                [0u8; 1 << 16].as_mut_ptr().cast(),
                1 << 16,
                nothing.cast(),
            );
        },
        // SAFETY: see above.
        "sem_wait" => unsafe {
            let mut semaphore: libc::sem_t = std::mem::zeroed();
            libc::sem_init(&mut semaphore, 0, 0);
            libc::sem_wait(&mut semaphore);
        },
        // SAFETY: see above.
        "pthread_cond_wait" => unsafe {
            let mut mutex = libc::PTHREAD_MUTEX_INITIALIZER;
            let mut condition = libc::PTHREAD_COND_INITIALIZER;
            libc::pthread_mutex_lock(&mut mutex);
            libc::pthread_cond_wait(&mut condition, &mut mutex);
        },
        "waitpid" => {
            let mut child = std::process::Command::new("sleep")
                .arg("5")
                .spawn()
                .unwrap();
            child.wait().unwrap();
        }
        "vfork" => vfork(),
        "join" => std::thread::spawn(|| std::thread::sleep(3_600_000 * MS))
            .join()
            .unwrap(),
        "park" => std::thread::park(),
        "channel" => {
            let (_send, receive) = mpsc::channel::<()>();
            receive.recv().unwrap();
        }
        "condvar" => {
            let (mutex, condition) = (Mutex::new(()), Condvar::new());
            drop(condition.wait(mutex.lock().unwrap()));
        }
        "std_mutex" | "std_rwlock" => {
            static MUTEX: Mutex<()> = Mutex::new(());
            static LOCK: RwLock<()> = RwLock::new(());
            let (held, holds) = mpsc::channel();
            std::thread::spawn(move || {
                let _both = (MUTEX.lock(), LOCK.write());
                held.send(()).unwrap();
                std::thread::sleep(3_600_000 * MS);
            });
            holds.recv().unwrap();
            match kind {
                "std_mutex" => drop(MUTEX.lock()),
                _ => drop(LOCK.read()),
            }
        }
        "block_on_parked" => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap();
            runtime.block_on(std::future::pending::<()>());
        }
        "block_on_io" => {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().build().unwrap();
            runtime.block_on(async {
                let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
                loop {
                    let mut bytes = [0; 8];
                    let _ = tokio::time::timeout(100 * MS, socket.recv(&mut bytes)).await;
                }
            });
        }
        "readme_loop" => {
            // An event each 0.4 s; all that is done about it is a report.
            std::thread::sleep(400 * MS);
            monitor.record("support button").unwrap();
        }
        "run_loop_with_timers" => {
            // As an animation does, sixty times a second.
            // SAFETY: see above.
            unsafe { libc::poll(&mut one, 1, 12) };
            burn(2 * MS);
        }
        "run_loop_that_saves" => {
            // SAFETY: see above.
            unsafe { libc::poll(&mut one, 1, 50) };
            SAVING.store(monotonic(), Ordering::Relaxed);
            let file = std::fs::File::create(folder.join("saved")).unwrap();
            std::io::Write::write_all(&mut &file, &[7; 4096]).unwrap();
            file.sync_all().unwrap();
            SLOWEST.fetch_max(saving(), Ordering::Relaxed);
            SAVING.store(0, Ordering::Relaxed);
        }
        _ => unreachable!("{kind}"),
    }
    if one.fd >= 0 {
        // SAFETY: opened above, and its other end is left to the end of the process.
        unsafe { libc::close(one.fd) };
    }
}

/// What the System V objects outlive, a child of ours removes.
fn after_the_end(work: impl FnOnce()) {
    // SAFETY: the child calls plain system calls alone, and leaves by `_exit`.
    unsafe {
        if libc::fork() == 0 {
            libc::sleep(4);
            work();
            libc::_exit(0);
        }
    }
}

/// The parent of a child that has its memory waits for it uninterruptibly.
fn vfork() {
    extern "C" fn child(_: *mut libc::c_void) -> libc::c_int {
        // SAFETY: plain calls.
        unsafe {
            let long = libc::timespec {
                tv_sec: 3,
                tv_nsec: 0,
            };
            libc::nanosleep(&long, std::ptr::null_mut());
            libc::_exit(0);
        }
    }
    let mut stack = vec![0u64; 8 << 10];
    // SAFETY: a stack of the child's own, which this thread keeps until the child is gone.
    unsafe {
        let top = stack.as_mut_ptr().add(stack.len());
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        libc::clone(child, top.cast(), flags, std::ptr::null_mut());
    }
}
