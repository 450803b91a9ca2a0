//! The ways to die, and what the report of each must say.

/// What its report must say: the signal and its code, and whether there is a fault address.
pub struct Expected {
    pub signal: &'static str,
    pub code: &'static str,
    pub address: bool,
}

/// A way to die.
pub struct Kind {
    pub name: &'static str,
    pub die: fn(),
    pub expected: Expected,
}

const fn kind(
    name: &'static str,
    die: fn(),
    signal: &'static str,
    code: &'static str,
    address: bool,
) -> Kind {
    Kind {
        name,
        die,
        expected: Expected {
            signal,
            code,
            address,
        },
    }
}

pub const KINDS: [Kind; 24] = [
    kind("null", null, "SIGSEGV", "SEGV_MAPERR", true),
    kind("wild", wild, "SIGSEGV", "SEGV_MAPERR", true),
    kind(
        "non-canonical",
        non_canonical,
        "SIGSEGV",
        "SI_KERNEL",
        false,
    ),
    kind("read-only", read_only, "SIGSEGV", "SEGV_ACCERR", true),
    kind("jump-to-data", jump_to_data, "SIGSEGV", "SEGV_ACCERR", true),
    kind("jump-to-null", jump_to_null, "SIGSEGV", "SEGV_MAPERR", true),
    kind(
        "truncated-file",
        truncated_file,
        "SIGBUS",
        "BUS_ADRERR",
        true,
    ),
    kind("divide", divide, "SIGFPE", "FPE_INTDIV", true),
    kind("illegal", illegal, "SIGILL", "ILL_ILLOPN", true),
    kind("breakpoint", breakpoint, "SIGTRAP", "SI_KERNEL", false),
    kind("system-call", system_call, "SIGSYS", "SYS_SECCOMP", true),
    kind("abort", abort, "SIGABRT", "SI_TKILL", false),
    kind("double-free", double_free, "SIGABRT", "SI_TKILL", false),
    kind("panic-aborts", panic_aborts, "SIGABRT", "SI_TKILL", false),
    kind("overflow", overflow, "SIGSEGV", "SEGV_MAPERR", true),
    kind(
        "overflow-thread",
        overflow_thread,
        "SIGSEGV",
        "SEGV_ACCERR",
        true,
    ),
    kind("in-a-handler", in_a_handler, "SIGSEGV", "SEGV_MAPERR", true),
    kind("loaders-lock", loaders_lock, "SIGSEGV", "SEGV_MAPERR", true),
    kind(
        "eight-at-once",
        eight_at_once,
        "SIGSEGV",
        "SEGV_MAPERR",
        true,
    ),
    kind("assert", assert, "SIGABRT", "SI_TKILL", false),
    kind("smashed-stack", smashed_stack, "SIGABRT", "SI_TKILL", false),
    kind("corrupt-heap", corrupt_heap, "SIGSEGV", "SEGV_MAPERR", true),
    kind(
        "garbage-stack-pointer",
        garbage_stack_pointer,
        "SIGSEGV",
        "SEGV_MAPERR",
        true,
    ),
    kind("exception", exception, "SIGABRT", "SI_TKILL", false),
];

// None of the `unsafe` below is sound: each breaks its rules on purpose, in a process that is meant to
// die of it.

macro_rules! write {
    ($address:expr) => {{
        let address: *mut u8 = std::hint::black_box($address);
        // SAFETY: none, see above.
        unsafe { address.write_volatile(1) };
        std::hint::black_box(address);
    }};
}

#[inline(never)]
fn null() {
    write!(0x10 as *mut u8);
}

#[inline(never)]
fn wild() {
    write!(0x7000_dead_b000 as *mut u8);
}

#[inline(never)]
fn non_canonical() {
    write!(0x1234_5678_9abc_def0 as *mut u8);
}

#[inline(never)]
fn read_only() {
    write!(c"constant".as_ptr().cast_mut().cast());
}

#[inline(never)]
fn jump_to_data() {
    static DATA: [u64; 4] = [0xcccc_cccc_cccc_cccc; 4];
    // SAFETY: none, see above.
    let data: extern "C" fn() = unsafe { std::mem::transmute(std::hint::black_box(&DATA)) };
    data();
    std::hint::black_box(data);
}

