//! Files (`fcntl.h`, `unistd.h`, `sys/stat.h`, `sys/file.h`, `dirent.h`): the host's, with Darwin's
//! numbers for flags and errors and Darwin's layouts.

use std::ffi::CString;

use super::error;
use crate::machine::{Machine, Outcome};

/// Darwin's number for the host's last error.
fn failed(m: &mut Machine) -> Outcome {
    let number = std::io::Error::last_os_error().raw_os_error().unwrap_or(5);
    let darwin = match number {
        libc::EAGAIN => 35,
        libc::ENAMETOOLONG => 63,
        libc::ENOTEMPTY => 66,
        libc::ELOOP => 62,
        libc::EOVERFLOW => 84,
        libc::ENOSYS => 78,
        n => n as u32,
    };
    error(m, darwin)
}

fn path(m: &Machine, at: u64) -> CString {
    CString::new(m.read_text(at)).unwrap_or_default()
}

fn folder(fd: u64) -> i32 {
    // Darwin's AT_FDCWD is -2.
    if fd as i32 == -2 {
        libc::AT_FDCWD
    } else {
        fd as i32
    }
}

fn flags(darwin: u64) -> i32 {
    let mut flags = darwin as i32 & 3;
    let pairs = [
        (0x4, libc::O_NONBLOCK),
        (0x8, libc::O_APPEND),
        (0x100, libc::O_NOFOLLOW),
        (0x2_0000, libc::O_NOCTTY),
        (0x200, libc::O_CREAT),
        (0x400, libc::O_TRUNC),
        (0x800, libc::O_EXCL),
        (0x10_0000, libc::O_DIRECTORY),
        (0x100_0000, libc::O_CLOEXEC),
    ];
    for (bit, host) in pairs {
        if darwin & bit != 0 {
            flags |= host;
        }
    }
    flags
}

/// The mode of `open` and `openat` is variadic: on arm64 it lies on the stack.
fn mode(m: &Machine, a: &[u64; 8], index: usize) -> u64 {
    if m.arm {
        m.read_u64(m.registers().sp).unwrap_or(0)
    } else {
        a[index]
    }
}

