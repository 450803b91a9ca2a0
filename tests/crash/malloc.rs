//! A crash calls `malloc` not once, libc's own calls among them.

use std::path::Path;

use crate::child::play;
use crate::{Tests, Way, install, outer, tests};

pub fn trials() -> Tests {
    tests(&[(
        "a_crash_with_malloc_in_use_allocates_nothing",
        malloc_in_use,
    )])
}

pub fn role(role: &str, folder: &Path) -> bool {
    match role {
        "malloc_in_use" => {
            let _monitor = install(folder);
            counting::begin(folder);
            outer(Way::Null);
        }
        _ => return false,
    }
    true
}

fn malloc_in_use() {
    let ended = play("malloc_in_use");
    assert_eq!(ended.signal(), Some(libc::SIGSEGV));
    assert_eq!(
        counting::end(&ended.folder.0),
        Some(0),
        "calls to malloc in the crash path"
    );
    ended.report();
}

/// An interposed `malloc` that counts: libc's own calls come here too.
pub mod counting {
    use std::path::Path;
    use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

    /// The count lies in a file, so that it outlives the process.
    static COUNT: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());
    static THREAD: AtomicI32 = AtomicI32::new(0);

    /// Calls that take a millisecond more each.
    static SLOW: AtomicU32 = AtomicU32::new(0);

    /// Makes the next calls of this thread take a millisecond more each.
    pub fn slow_down(calls: u32) {
        // SAFETY: takes no arguments.
        THREAD.store(unsafe { libc::gettid() }, Ordering::Relaxed);
        SLOW.store(calls, Ordering::SeqCst);
    }

    pub fn begin(folder: &Path) {
        use std::os::fd::AsRawFd;
        let path = folder.join("count");
        let file = std::fs::File::options()
            .create_new(true)
            .read(true)
            .write(true)
            .open(path)
            .unwrap();
        file.set_len(8).unwrap();
        // SAFETY: a shared mapping of the file's eight bytes, never unmapped; page-aligned.
        unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let map = libc::mmap(
                std::ptr::null_mut(),
                8,
                protection,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            );
            assert_ne!(map, libc::MAP_FAILED);
            THREAD.store(libc::gettid(), Ordering::Relaxed);
            // From here on every call counts; one now, so that a broken counter shows.
            COUNT.store(map.cast(), Ordering::SeqCst);
        }
        drop(std::hint::black_box(Box::new(1)));
        let count = COUNT.load(Ordering::SeqCst);
        // SAFETY: as above.
        let seen = unsafe { (*count).swap(0, Ordering::SeqCst) };
        assert!(
            seen >= 1,
            "the interposed malloc is not the one that is called"
        );
    }

    pub fn end(folder: &Path) -> Option<u64> {
        let bytes = std::fs::read(folder.join("count")).ok()?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    }

    fn count() {
        slow();
        let count = COUNT.load(Ordering::Relaxed);
        // SAFETY: null, or the mapping of `begin`; gettid takes no arguments.
        unsafe {
            if !count.is_null() && libc::gettid() == THREAD.load(Ordering::Relaxed) {
                (*count).fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn slow() {
        let left = SLOW.load(Ordering::Relaxed);
        // SAFETY: takes no arguments.
        if left > 0 && unsafe { libc::gettid() } == THREAD.load(Ordering::Relaxed) {
            SLOW.store(left - 1, Ordering::Relaxed);
            let begin = std::time::Instant::now();
            while begin.elapsed().as_millis() < 1 {}
        }
    }

    unsafe extern "C" {
        fn __libc_malloc(size: usize) -> *mut libc::c_void;
        fn __libc_calloc(count: usize, size: usize) -> *mut libc::c_void;
        fn __libc_realloc(old: *mut libc::c_void, size: usize) -> *mut libc::c_void;
        fn __libc_free(old: *mut libc::c_void);
        fn __libc_memalign(alignment: usize, size: usize) -> *mut libc::c_void;
    }

    // SAFETY (of all these): each passes on to glibc's own of the same contract; the names are
    // glibc's documented way of replacing malloc ("Replacing malloc" in its manual).
    #[unsafe(no_mangle)]
    unsafe extern "C" fn malloc(size: usize) -> *mut libc::c_void {
        count();
        // SAFETY: as above.
        unsafe { __libc_malloc(size) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn calloc(number: usize, size: usize) -> *mut libc::c_void {
        count();
        // SAFETY: as above.
        unsafe { __libc_calloc(number, size) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn realloc(old: *mut libc::c_void, size: usize) -> *mut libc::c_void {
        count();
        // SAFETY: as above.
        unsafe { __libc_realloc(old, size) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn free(old: *mut libc::c_void) {
        count();
        // SAFETY: as above.
        unsafe { __libc_free(old) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memalign(alignment: usize, size: usize) -> *mut libc::c_void {
        count();
        // SAFETY: as above.
        unsafe { __libc_memalign(alignment, size) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut libc::c_void {
        count();
        // SAFETY: as above.
        unsafe { __libc_memalign(alignment, size) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn posix_memalign(
        into: *mut *mut libc::c_void,
        alignment: usize,
        size: usize,
    ) -> i32 {
        count();
        // SAFETY: as above; `into` is the caller's.
        unsafe {
            *into = __libc_memalign(alignment, size);
            if (*into).is_null() { libc::ENOMEM } else { 0 }
        }
    }
}
