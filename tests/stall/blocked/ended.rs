//! The rest of signal(7)'s calls: those that take no time-out, which a timer of the test's own ends, and the
//! other forms of those that do.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{or_time_out, play_test, timespec, wait};

static OVER: AtomicBool = AtomicBool::new(false);

extern "C" fn over(_: libc::c_int) {
    OVER.store(true, Ordering::Relaxed);
}

/// Waits in one call until a second is over, and counts interruptions but that by the timer which says
/// so.
fn until_over(call: impl Fn() -> i64) -> u64 {
    let until = Instant::now() + Duration::from_secs(1);
    // SAFETY: structures that are filled in before they are read and outlive the calls; the handler touches
    // an atomic alone.
    let timer = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = over as *const () as usize;
        libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut());
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGALRM;
        event.sigev_notify_thread_id = libc::gettid();
        let mut timer: libc::timer_t = std::mem::zeroed();
        assert_eq!(
            libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer),
            0
        );
        timer
    };
    // Again and again once it is over: it may come just before the call.
    let soon = libc::itimerspec {
        it_interval: timespec(Duration::from_millis(20)),
        it_value: timespec(until - Instant::now()),
    };
    // SAFETY: the timer made above.
    unsafe {
        assert_eq!(
            libc::timer_settime(timer, 0, &soon, std::ptr::null_mut()),
            0
        )
    };
    let mut interrupted = 0;
    loop {
        let result = call();
        let errno = std::io::Error::last_os_error();
        if OVER.load(Ordering::Relaxed) {
            break;
        }
        assert_eq!(
            (result, errno.raw_os_error()),
            (-1, Some(libc::EINTR)),
            "{errno}"
        );
        interrupted += 1;
    }
    // SAFETY: as above.
    unsafe { libc::timer_delete(timer) };
    interrupted
}

/// The test of this function's name, in this module.
macro_rules! ends {
    ($test:ident, $name:literal, $call:expr) => {
        play_test(concat!("ended::", stringify!($test)), $name, || {
            until_over($call)
        })
    };
}
macro_rules! times_out {
    ($test:ident, $name:literal, $call:expr) => {
        play_test(concat!("ended::", stringify!($test)), $name, || wait($call))
    };
}

fn owned(fd: i64) -> OwnedFd {
    assert!(fd >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: a descriptor that a call has just given, with no other owner.
    unsafe { OwnedFd::from_raw_fd(fd as i32) }
}

fn read_one(fd: i32) -> i64 {
    let mut bytes = [0u8; 256];
    // SAFETY: room for so many bytes.
    unsafe { libc::read(fd, bytes.as_mut_ptr().cast(), bytes.len()) as i64 }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn pause() {
    // SAFETY: no arguments.
    ends!(pause, "pause", || unsafe { libc::pause().into() });
}

#[test]
fn sigsuspend() {
    ends!(sigsuspend, "rt_sigsuspend", || {
        let mut mask = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the set is initialised before it is used.
        unsafe {
            libc::sigemptyset(mask.as_mut_ptr());
            libc::sigsuspend(mask.as_ptr()).into()
        }
    });
}

#[test]
fn sigwaitinfo() {
    ends!(sigwaitinfo, "rt_sigtimedwait", || {
        let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the set is initialised before it is used; a signal that nothing sends.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), libc::SIGWINCH);
            libc::sigwaitinfo(set.as_ptr(), std::ptr::null_mut()).into()
        }
    });
}

/// A queue of messages that is gone when the value is.
struct Queue(i32);

impl Queue {
    fn new() -> Queue {
        // SAFETY: no memory is involved.
        let queue = unsafe { libc::msgget(libc::IPC_PRIVATE, 0o600) };
        assert!(queue >= 0, "{}", std::io::Error::last_os_error());
        Queue(queue)
    }

    fn send(&self, flags: i32) -> i64 {
        let message = [1u64; 128];
        // SAFETY: a message whose type comes first, and so many bytes behind it.
        unsafe { libc::msgsnd(self.0, message.as_ptr().cast(), 1016, flags).into() }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: no memory is involved.
        unsafe { libc::msgctl(self.0, libc::IPC_RMID, std::ptr::null_mut()) };
    }
}

#[test]
fn msgrcv() {
    let queue = Queue::new();
    ends!(msgrcv, "msgrcv", || {
        let mut message = [0u64; 16];
        // SAFETY: room for a type and so many bytes behind it.
        unsafe { libc::msgrcv(queue.0, message.as_mut_ptr().cast(), 120, 0, 0) as i64 }
    });
}

#[test]
fn msgsnd() {
    let queue = Queue::new();
    while queue.send(libc::IPC_NOWAIT) == 0 {}
    ends!(msgsnd, "msgsnd", || queue.send(0));
}

