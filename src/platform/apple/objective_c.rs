//! Objective-C's exceptions, where the process has Foundation: who is told of one that nobody
//! catches (Foundation/NSException.h, objc/message.h).
//!
//! Foundation is looked up at run time: nobody has to link it for us.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::symbol::find;

type Handler = extern "C" fn(exception: *mut c_void);
type SetHandler = unsafe extern "C" fn(handler: *mut c_void);
type GetHandler = unsafe extern "C" fn() -> *mut c_void;
type Selector = unsafe extern "C" fn(name: *const c_char) -> *mut c_void;
/// `objc_msgSend` for a method without arguments that returns a pointer.
type Send = unsafe extern "C" fn(object: *mut c_void, selector: *mut c_void) -> *mut c_void;
/// Whom it is told: the exception's name and its reason.
type Told = fn(name: &CStr, reason: Option<&CStr>);

static TOLD: AtomicPtr<()> = AtomicPtr::new(null_mut());
static BEFORE: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Has `told` called on the thread that raised, before whoever was told before. Again and again is
/// fine: Foundation may be loaded later. Whether there is one.
pub fn on_uncaught(told: Told) -> bool {
    let (Some(set), Some(get)) = (
        find(c"NSSetUncaughtExceptionHandler"),
        find(c"NSGetUncaughtExceptionHandler"),
    ) else {
        return false;
    };
    let ours = uncaught as *mut c_void;
    TOLD.store(told as *mut (), Ordering::SeqCst);
    // SAFETY: Foundation's functions, of the types that its header declares; the handler stays.
    unsafe {
        let before = std::mem::transmute::<*mut c_void, GetHandler>(get)();
        if before != ours {
            BEFORE.store(before, Ordering::SeqCst);
            std::mem::transmute::<*mut c_void, SetHandler>(set)(ours);
        }
    }
    true
}

extern "C" fn uncaught(exception: *mut c_void) {
    let told = TOLD.load(Ordering::SeqCst);
    if !told.is_null()
        && !exception.is_null()
        && let Some(name) = text(exception, c"name")
    {
        // SAFETY: only `on_uncaught` stores here: such functions.
        let told = unsafe { std::mem::transmute::<*mut (), Told>(told) };
        told(name, text(exception, c"reason"));
    }
    let before = BEFORE.load(Ordering::SeqCst);
    if !before.is_null() {
        // SAFETY: what `NSGetUncaughtExceptionHandler` gave is such a function.
        unsafe { std::mem::transmute::<*mut c_void, Handler>(before)(exception) };
    }
}

/// What a method of the exception gives, an `NSString` or nothing, as UTF-8. It lives as long as
/// the exception, which the runtime holds.
fn text<'a>(exception: *mut c_void, method: &CStr) -> Option<&'a CStr> {
    let (send, selector) = (find(c"objc_msgSend")?, find(c"sel_registerName")?);
    // SAFETY: the runtime's functions, of the types that its headers declare for such methods: each
    // is one of NSException or NSString, without arguments, and returns a pointer or nil.
    unsafe {
        let send = std::mem::transmute::<*mut c_void, Send>(send);
        let selector = std::mem::transmute::<*mut c_void, Selector>(selector);
        let string = send(exception, selector(method.as_ptr()));
        if string.is_null() {
            return None;
        }
        let bytes = send(string, selector(c"UTF8String".as_ptr())).cast::<c_char>();
        (!bytes.is_null()).then(|| CStr::from_ptr(bytes))
    }
}