#[inline(never)]
fn jump_to_null() {
    // SAFETY: none, see above.
    let nowhere: extern "C" fn() = unsafe { std::mem::transmute(std::hint::black_box(8usize)) };
    nowhere();
    std::hint::black_box(nowhere);
}

#[inline(never)]
fn truncated_file() {
    // SAFETY: none, see above: a page over a file that has no bytes.
    let page = unsafe {
        let file = libc::memfd_create(c"empty".as_ptr(), 0);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            access,
            libc::MAP_SHARED,
            file,
            0,
        )
    };
    write!(page.cast());
}

#[inline(never)]
fn divide() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: none, see above.
    unsafe {
        std::arch::asm!("xor ecx, ecx", "mov eax, 1", "cdq", "idiv ecx", out("eax") _, out("ecx") _, out("edx") _)
    };
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: none, see above. This machine divides by zero without complaint.
    unsafe {
        libc::raise(libc::SIGFPE)
    };
}

#[inline(never)]
fn illegal() {
    // SAFETY: none, see above.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("ud2");
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("udf #0");
    }
}

#[inline(never)]
fn breakpoint() {
    // SAFETY: none, see above.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("int3", "nop");
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("brk #1");
    }
}

/// A filter of seccomp(2) forbids `getppid`.
#[inline(never)]
fn system_call() {
    let step = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let returns = libc::BPF_RET | libc::BPF_K;
    let filter = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            1,
            libc::SYS_getppid as u32,
        ),
        step(returns, 0, 0, libc::SECCOMP_RET_TRAP),
        step(returns, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: none, see above.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program);
        std::hint::black_box(libc::getppid());
    }
}

#[inline(never)]
fn abort() {
    // SAFETY: none, see above.
    unsafe { libc::abort() }
}

#[inline(never)]
fn double_free() {
    // SAFETY: none, see above.
    unsafe {
        let memory = std::hint::black_box(libc::malloc(40));
        libc::free(std::hint::black_box(memory));
        libc::free(std::hint::black_box(memory));
    }
    std::hint::black_box(());
}

#[inline(never)]
#[allow(improper_ctypes_definitions, reason = "never called from C")]
extern "C" fn panic_aborts_here() {
    panic!("the cart has {} wheels", std::hint::black_box(3));
}

#[inline(never)]
fn panic_aborts() {
    panic_aborts_here();
    std::hint::black_box(());
}

#[inline(never)]
#[allow(unconditional_recursion, reason = "the way to die")]
fn overflow() {
    let room = std::hint::black_box([1u8; 512]);
    overflow();
    std::hint::black_box(room);
}

#[inline(never)]
fn overflow_thread() {
    #[inline(never)]
    #[allow(unconditional_recursion, reason = "the way to die")]
    fn overflow_thread() {
        // Not the same code as `overflow`'s, or the two may become one function.
        let room = std::hint::black_box([2u8; 640]);
        overflow_thread();
        std::hint::black_box(room);
    }
    let _ = std::thread::spawn(overflow_thread).join();
}

#[inline(never)]
extern "C" fn in_a_handler_(_: i32) {
    write!(0x10 as *mut u8);
}

#[inline(never)]
fn in_a_handler() {
    // SAFETY: none, see above.
    unsafe {
        libc::signal(libc::SIGUSR1, in_a_handler_ as *const () as usize);
        libc::raise(libc::SIGUSR1);
    }
    std::hint::black_box(());
}

#[inline(never)]
unsafe extern "C" fn loaders_lock_(
    _: *mut libc::dl_phdr_info,
    _: usize,
    _: *mut libc::c_void,
) -> i32 {
    write!(0x10 as *mut u8);
    0
}

/// `dl_iterate_phdr` holds the lock while it calls.
#[inline(never)]
fn loaders_lock() {
    // SAFETY: none, see above.
    unsafe { libc::dl_iterate_phdr(Some(loaders_lock_), std::ptr::null_mut()) };
    std::hint::black_box(());
}