/// Plays its functions.
pub fn call(m: &mut Machine, name: &str, a: &[u64; 8]) -> Option<Outcome> {
    let fd = a[0] as i32;
    // SAFETY: each call takes numbers, and pointers to strings or buffers of our own that live
    // through it.
    let result: i64 = unsafe {
        match name {
            "open" => libc::open(
                path(m, a[0]).as_ptr(),
                flags(a[1]),
                mode(m, a, 2) as libc::c_uint,
            )
            .into(),
            "openat" => libc::openat(
                folder(a[0]),
                path(m, a[1]).as_ptr(),
                flags(a[2]),
                mode(m, a, 3) as libc::c_uint,
            )
            .into(),
            "close" if fd <= 2 => 0,
            "close" => libc::close(fd).into(),
            "dup2" => libc::dup2(fd, a[1] as i32).into(),
            "dup" => libc::dup(fd).into(),
            "read" => {
                let mut bytes = vec![0; a[2] as usize];
                let read = libc::read(fd, bytes.as_mut_ptr().cast(), bytes.len());
                if read > 0 {
                    m.write(a[1], &bytes[..read as usize]);
                }
                read as i64
            }
            "write" | "pwrite" => {
                let Some(bytes) = m.read(a[1], a[2]) else {
                    return Some(error(m, 14));
                };
                let bytes = (bytes.as_ptr().cast(), bytes.len());
                match name {
                    "write" => libc::write(fd, bytes.0, bytes.1) as i64,
                    _ => libc::pwrite(fd, bytes.0, bytes.1, a[3] as i64) as i64,
                }
            }
            "writev" => {
                let mut bytes = vec![];
                for k in 0..a[2] {
                    let (at, size) = (m.read_u64(a[1] + 16 * k)?, m.read_u64(a[1] + 16 * k + 8)?);
                    bytes.extend(m.read(at, size)?);
                }
                libc::write(fd, bytes.as_ptr().cast(), bytes.len()) as i64
            }
            "lseek" => libc::lseek(fd, a[1] as i64, a[2] as i32),
            "ftruncate" => libc::ftruncate(fd, a[1] as i64).into(),
            "fsync" | "fdatasync" => libc::fsync(fd).into(),
            "flock" => libc::flock(fd, a[1] as i32).into(),
            "unlink" => libc::unlink(path(m, a[0]).as_ptr()).into(),
            "unlinkat" => libc::unlinkat(folder(a[0]), path(m, a[1]).as_ptr(), 0).into(),
            "rename" => libc::rename(path(m, a[0]).as_ptr(), path(m, a[1]).as_ptr()).into(),
            "renameat" => libc::renameat(
                folder(a[0]),
                path(m, a[1]).as_ptr(),
                folder(a[2]),
                path(m, a[3]).as_ptr(),
            )
            .into(),
            "mkdir" => libc::mkdir(path(m, a[0]).as_ptr(), a[1] as u32).into(),
            "mkfifo" => libc::mkfifo(path(m, a[0]).as_ptr(), a[1] as u32).into(),
            "symlink" => libc::symlink(path(m, a[0]).as_ptr(), path(m, a[1]).as_ptr()).into(),
            "rmdir" => libc::rmdir(path(m, a[0]).as_ptr()).into(),
            "fchmod" => libc::fchmod(fd, a[1] as u32).into(),
            // F_DUPFD 0, F_GETFD 1, F_SETFD 2, F_GETFL 3, F_SETFL 4, F_FULLFSYNC 51, F_DUPFD_CLOEXEC 67
            "fcntl" => match a[1] {
                67 => libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3).into(),
                0 => libc::fcntl(fd, libc::F_DUPFD, 3).into(),
                51 => libc::fsync(fd).into(),
                1 | 3 => libc::fcntl(fd, libc::F_GETFD).into(),
                _ => 0,
            },
            "isatty" => 0,
            "fstat" | "stat" | "lstat" => {
                let mut host = std::mem::zeroed::<libc::stat>();
                let done = match name {
                    "fstat" => libc::fstat(fd, &mut host),
                    "stat" => libc::stat(path(m, a[0]).as_ptr(), &mut host),
                    _ => libc::lstat(path(m, a[0]).as_ptr(), &mut host),
                };
                if done == 0 {
                    m.write(a[1], &darwin_stat(&host));
                }
                done.into()
            }
            "fstatat" => {
                let mut host = std::mem::zeroed::<libc::stat>();
                // Darwin's AT_SYMLINK_NOFOLLOW.
                let how = if a[3] & 0x20 != 0 {
                    libc::AT_SYMLINK_NOFOLLOW
                } else {
                    0
                };
                let done = libc::fstatat(folder(a[0]), path(m, a[1]).as_ptr(), &mut host, how);
                if done == 0 {
                    m.write(a[2], &darwin_stat(&host));
                }
                done.into()
            }
            "getcwd" => {
                let folder = std::env::current_dir().unwrap_or_default();
                let text = [folder.to_string_lossy().as_bytes(), &[0]].concat();
                m.write(a[0], &text);
                a[0] as i64
            }
            // (descriptor, index, struct dirent *): 1 as long as there is one
            "__emulator_entry" => entry(m, fd, a[1] as usize, a[2]).into(),
            "poll" => 0,
            _ => return None,
        }
    };
    // A stat's symbol has a suffix on x86_64; the stubs leave it away.
    Some(if result < 0 {
        failed(m)
    } else {
        Outcome::Return(result as u64)
    })
}

/// `struct stat` with 64-bit inodes.
fn darwin_stat(host: &libc::stat) -> Vec<u8> {
    let mut out = vec![0; 144];
    let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &(host.st_dev as u32).to_le_bytes());
    put(4, &(host.st_mode as u16).to_le_bytes());
    put(6, &(host.st_nlink as u16).to_le_bytes());
    put(8, &host.st_ino.to_le_bytes());
    // Who runs the machine is the guest's user, see `geteuid`.
    // SAFETY: no arguments, always succeeds.
    let own = host.st_uid == unsafe { libc::geteuid() };
    put(16, &if own { 501 } else { host.st_uid }.to_le_bytes());
    put(20, &host.st_gid.to_le_bytes());
    for (at, seconds) in [
        (32, host.st_atime),
        (48, host.st_mtime),
        (64, host.st_ctime),
        (80, host.st_ctime),
    ] {
        put(at, &seconds.to_le_bytes());
    }
    put(96, &host.st_size.to_le_bytes());
    put(104, &host.st_blocks.to_le_bytes());
    put(112, &(host.st_blksize as u32).to_le_bytes());
    out
}

/// `struct dirent`: d_ino, d_seekoff, d_reclen, d_namlen, d_type, d_name.
fn entry(m: &mut Machine, fd: i32, index: usize, at: u64) -> i32 {
    let Ok(folder) = std::fs::read_dir(format!("/proc/self/fd/{fd}")) else {
        return 0;
    };
    let mut names: Vec<String> = folder
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let Some(name) = names.get(index) else {
        return 0;
    };
    let mut out = vec![];
    out.extend((index as u64 + 100).to_le_bytes());
    out.extend(0u64.to_le_bytes());
    out.extend(1048u16.to_le_bytes());
    out.extend((name.len() as u16).to_le_bytes());
    out.push(0); // DT_UNKNOWN
    out.extend(name.as_bytes());
    out.push(0);
    m.write(at, &out);
    1
}
