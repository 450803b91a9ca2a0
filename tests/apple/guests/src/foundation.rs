//! An Objective-C exception that nobody catches, without Objective-C.
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null;

/// As the played Foundation has its objects.
#[repr(C)]
struct Object {
    text: *const c_char,
    name: *const Object,
    reason: *const Object,
}

fn find(name: &CStr) -> *mut c_void {
    // SAFETY: a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    assert!(!found.is_null(), "{name:?}");
    found
}

extern "C" fn told_before(_exception: *mut c_void) {
    println!("told before");
}

/// Loads Foundation, as an app has it loaded, with somebody who is told already.
pub fn begin() {
    let path = c"/System/Library/Frameworks/Foundation.framework/Versions/A/Foundation";
    // SAFETY: a C string; the function is of that type.
    unsafe {
        assert!(!libc::dlopen(path.as_ptr(), libc::RTLD_NOW).is_null());
        let set = find(c"NSSetUncaughtExceptionHandler");
        let set: unsafe extern "C" fn(extern "C" fn(*mut c_void)) = std::mem::transmute(set);
        set(told_before);
    }
}

/// Raises it.
pub fn raise() -> u64 {
    let text = |text: &'static CStr| Object { text: text.as_ptr(), name: null(), reason: null() };
    let name = text(c"NSRangeException");
    let reason = text(c"index 9 beyond bounds [0 .. 3]");
    let exception = Object { text: null(), name: &name, reason: &reason };
    // SAFETY: the function is of that type; the objects live longer than the process.
    unsafe {
        let throw = find(c"objc_exception_throw");
        let throw: unsafe extern "C" fn(*const Object) -> ! = std::mem::transmute(throw);
        throw(&exception)
    }
}
