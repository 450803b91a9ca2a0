//! The C++ runtime, where there is one: the handler of `std::terminate`, and the exception that it is about.
//!
//! Nothing here links to it: its functions are looked up by the names that the Itanium C++ ABI
//! gives them, which libstdc++ and libc++ share.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::transmute;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A handler for when C++ gives up.
pub type Terminate = extern "C" fn();

/// What `dlsym` returns.
type Symbol = *mut c_void;
type ExceptionType = unsafe extern "C" fn() -> *const TypeInfo;
type CurrentException = unsafe extern "C" fn() -> ExceptionPointer;
type Demangle =
    unsafe extern "C" fn(*const c_char, *mut c_char, *mut usize, *mut c_int) -> *mut c_char;

type CanCatch =
    unsafe extern "C" fn(*const TypeInfo, *const TypeInfo, *mut *mut c_void, u32) -> bool;
type What = unsafe extern "C" fn(*const c_void) -> *const c_char;
type SetTerminate = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

/// The runtime's functions and the type of `std::exception`.
struct Runtime {
    set: SetTerminate,
    exception_type: ExceptionType,
    exception: CurrentException,
    demangle: Demangle,
    base: *const TypeInfo,
}

/// `std::type_info` (Itanium C++ ABI, 2.9.4): its virtual table, its name.
#[repr(C)]
struct TypeInfo {
    virtuals: *const *const c_void,
    name: *const c_char,
}

impl TypeInfo {
    /// Its mangled name. Apple's arm64 keeps a flag in the pointer's highest bit: set where the name
    /// is not the only one of its type (`_LIBCPP_TYPEINFO_COMPARISON_IMPLEMENTATION` 3 of libc++).
    /// GCC puts a `*` before the name of a class that other units may have too, as in an anonymous namespace
    /// (`type_info::name` of libstdc++ skips it).
    fn name(&self) -> *const c_char {
        let flags = cfg!(all(target_vendor = "apple", target_arch = "aarch64"));
        let name = self.name.map_addr(|at| at & !(usize::from(flags) << 63));
        // SAFETY: a C string, which has at least its end.
        let is_local = unsafe { *name } == b'*' as c_char;
        name.wrapping_add(usize::from(is_local))
    }
}

/// `std::exception_ptr`: one pointer, to the exception. It is given back in memory, being no
/// trivial class (Itanium C++ ABI, 3.1.3.1); made large here so that Rust expects it there.
#[repr(C)]
struct ExceptionPointer {
    exception: *mut c_void,
    _rest: [usize; 7],
}

static RUNTIME: AtomicPtr<Runtime> = AtomicPtr::new(std::ptr::null_mut());
static PREVIOUS: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Beginnings of the file names of the runtime's libraries.
const LIBRARIES: [&str; 3] = ["libstdc++.so.6", "libc++.so.1", "libc++abi."];

/// Index in a `type_info`'s virtual table of the function that tells if a thrown object can be caught as that type:
/// `__do_catch` in libstdc++, `can_catch` in libc++abi.
const CAN_CATCH: usize = 4;
/// Index of `what()` in an exception's virtual table: behind the two destructors.
const WHAT: usize = 2;

/// Sets `terminate` to be called when C++ gives up, if its runtime is loaded; once a process. `images` are the paths of what
/// is loaded: by a bare name `dlopen` would look for a library that is not through all folders. Allocates.
pub fn on_terminate(terminate: Terminate, images: &mut dyn Iterator<Item = &str>) -> bool {
    if !RUNTIME.load(Ordering::Acquire).is_null() {
        return true;
    }
    let mut handles = vec![libc::RTLD_DEFAULT];
    let is_runtime = |path: &&str| {
        let file = path.rsplit('/').next().unwrap_or_default();
        LIBRARIES.iter().any(|name| file.starts_with(name))
    };
    for path in images.filter(is_runtime).flat_map(CString::new) {
        // SAFETY: a C string; only a library that is loaded already is given.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if !handle.is_null() {
            handles.push(handle);
        }
    }
    let find = |name: &CStr| {
        handles
            .iter()
            // SAFETY: a C string and a handle that is open.
            .map(|&handle| unsafe { libc::dlsym(handle, name.as_ptr()) })
            .find(|found| !found.is_null())
    };
    let found = (|| {
        // SAFETY: the ABI gives the functions of these names these types.
        unsafe {
            Some(Runtime {
                set: transmute::<Symbol, SetTerminate>(find(c"_ZSt13set_terminatePFvvE")?),
                exception_type: transmute::<Symbol, ExceptionType>(find(
                    c"__cxa_current_exception_type",
                )?),
                exception: transmute::<Symbol, CurrentException>(find(
                    c"_ZSt17current_exceptionv",
                )?),
                demangle: transmute::<Symbol, Demangle>(find(c"__cxa_demangle")?),
                base: find(c"_ZTISt9exception")?.cast(),
            })
        }
    })();
    let Some(runtime) = found else {
        return false;
    };
    let set = runtime.set;
    RUNTIME.store(Box::into_raw(Box::new(runtime)), Ordering::Release);
    // SAFETY: `terminate` stays until `not_on_terminate`.
    PREVIOUS.store(unsafe { set(terminate as *mut c_void) }, Ordering::Release);
    true
}

/// Puts back the handler before, where `terminate` is in place still: it goes.
pub fn not_on_terminate(terminate: Terminate) {
    // SAFETY: only `on_terminate` stores here, for ever. The function is given what it gave itself.
    unsafe {
        if let Some(runtime) = RUNTIME.load(Ordering::Acquire).as_ref() {
            let now = (runtime.set)(PREVIOUS.load(Ordering::Acquire));
            if now != terminate as *mut c_void {
                (runtime.set)(now);
            }
        }
    }
}

/// The handler of `std::terminate` before us; does not return.
pub fn terminate_as_before() -> ! {
    let before = PREVIOUS.load(Ordering::Acquire);
    if !before.is_null() {
        // SAFETY: what `set_terminate` gave is such a function.
        unsafe { transmute::<Symbol, Terminate>(before)() };
    }
    std::process::abort()
}

/// The exception that the calling thread is in the middle of: its type, and its `what()` if it is
/// a `std::exception`. Allocates; runs code of the exception's class.
pub fn current_exception(found: &mut dyn FnMut(&CStr, Option<&CStr>)) {
    // SAFETY: only `on_terminate` stores here, for ever.
    let Some(runtime) = (unsafe { RUNTIME.load(Ordering::Acquire).as_ref() }) else {
        return;
    };
    // SAFETY: the ABI's own functions, called as the ABI has it, on the thread that throws: the type
    // and the exception live until that thread is done with it, which it never is any more. The
    // virtual tables are those of their classes.
    unsafe {
        let Some(kind) = (runtime.exception_type)().as_ref() else {
            return;
        };
        let mut what = None;
        let mut object = (runtime.exception)().exception;
        if !object.is_null() {
            let can_catch = *(*runtime.base).virtuals.add(CAN_CATCH);
            let can_catch = transmute::<*const c_void, CanCatch>(can_catch);
            if can_catch(runtime.base, kind, &mut object, 1) {
                let virtuals = *object.cast::<*const *const c_void>();
                let text = transmute::<*const c_void, What>(*virtuals.add(WHAT))(object);
                what = (!text.is_null()).then(|| CStr::from_ptr(text));
            }
        }
        let mut status = 0;
        let name = (runtime.demangle)(
            kind.name(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            &mut status,
        );
        // The demangled name stays allocated: the process ends here.
        let name = if name.is_null() { kind.name() } else { name };
        found(CStr::from_ptr(name), what);
    }
}