#[test]
fn semop() {
    // SAFETY: no memory is involved.
    let set = unsafe { libc::semget(libc::IPC_PRIVATE, 1, 0o600) };
    // glibc makes semop(2) of semtimedop(2) where there is no such call.
    ends!(semop, "sem", || {
        let mut wait = libc::sembuf {
            sem_num: 0,
            sem_op: -1,
            sem_flg: 0,
        };
        // SAFETY: one operation.
        unsafe { libc::semop(set, &mut wait, 1).into() }
    });
    // SAFETY: no memory is involved.
    unsafe { libc::semctl(set, 0, libc::IPC_RMID) };
}

#[test]
fn ppoll() {
    times_out!(ppoll, "ppoll", |left| {
        let time = timespec(left);
        let none = std::ptr::null_mut();
        // SAFETY: no descriptors, and a valid timespec.
        unsafe { libc::ppoll(none, 0, &time, std::ptr::null()).into() }
    });
}

#[test]
fn pselect() {
    times_out!(pselect, "pselect6", |left| {
        let time = timespec(left);
        let none = std::ptr::null_mut();
        // SAFETY: no sets, and a valid timespec.
        unsafe { libc::pselect(0, none, none, none, &time, std::ptr::null()).into() }
    });
}

#[test]
fn epoll_pwait() {
    // SAFETY: no memory is involved.
    let epoll = owned(unsafe { libc::epoll_create1(0).into() });
    times_out!(epoll_pwait, "epoll_pwait", |left| {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        let (fd, time) = (epoll.as_raw_fd(), left.as_millis() as i32 + 1);
        // SAFETY: room for one event, and a mask that is empty.
        unsafe {
            let mut mask = std::mem::zeroed();
            libc::sigemptyset(&mut mask);
            libc::epoll_pwait(fd, &mut event, 1, time, &mask).into()
        }
    });
}

#[test]
fn usleep() {
    times_out!(usleep, "nanosleep", |left| {
        // SAFETY: no memory is involved.
        unsafe { libc::usleep(left.as_micros() as u32 + 1).into() }
    });
}

#[test]
fn clock_nanosleep() {
    times_out!(clock_nanosleep, "clock_nanosleep", |left| {
        let time = timespec(left);
        let none = std::ptr::null_mut();
        // SAFETY: a valid timespec.
        let error = unsafe { libc::clock_nanosleep(libc::CLOCK_BOOTTIME, 0, &time, none) };
        // It gives the error itself.
        // SAFETY: the calling thread's own.
        unsafe { *libc::__errno_location() = error };
        if error == 0 { 0 } else { -1 }
    });
}

#[test]
fn io_getevents() {
    let mut context = 0u64;
    // SAFETY: a context that is filled in.
    let made = unsafe { libc::syscall(libc::SYS_io_setup, 1, &raw mut context) };
    assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
    times_out!(io_getevents, "io_getevents", |left| {
        let time = timespec(left);
        let mut event = [0u64; 4];
        let event = event.as_mut_ptr();
        // SAFETY: room for one event, and a valid timespec.
        unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                context,
                1,
                1,
                event,
                &raw const time,
            )
        }
    });
}

#[test]
fn mq_timedreceive() {
    let name = std::ffi::CString::new(format!("/wedjat-{}", std::process::id())).unwrap();
    // SAFETY: a C string; the attributes are those of the system.
    let queue = owned(unsafe {
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
        let none = std::ptr::null_mut::<libc::mq_attr>();
        let queue = libc::mq_open(name.as_ptr(), flags, 0o600, none);
        libc::mq_unlink(name.as_ptr());
        queue.into()
    });
    ends!(mq_timedreceive, "mq_timedreceive", || {
        let mut message = vec![0u8; 64 << 10];
        let into = message.as_mut_ptr().cast();
        let none = std::ptr::null_mut();
        // SAFETY: room for so many bytes.
        unsafe { libc::mq_receive(queue.as_raw_fd(), into, message.len(), none) as i64 }
    });
}

