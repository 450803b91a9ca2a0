//! Work in a process of its own: what ends the emulated CPU's, or takes it too long, is left out.

use std::collections::HashSet;
use std::io::Write;

/// Seconds for one piece of work.
const EACH: u32 = 20;

/// Which piece of work a process is at.
pub struct At(*mut u64);

impl At {
    /// A piece of work begins.
    pub fn begin(&self, piece: u64) {
        // SAFETY: the page was mapped for both processes and is never unmapped; one of them writes at a time.
        unsafe { self.0.write_volatile(piece) };
        // SAFETY: alarm has no requirements.
        unsafe { libc::alarm(EACH) };
    }
}

/// Has `work` done in a process of its own, which exits with 0; again without the piece that it was at
/// each time it ends in another way. Returns the pieces that were left out.
pub fn apart(work: impl Fn(&At, &HashSet<u64>)) -> Result<HashSet<u64>, String> {
    const MOST: usize = 20;
    let (rights, kind) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_SHARED | libc::MAP_ANON,
    );
    // SAFETY: a mapping of its own, anywhere.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), 4096, rights, kind, -1, 0) };
    if page == libc::MAP_FAILED {
        return Err("no memory".into());
    }
    let at = At(page.cast());
    let mut left_out = HashSet::new();
    while left_out.len() < MOST {
        at.begin(0);
        // SAFETY: this process has one thread.
        let child = unsafe { libc::fork() };
        if child == 0 {
            work(&at, &left_out);
            let _ = std::io::stdout().flush();
            std::process::exit(0);
        }
        // SAFETY: alarm has no requirements; the child has its own.
        unsafe { libc::alarm(0) };
        let mut status = 0;
        // SAFETY: `child` is a process of ours, `status` lives.
        if child < 0 || unsafe { libc::waitpid(child, &mut status, 0) } != child {
            return Err("no process".into());
        }
        if status == 0 {
            return Ok(left_out);
        }
        // SAFETY: as in `begin`; the child is over.
        let piece = unsafe { at.0.read_volatile() };
        if !left_out.insert(piece) {
            return Err(format!("ends with status {status:#x}"));
        }
    }
    Err("too many functions cannot be emulated".into())
}
