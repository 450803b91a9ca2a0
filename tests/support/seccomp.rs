//! Filters of seccomp(2): which system calls the kernel lets a thread or a process make.
#![allow(dead_code, reason = "each test program uses some of it")]

/// The filter concerns all threads of the process, else the calling one alone.
pub const ALL_THREADS: u64 = libc::SECCOMP_FILTER_FLAG_TSYNC;

/// From now on the process is killed at any system call but these.
pub fn allow(calls: &[i64], flags: u64) {
    install(
        calls,
        libc::SECCOMP_RET_ALLOW,
        libc::SECCOMP_RET_KILL_PROCESS,
        flags,
    );
}

/// From now on these calls give EPERM, as the profiles of containers have it.
pub fn deny(calls: &[i64], flags: u64) {
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    install(calls, refused, libc::SECCOMP_RET_ALLOW, flags);
}

/// From now on this call gives EPERM to the calling thread where its first argument, a number of 32 bits, is this one.
pub fn deny_where_first_is(call: i64, argument: i32) {
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    // The arguments come after the call's number, the architecture and the instruction's address.
    let first = if cfg!(target_endian = "little") {
        16
    } else {
        20
    };
    load(
        vec![
            step(LOAD, 0, 0, 0),
            step(EQUAL, 0, 3, call as u32),
            step(LOAD, 0, 0, first),
            step(EQUAL, 0, 1, argument as u32),
            step(RETURN, 0, 0, refused),
            step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        ],
        0,
    );
}

/// From now on the process is killed where the calling thread makes this call with a second argument other than null.
pub fn kill_where_second_is_given(call: i64) {
    load(
        vec![
            step(LOAD, 0, 0, 0),
            step(EQUAL, 0, 4, call as u32),
            step(LOAD, 0, 0, 24),
            step(EQUAL, 0, 3, 0),
            step(LOAD, 0, 0, 28),
            step(EQUAL, 0, 1, 0),
            step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
            step(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        ],
        0,
    );
}

/// From now on these calls of the calling thread raise SIGSYS.
pub fn trap(calls: &[i64]) {
    install(calls, libc::SECCOMP_RET_TRAP, libc::SECCOMP_RET_ALLOW, 0);
}

/// What the kernel does at the calls, and at all others.
fn install(calls: &[i64], listed: u32, others: u32, flags: u64) {
    // The call's number is the first word of what a filter sees.
    let mut program = vec![step(LOAD, 0, 0, 0)];
    for (index, &call) in calls.iter().enumerate() {
        let to_listed = (calls.len() - index) as u8;
        program.push(step(EQUAL, to_listed, 0, call as u32));
    }
    program.push(step(RETURN, 0, 0, others));
    program.push(step(RETURN, 0, 0, listed));
    load(program, flags);
}

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const fn step(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

fn load(program: Vec<libc::sock_filter>, flags: u64) {
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.leak().as_mut_ptr(),
    };
    // SAFETY: a program that is never freed.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_SET_MODE_FILTER;
        let done = libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program);
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }
}
