//! The main run loop's turns, reported by observers (CoreFoundation/CFRunLoop.h).
//!
//! CoreFoundation is looked up at run time: every app has it, a command-line tool need not, and
//! apps need not link it.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::symbol;

/// Moments of a run loop (`CFRunLoopActivity`).
const ENTRY: usize = 1;
const BEFORE_WAITING: usize = 1 << 5;
const AFTER_WAITING: usize = 1 << 6;
const EXIT: usize = 1 << 7;

type Callback = extern "C" fn(observer: *mut c_void, activity: usize, info: *mut c_void);
type CreateObserver = unsafe extern "C" fn(
    allocator: *const c_void,
    activities: usize,
    repeats: u8,
    order: isize,
    callback: Callback,
    context: *mut c_void,
) -> *mut c_void;
type GetMain = unsafe extern "C" fn() -> *mut c_void;
type Attach = unsafe extern "C" fn(run_loop: *mut c_void, observer: *mut c_void, mode: *mut c_void);
type ReleaseObject = unsafe extern "C" fn(object: *mut c_void);

/// Callbacks for when the main thread has something to do, and for when it is about to wait.
static BUSY: AtomicPtr<()> = AtomicPtr::new(null_mut());
static IDLE: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// The observers of the main run loop, there until this is dropped.
#[derive(Debug)]
pub struct Observers {
    run_loop: *mut c_void,
    mode: *mut c_void,
    first: *mut c_void,
    last: *mut c_void,
    remove: Attach,
    release: ReleaseObject,
}

// SAFETY: CFRunLoopRemoveObserver and CFRelease may be called on any thread, and the pointers are
// used for nothing else.
unsafe impl Send for Observers {}
// SAFETY: as above; nothing is done through a shared reference.
unsafe impl Sync for Observers {}

/// Adds observers to the main run loop: `busy` is called on the main thread whenever the loop is entered or wakes,
/// before all other observers, and `idle` after them whenever it is about to wait or is left. Loops within loops nest.
/// `None` if the process has no CoreFoundation.
pub fn observe(busy: fn(), idle: fn()) -> Option<Observers> {
    // SAFETY: each name is that of a function of the type that its header declares, or of a
    // constant of pointer type.
    unsafe {
        let create: CreateObserver = std::mem::transmute(symbol(c"CFRunLoopObserverCreate")?);
        let main: GetMain = std::mem::transmute(symbol(c"CFRunLoopGetMain")?);
        let add: Attach = std::mem::transmute(symbol(c"CFRunLoopAddObserver")?);
        let remove: Attach = std::mem::transmute(symbol(c"CFRunLoopRemoveObserver")?);
        let release: ReleaseObject = std::mem::transmute(symbol(c"CFRelease")?);
        let mode = *symbol(c"kCFRunLoopCommonModes")?.cast::<*mut c_void>();
        BUSY.store(busy as *mut (), Ordering::SeqCst);
        IDLE.store(idle as *mut (), Ordering::SeqCst);
        let begin = ENTRY | AFTER_WAITING;
        let end = BEFORE_WAITING | EXIT;
        let none = std::ptr::null();
        let first = create(none, begin, 1, isize::MIN, woken, null_mut());
        let last = create(none, end, 1, isize::MAX, waiting, null_mut());
        if first.is_null() || last.is_null() {
            return None;
        }
        let run_loop = main();
        add(run_loop, first, mode);
        add(run_loop, last, mode);
        Some(Observers {
            run_loop,
            mode,
            first,
            last,
            remove,
            release,
        })
    }
}

impl Drop for Observers {
    fn drop(&mut self) {
        // SAFETY: what `observe` made and added, once.
        unsafe {
            for observer in [self.first, self.last] {
                (self.remove)(self.run_loop, observer, self.mode);
                (self.release)(observer);
            }
        }
    }
}

extern "C" fn woken(_observer: *mut c_void, _activity: usize, _info: *mut c_void) {
    call(&BUSY);
}

extern "C" fn waiting(_observer: *mut c_void, _activity: usize, _info: *mut c_void) {
    call(&IDLE);
}

fn call(place: &AtomicPtr<()>) {
    let function = place.load(Ordering::SeqCst);
    if !function.is_null() {
        // SAFETY: only `observe` stores here: such functions.
        unsafe { std::mem::transmute::<*mut (), fn()>(function)() };
    }
}