#[inline(never)]
fn eight_at_once() {
    let ready = std::sync::Barrier::new(8);
    #[inline(never)]
    fn eight_at_once(ready: &std::sync::Barrier) {
        ready.wait();
        write!(0x10 as *mut u8);
    }
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| eight_at_once(&ready));
        }
    });
}

/// What C's `assert` calls.
#[inline(never)]
fn assert() {
    unsafe extern "C" {
        fn __assert_fail(
            what: *const libc::c_char,
            file: *const libc::c_char,
            line: libc::c_uint,
            function: *const libc::c_char,
        ) -> !;
    }
    let (what, file) = (c"wheels == 4".as_ptr(), c"cart.c".as_ptr());
    // SAFETY: none, see above.
    unsafe { __assert_fail(what, file, 7, c"push".as_ptr()) }
}

/// What a function calls that finds its canary overwritten.
#[inline(never)]
fn smashed_stack() {
    unsafe extern "C" {
        fn __stack_chk_fail() -> !;
    }
    // SAFETY: none, see above.
    unsafe { __stack_chk_fail() }
}

/// Blocks that are free are overwritten, with what malloc keeps in front of them.
#[inline(never)]
fn corrupt_heap() {
    let blocks: Vec<*mut libc::c_void>;
    // SAFETY: none, see above.
    unsafe {
        blocks = (0..64).map(|_| libc::malloc(40)).collect();
        blocks.iter().for_each(|block| libc::free(*block));
        for block in &blocks {
            let block = std::hint::black_box(*block).cast::<u8>();
            block.sub(8).write_bytes(0xff, 48);
        }
    }
    write!(0x10 as *mut u8);
    std::mem::forget(blocks);
}

#[inline(never)]
fn garbage_stack_pointer() {
    // SAFETY: none, see above.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("mov rsp, {0}", "push {0}", "ud2", in(reg) 0x7000_dead_0000_u64);
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("mov sp, {0}", "str {0}, [sp, #-16]!", "udf #0", in(reg) 0x7000_dead_0000_u64);
    }
}

/// A `std::runtime_error` that nothing catches, on a thread without a frame that could.
#[inline(never)]
extern "C-unwind" fn exception_(_: *mut libc::c_void) -> *mut libc::c_void {
    type Constructor = unsafe extern "C-unwind" fn(*mut libc::c_void, *const libc::c_char);
    type Allocate = unsafe extern "C-unwind" fn(usize) -> *mut libc::c_void;
    type Destroy = *mut libc::c_void;
    type Throw = unsafe extern "C-unwind" fn(*mut libc::c_void, *mut libc::c_void, Destroy) -> !;
    // SAFETY: none, see above; the types are those of the C++ ABI.
    unsafe {
        let library = libc::dlopen(c"libstdc++.so.6".as_ptr(), libc::RTLD_NOW);
        let find = |name: &std::ffi::CStr| libc::dlsym(library, name.as_ptr());
        let allocate = find(c"__cxa_allocate_exception");
        let construct = find(c"_ZNSt13runtime_errorC1EPKc");
        let throw = find(c"__cxa_throw");
        if allocate.is_null() || construct.is_null() || throw.is_null() {
            return std::ptr::null_mut();
        }
        let allocate: Allocate = std::mem::transmute(allocate);
        let construct: Constructor = std::mem::transmute(construct);
        let throw: Throw = std::mem::transmute(throw);
        let exception = allocate(16);
        construct(exception, c"the cart is empty".as_ptr());
        throw(
            exception,
            find(c"_ZTISt13runtime_error"),
            find(c"_ZNSt13runtime_errorD1Ev"),
        );
    }
}

#[inline(never)]
fn exception() {
    // SAFETY: none, see above: a start function that unwinds.
    unsafe {
        let mut thread = std::mem::zeroed();
        let start: extern "C" fn(*mut libc::c_void) -> *mut libc::c_void =
            std::mem::transmute(exception_ as *const ());
        let none = std::ptr::null_mut();
        libc::pthread_create(&mut thread, std::ptr::null(), start, none);
        libc::pthread_join(thread, std::ptr::null_mut());
    }
}
