//! Objective-C's exceptions, where the process has Foundation: the handler of one that nothing
//! catches (Foundation/NSException.h, objc/message.h).
//!
//! Foundation is looked up at run time: apps need not link it.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::context::address;
use super::symbol;
use crate::platform::forked::OnceFlag;

type UncaughtHandler = extern "C" fn(exception: *mut c_void);
type SetHandler = unsafe extern "C" fn(handler: *mut c_void);
type GetHandler = unsafe extern "C" fn() -> *mut c_void;
type Selector = unsafe extern "C" fn(name: *const c_char) -> *mut c_void;
/// `objc_msgSend` for a method with at most one argument, of the size of a pointer, that returns a
/// pointer, an integer or a truth value: all come back in one register. Of a truth value only the
/// lowest byte counts.
type Send =
    unsafe extern "C" fn(object: *mut c_void, selector: *mut c_void, argument: usize) -> usize;
/// The function that [`on_uncaught`] calls.
type OnUncaught = fn(thrown: &Thrown<'_>);

/// Innermost and outermost addresses of a throw's stack that are read, where there are more.
const INNERMOST: usize = 448;
const OUTERMOST: usize = 64;
/// Addresses of a throw's stack, at most.
pub const MAX_ADDRESSES: usize = INNERMOST + OUTERMOST;

/// An exception that was not caught.
#[derive(Debug)]
pub struct Thrown<'a> {
    /// Its name; that of its class where it is no `NSException`.
    pub name: &'a CStr,
    /// The reason given when it was thrown.
    pub reason: Option<&'a CStr>,
    /// The return addresses of its first throw, innermost first; none where that is unknown.
    pub stack: &'a [u64],
    /// The index before which addresses were omitted from the stack, and their count.
    pub omitted: Option<(usize, usize)>,
}

static ON_UNCAUGHT: AtomicPtr<()> = AtomicPtr::new(null_mut());
static PREVIOUS: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Sets `called` to be called on the thread that raised, before the previous handler; once a process: a handler that is
/// set over ours may call ours. Calling it again is fine: Foundation may be loaded later.
pub fn on_uncaught(called: OnUncaught) {
    static ONCE: OnceFlag = OnceFlag::new();
    let set = symbol(c"NSSetUncaughtExceptionHandler");
    let get = symbol(c"NSGetUncaughtExceptionHandler");
    if let (Some(set), Some(get)) = (set, get)
        && ONCE.is_first_call()
    {
        ON_UNCAUGHT.store(called as *mut (), Ordering::SeqCst);
        // SAFETY: Foundation's functions, of the types that its header declares; the handler stays.
        unsafe {
            let before = std::mem::transmute::<*mut c_void, GetHandler>(get)();
            PREVIOUS.store(before, Ordering::SeqCst);
            std::mem::transmute::<*mut c_void, SetHandler>(set)(uncaught as *mut c_void);
        }
    }
}

extern "C" fn uncaught(exception: *mut c_void) {
    let called = ON_UNCAUGHT.load(Ordering::SeqCst);
    if !called.is_null()
        && let Some(object) = ObjcObject::new(exception)
        && let Some(name) = object.text(c"name").or_else(|| object.class_name())
    {
        // SAFETY: only `on_uncaught` stores here: such functions.
        let called = unsafe { std::mem::transmute::<*mut (), OnUncaught>(called) };
        let mut stack = [0; MAX_ADDRESSES];
        let (length, omitted) = object.stack(&mut stack);
        called(&Thrown {
            name,
            reason: object.text(c"reason"),
            stack: stack.get(..length).unwrap_or_default(),
            omitted,
        });
    }
    let before = PREVIOUS.load(Ordering::SeqCst);
    if !before.is_null() {
        // SAFETY: what `NSGetUncaughtExceptionHandler` gave is such a function.
        unsafe { std::mem::transmute::<*mut c_void, UncaughtHandler>(before)(exception) };
    }
}

/// An object, and how the runtime is queried about it.
#[derive(Clone, Copy)]
struct ObjcObject {
    object: *mut c_void,
    send: Send,
    selector: Selector,
}

impl ObjcObject {
    fn new(object: *mut c_void) -> Option<ObjcObject> {
        let (send, selector) = (symbol(c"objc_msgSend")?, symbol(c"sel_registerName")?);
        // SAFETY: the runtime's functions; `Send` states for which methods.
        let (send, selector) = unsafe {
            (
                std::mem::transmute::<*mut c_void, Send>(send),
                std::mem::transmute::<*mut c_void, Selector>(selector),
            )
        };
        (!object.is_null()).then_some(ObjcObject {
            object,
            send,
            selector,
        })
    }

    /// Calls a method that has the signature of `Send`; `None` if the object does not have it:
    /// anything may be thrown.
    fn send(self, method: &CStr, argument: usize) -> Option<usize> {
        // SAFETY: a living object of the runtime's, which the exception holds; every root class
        // answers `respondsToSelector:`.
        unsafe {
            let selector = (self.selector)(method.as_ptr());
            let responds = (self.selector)(c"respondsToSelector:".as_ptr());
            let known = (self.send)(self.object, responds, selector as usize) as u8 != 0;
            known.then(|| (self.send)(self.object, selector, argument))
        }
    }

    /// The object that a method gives.
    fn object(self, method: &CStr, argument: usize) -> Option<ObjcObject> {
        let object = self.send(method, argument)? as *mut c_void;
        (!object.is_null()).then_some(ObjcObject { object, ..self })
    }

    /// Calls a method that returns an `NSString` or nil, and returns its UTF-8. It lives as long as the exception,
    /// which the runtime holds.
    fn text<'a>(self, method: &CStr) -> Option<&'a CStr> {
        let bytes = self.object(method, 0)?.send(c"UTF8String", 0)? as *const c_char;
        // SAFETY: a C string, or null.
        (!bytes.is_null()).then(|| unsafe { CStr::from_ptr(bytes) })
    }

    fn class_name<'a>(self) -> Option<&'a CStr> {
        type Name = unsafe extern "C" fn(object: *mut c_void) -> *const c_char;
        let name = symbol(c"object_getClassName")?;
        // SAFETY: the runtime's function, of the type that its header declares; it gives a C string
        // that lives as long as the class.
        unsafe {
            Some(CStr::from_ptr(std::mem::transmute::<*mut c_void, Name>(
                name,
            )(self.object)))
        }
    }

    /// Copies the addresses at which an `NSException` was first thrown into `stack`: returns their count, and those
    /// left out.
    fn stack(self, stack: &mut [u64; MAX_ADDRESSES]) -> (usize, Option<(usize, usize)>) {
        let Some(addresses) = self.object(c"callStackReturnAddresses", 0) else {
            return (0, None);
        };
        let count = addresses.send(c"count", 0).unwrap_or(0);
        let left_out = count.saturating_sub(MAX_ADDRESSES);
        let mut length = 0usize;
        for (at, slot) in stack.iter_mut().enumerate().take(count) {
            let index = if at < INNERMOST {
                at
            } else {
                at.saturating_add(left_out)
            };
            let number = addresses.object(c"objectAtIndex:", index);
            let Some(value) = number.and_then(|number| number.send(c"unsignedLongValue", 0)) else {
                break;
            };
            *slot = address(value as u64);
            length = length.saturating_add(1);
        }
        let omitted = (left_out > 0 && length == MAX_ADDRESSES).then_some((INNERMOST, left_out));
        (length, omitted)
    }
}
