//! A file system whose files take their time: a server of FUSE in one thread.
//!
//! Source: include/uapi/linux/fuse.h, version 7.31.

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

/// The two files of it: one is read past the page cache, and its reader sleeps interruptibly.
pub const CACHED: &str = "cached";
pub const DIRECT: &str = "direct";

const SIZE: u64 = 4096;
const ROOT: u64 = 1;

/// A mounted file system whose reads take `delay`; it is gone with the process.
pub fn mount(at: &Path, delay: Duration) {
    let device = File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse")
        .unwrap();
    let data = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0",
        device.as_raw_fd()
    );
    let text = |text: &str| CString::new(text).unwrap();
    let (source, kind, data) = (text("wedjat-slow"), text("fuse"), text(&data));
    let at = text(at.to_str().unwrap());
    // SAFETY: C strings that live across the call.
    let mounted = unsafe {
        libc::mount(
            source.as_ptr(),
            at.as_ptr(),
            kind.as_ptr(),
            libc::MS_NOSUID | libc::MS_NODEV,
            data.as_ptr().cast(),
        )
    };
    assert_eq!(mounted, 0, "{}", std::io::Error::last_os_error());
    std::thread::spawn(move || serve(device, delay));
}

pub fn unmount(at: &Path) {
    let at = CString::new(at.to_str().unwrap()).unwrap();
    // SAFETY: a C string.
    unsafe { libc::umount2(at.as_ptr(), libc::MNT_DETACH) };
}

fn serve(mut device: File, delay: Duration) {
    let mut request = vec![0u8; 1 << 17];
    while let Ok(length) = device.read(&mut request) {
        let word = |at: usize| u32::from_le_bytes(request[at..at + 4].try_into().unwrap());
        let long = |at: usize| u64::from_le_bytes(request[at..at + 8].try_into().unwrap());
        // struct fuse_in_header: len, opcode, unique, nodeid, uid, gid, pid, padding.
        let (call, unique, node) = (word(4), long(8), long(16));
        let body = &request[40..length];
        let answer = match call {
            // LOOKUP: of a name that ends in zero.
            1 => match body.strip_suffix(b"\0") {
                Some(name) if name == CACHED.as_bytes() => Ok(entry(2)),
                Some(name) if name == DIRECT.as_bytes() => Ok(entry(3)),
                _ => Err(libc::ENOENT),
            },
            // FORGET and BATCH_FORGET want no answer.
            2 | 42 => continue,
            // GETATTR
            3 => Ok([words(&[3600, 0]), attributes(node)].concat()),
            // OPEN and OPENDIR: a handle, and FOPEN_DIRECT_IO.
            14 | 27 => Ok(words(&[0, u64::from(node == 3)])),
            // READ: the size stands behind handle and offset.
            15 => {
                std::thread::sleep(delay);
                let (offset, size) = (long(48), u64::from(word(56)));
                Ok(vec![7; size.min(SIZE.saturating_sub(offset)) as usize])
            }
            // RELEASE, FLUSH, RELEASEDIR
            18 | 25 | 29 => Ok(Vec::new()),
            // INIT: 7.31, no flags, and a writer's most.
            26 => {
                let mut init = vec![0u8; 64];
                init[..4].copy_from_slice(&7u32.to_le_bytes());
                init[4..8].copy_from_slice(&31u32.to_le_bytes());
                init[20..24].copy_from_slice(&4096u32.to_le_bytes());
                Ok(init)
            }
            _ => Err(libc::ENOSYS),
        };
        let (error, answer) = match answer {
            Ok(answer) => (0, answer),
            Err(error) => (-error, Vec::new()),
        };
        let length = 16 + answer.len() as u32;
        let mut all = Vec::from(length.to_le_bytes());
        all.extend(error.to_le_bytes());
        all.extend(unique.to_le_bytes());
        all.extend(answer);
        // A request that was given up meanwhile has no one to answer.
        let _ = device.write(&all);
    }
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// struct fuse_entry_out: node, generation, two times to live, and the attributes.
fn entry(node: u64) -> Vec<u8> {
    [words(&[node, 0, 3600, 3600, 0]), attributes(node)].concat()
}

/// struct fuse_attr.
fn attributes(node: u64) -> Vec<u8> {
    let mode = match node {
        ROOT => libc::S_IFDIR | 0o755,
        _ => libc::S_IFREG | 0o644,
    };
    let mut all = words(&[node, SIZE, 8, 0, 0, 0]);
    for half in [0, 0, 0, mode, 1, 0, 0, 0, 4096, 0] {
        all.extend(half.to_le_bytes());
    }
    all
}