fn timed(socket: i32, option: i32, left: Duration) {
    let time = libc::timeval {
        tv_sec: left.as_secs() as libc::time_t,
        tv_usec: (left.subsec_micros() as libc::suseconds_t + 1).min(999_999),
    };
    let size = size_of_val(&time) as u32;
    let time = (&raw const time).cast();
    // SAFETY: a valid timeval of that size.
    let done = unsafe { libc::setsockopt(socket, libc::SOL_SOCKET, option, time, size) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn send() {
    let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    let socket = socket.as_raw_fd();
    let send = move |flags| {
        let bytes = [0u8; 4096];
        // SAFETY: so many bytes.
        unsafe { libc::send(socket, bytes.as_ptr().cast(), bytes.len(), flags) as i64 }
    };
    while send(libc::MSG_DONTWAIT) > 0 {}
    times_out!(send, "sendto", |left| {
        timed(socket, libc::SO_SNDTIMEO, left);
        or_time_out(send(0))
    });
}

#[test]
fn recvmsg() {
    let (socket, _other) = std::os::unix::net::UnixDatagram::pair().unwrap();
    times_out!(recvmsg, "recvmsg", |left| {
        timed(socket.as_raw_fd(), libc::SO_RCVTIMEO, left);
        // SAFETY: a header without buffers, all zero.
        unsafe {
            let mut header: libc::msghdr = std::mem::zeroed();
            or_time_out(libc::recvmsg(socket.as_raw_fd(), &mut header, 0) as i64)
        }
    });
}

#[test]
fn connect() {
    let path = std::env::temp_dir().join(format!("wedjat-full-{}", std::process::id()));
    // A listener without an accept, and whose queue is full.
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    // SAFETY: an open socket.
    unsafe { libc::listen(listener.as_raw_fd(), 0) };
    let mut address: libc::sockaddr_un = unsafe_zeroed();
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in address
        .sun_path
        .iter_mut()
        .zip(path.to_str().unwrap().bytes())
    {
        *to = from as libc::c_char;
    }
    let connect = |socket: i32| {
        let size = size_of_val(&address) as u32;
        // SAFETY: an address of that size.
        unsafe { libc::connect(socket, (&raw const address).cast(), size).into() }
    };
    // SAFETY: no memory is involved.
    let socket =
        |flags| owned(unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | flags, 0).into() });
    let mut waiting = Vec::new();
    loop {
        let one = socket(libc::SOCK_NONBLOCK);
        if connect(one.as_raw_fd()) != 0 {
            break;
        }
        waiting.push(one);
    }
    let one = socket(0);
    times_out!(connect, "connect", |left| {
        timed(one.as_raw_fd(), libc::SO_SNDTIMEO, left);
        or_time_out(connect(one.as_raw_fd()))
    });
    std::fs::remove_file(path).unwrap();
}

fn unsafe_zeroed() -> libc::sockaddr_un {
    // SAFETY: plain data, of which zero is a valid value.
    unsafe { std::mem::zeroed() }
}

#[test]
fn read_of_a_pipe() {
    let (end, _other) = std::io::pipe().unwrap();
    ends!(read_of_a_pipe, "read", || read_one(end.as_raw_fd()));
}

#[test]
fn write_to_a_pipe() {
    let (_other, end) = std::io::pipe().unwrap();
    let end = end.as_raw_fd();
    let write = |bytes: usize| {
        let zeros = [0u8; 4096];
        // SAFETY: so many bytes.
        unsafe { libc::write(end, zeros.as_ptr().cast(), bytes) as i64 }
    };
    // SAFETY: an open descriptor.
    unsafe {
        libc::fcntl(end, libc::F_SETFL, libc::O_NONBLOCK);
        while write(4096) > 0 {}
        libc::fcntl(end, libc::F_SETFL, 0);
    }
    ends!(write_to_a_pipe, "write", || write(4096));
}

#[test]
fn read_of_an_eventfd() {
    // SAFETY: no memory is involved.
    let event = owned(unsafe { libc::eventfd(0, 0).into() });
    ends!(read_of_an_eventfd, "read", || read_one(event.as_raw_fd()));
}

#[test]
fn read_of_inotify() {
    // SAFETY: no memory is involved.
    let watch = owned(unsafe { libc::inotify_init1(0).into() });
    ends!(read_of_inotify, "read", || read_one(watch.as_raw_fd()));
}

#[test]
fn read_of_a_terminal() {
    // SAFETY: no memory is involved.
    let terminal = owned(unsafe { libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY).into() });
    // SAFETY: an open descriptor; the name is copied at once.
    let other = unsafe {
        assert_eq!(libc::unlockpt(terminal.as_raw_fd()), 0);
        let name = libc::ptsname(terminal.as_raw_fd());
        owned(libc::open(name, libc::O_RDWR | libc::O_NOCTTY).into())
    };
    ends!(read_of_a_terminal, "read", || read_one(other.as_raw_fd()));
}

#[test]
fn flock() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let again = file.reopen().unwrap();
    // SAFETY: open descriptors.
    unsafe { assert_eq!(libc::flock(again.as_raw_fd(), libc::LOCK_EX), 0) };
    ends!(flock, "flock", || unsafe {
        // SAFETY: as above.
        libc::flock(file.as_raw_fd(), libc::LOCK_EX).into()
    });
}

#[test]
fn lock_by_fcntl() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let again = file.reopen().unwrap();
    let lock = |fd: i32| {
        // SAFETY: plain data, of which zero is a valid value: the whole file.
        let mut whole: libc::flock = unsafe { std::mem::zeroed() };
        whole.l_type = libc::F_WRLCK as libc::c_short;
        // SAFETY: an open descriptor, and a structure that outlives the call.
        unsafe { libc::fcntl(fd, libc::F_OFD_SETLKW, &whole).into() }
    };
    assert_eq!(lock(again.as_raw_fd()), 0);
    ends!(lock_by_fcntl, "fcntl", || lock(file.as_raw_fd()));
}

#[test]
fn wait4() {
    let mut child = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .unwrap();
    ends!(wait4, "wait4", || {
        // SAFETY: nothing waits for the status.
        unsafe { libc::waitpid(child.id() as i32, std::ptr::null_mut(), 0).into() }
    });
    child.kill().unwrap();
    child.wait().unwrap();
}
