//! An Objective-C exception that nothing catches, without Objective-C.
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

type Handler = extern "C" fn(*mut c_void);
static BEFORE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

fn find(name: &CStr) -> *mut c_void {
    // SAFETY: a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    assert!(!found.is_null(), "{name:?}");
    found
}

extern "C" fn handler_before(_exception: *mut c_void) {
    println!("handler before");
}

/// Loads Foundation, as an app has it loaded, with a handler of uncaught exceptions already in place.
pub fn begin() {
    let path = c"/System/Library/Frameworks/Foundation.framework/Versions/A/Foundation";
    // SAFETY: a C string; the function is of that type.
    unsafe {
        assert!(!libc::dlopen(path.as_ptr(), libc::RTLD_NOW).is_null());
        let set = find(c"NSSetUncaughtExceptionHandler");
        let set: unsafe extern "C" fn(Handler) = std::mem::transmute(set);
        set(handler_before);
    }
}

extern "C" fn handler_after(exception: *mut c_void) {
    println!("handler after");
    let before = BEFORE.load(Ordering::SeqCst);
    // SAFETY: the handler that was in place.
    unsafe { std::mem::transmute::<*mut c_void, Handler>(before)(exception) }
}

/// Sets a handler over the one in place, as an app does after the monitor, that calls it.
pub fn set_handler_after() {
    let (get, set) = (
        find(c"NSGetUncaughtExceptionHandler"),
        find(c"NSSetUncaughtExceptionHandler"),
    );
    // SAFETY: the functions are of those types.
    unsafe {
        let get: unsafe extern "C" fn() -> *mut c_void = std::mem::transmute(get);
        let set: unsafe extern "C" fn(Handler) = std::mem::transmute(set);
        BEFORE.store(get(), Ordering::SeqCst);
        set(handler_after);
    }
}

/// Raises it.
pub fn raise() -> u64 {
    type Class = unsafe extern "C" fn(*const i8) -> *mut c_void;
    type Selector = unsafe extern "C" fn(*const i8) -> *mut c_void;
    type Send = unsafe extern "C" fn(*mut c_void, *mut c_void, usize, usize, usize) -> usize;
    // SAFETY: the functions are of those types; the texts live longer than the process.
    unsafe {
        let class: Class = std::mem::transmute(find(c"objc_getClass"));
        let selector: Selector = std::mem::transmute(find(c"sel_registerName"));
        let send: Send = std::mem::transmute(find(c"objc_msgSend"));
        let throw: unsafe extern "C" fn(usize) -> ! =
            std::mem::transmute(find(c"objc_exception_throw"));
        let text = |text: &'static CStr| {
            let make = selector(c"stringWithUTF8String:".as_ptr());
            send(
                class(c"NSString".as_ptr()),
                make,
                text.as_ptr() as usize,
                0,
                0,
            )
        };
        let make = selector(c"exceptionWithName:reason:userInfo:".as_ptr());
        let (name, reason) = (
            text(c"NSRangeException"),
            text(c"index 9 beyond bounds [0 .. 3]"),
        );
        throw(send(class(c"NSException".as_ptr()), make, name, reason, 0))
    }
}
