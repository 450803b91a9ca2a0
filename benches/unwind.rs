//! The unwinder against its peers, in one run and on the same stacks: `cargo bench --bench unwind`.
//!
//! wedjat and framehop unwind a copy of the stack, as captures do; the others can only unwind the
//! thread they run on. libunwind is measured where it is installed. What is measured is the time
//! that the thread has of a core, which a busy machine does not lengthen much.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod stacks;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod bench {
    use std::ffi::{c_int, c_void};
    use std::hint::black_box;
    use std::time::Duration;

    use criterion::measurement::{Measurement, ValueFormatter, WallTime};
    use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
    use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
    use framehop::{ExplicitModuleSectionInfo, Module, MustNotAllocateDuringUnwind, Unwinder as _};
    use wedjat::capture::{ImageTable, ImagesGuard};
    use wedjat::platform::{context, memory};
    use wedjat::unwind::{
        Arch, Images, LoadedImage, Memory, Registers, StackCopy, Unwinder, WalkEnd,
    };

    use crate::stacks::deep;

    /// What the calling thread has had of a core.
    fn thread_time() -> Duration {
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: a valid clock, and room for its answer.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    }

    /// Measures [`thread_time`].
    pub struct ThreadTime;

    impl Measurement for ThreadTime {
        type Intermediate = Duration;
        type Value = Duration;

        fn start(&self) -> Duration {
            thread_time()
        }

        fn end(&self, start: Duration) -> Duration {
            thread_time() - start
        }

        fn add(&self, one: &Duration, other: &Duration) -> Duration {
            *one + *other
        }

        fn zero(&self) -> Duration {
            Duration::ZERO
        }

        fn to_f64(&self, value: &Duration) -> f64 {
            value.as_nanos() as f64
        }

        fn formatter(&self) -> &dyn ValueFormatter {
            WallTime.formatter()
        }
    }

    /// A stack of this process, copied.
    struct Stack {
        registers: Registers,
        base: u64,
        bytes: Vec<u8>,
    }

    fn copy_here() -> Stack {
        let file = context::current_registers();
        let mut registers = Registers::new(Arch::X86_64);
        for (number, value) in file.into_iter().enumerate() {
            registers.set(number, value);
        }
        let base = registers.sp() - 128;
        // As far as the stack is mapped.
        let mut bytes = vec![0; 4 << 20];
        let length = memory::read(base, &mut bytes);
        bytes.truncate(length);
        Stack {
            registers,
            base,
            bytes,
        }
    }

    /// Runs something on a fresh thread under so many frames.
    fn under<T: Send>(frames: usize, work: impl FnMut() -> T + Send) -> T {
        let mut work = work;
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                let mut result = None;
                deep::<48>(frames, &mut || result = Some(work()));
                result.expect("deep calls it")
            });
            thread.join().expect("no panic")
        })
    }

    /// How many cold walks are measured at once: the clock itself takes half a microsecond.
    const COLD: BatchSize = BatchSize::NumIterations(32);

    fn timed(rounds: u64, mut work: impl FnMut()) -> Duration {
        work();
        let start = thread_time();
        for _ in 0..rounds {
            work();
        }
        thread_time() - start
    }

    type Theirs = UnwinderX86_64<Vec<u8>, MustNotAllocateDuringUnwind>;

    /// framehop, fed with the same images.
    fn framehop_of(images: &ImagesGuard, extra: usize) -> Theirs {
        use object::{Object, ObjectSection};
        let mut unwinder = Theirs::new();
        for image in images.images() {
            let Ok(data) = std::fs::read(&image.name) else {
                continue;
            };
            let Ok(file) = object::File::parse(&*data) else {
                continue;
            };
            let bytes = |name: &str| Some(file.section_by_name(name)?.data().ok()?.to_vec());
            let range = |name: &str| {
                let section = file.section_by_name(name)?;
                Some(section.address()..section.address() + section.size())
            };
            let info = ExplicitModuleSectionInfo {
                base_svma: image.base_svma,
                text_svma: range(".text"),
                got_svma: range(".got"),
                eh_frame_svma: range(".eh_frame"),
                eh_frame: bytes(".eh_frame"),
                eh_frame_hdr_svma: range(".eh_frame_hdr"),
                eh_frame_hdr: bytes(".eh_frame_hdr"),
                ..Default::default()
            };
            let all = image.base..image.base + image.size;
            unwinder.add_module(Module::new(image.name.clone(), all, image.base, info));
        }
        for index in 0..extra as u64 {
            let base = 0x1000_0000 + index * 0x10_0000;
            let info = ExplicitModuleSectionInfo::<Vec<u8>>::default();
            unwinder.add_module(Module::new(
                "other".into(),
                base..base + 0x8_0000,
                base,
                info,
            ));
        }
        unwinder
    }

    fn images_with(images: &ImagesGuard, extra: usize) -> Images {
        let mut list = images.images().to_vec();
        for index in 0..extra as u64 {
            let base = 0x1000_0000 + index * 0x10_0000;
            list.push(std::sync::Arc::new(LoadedImage::new(
                "other", base, 0, 0x8_0000,
            )));
        }
        Images::from_shared(list)
    }

    fn walk(unwinder: &mut Unwinder, images: &Images, stack: &Stack) -> usize {
        let copy = StackCopy::new(stack.base, &stack.bytes);
        let mut walk = unwinder.walk(&stack.registers, images, copy);
        let count = walk
            .by_ref()
            .inspect(|frame| _ = black_box(frame.pc))
            .count();
        assert_eq!(walk.end(), Some(WalkEnd::Root));
        count
    }

    fn walk_theirs(
        unwinder: &Theirs,
        cache: &mut CacheX86_64<MustNotAllocateDuringUnwind>,
        stack: &Stack,
    ) -> usize {
        let mut copy = StackCopy::new(stack.base, &stack.bytes);
        let mut read = |address| copy.read(address).map_err(|_| ());
        let r = &stack.registers;
        let regs = UnwindRegsX86_64::new(r.pc(), r.sp(), r.fp());
        let mut iter = unwinder.iter_frames(r.pc(), regs, cache, &mut read);
        let mut count = 0;
        while let Ok(Some(frame)) = iter.next() {
            black_box(frame.address());
            count += 1;
        }
        count
    }

    unsafe extern "C" {
        fn _Unwind_Backtrace(
            trace: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
            argument: *mut c_void,
        ) -> c_int;
        fn _Unwind_GetIP(context: *mut c_void) -> usize;
    }

    extern "C" fn count_one(context: *mut c_void, count: *mut c_void) -> c_int {
        // SAFETY: libgcc's own context; `count` is the counter below.
        unsafe {
            black_box(_Unwind_GetIP(context));
            *count.cast::<usize>() += 1;
        }
        0
    }

    fn libgcc() -> usize {
        let mut count = 0usize;
        // SAFETY: the callback takes the counter, which lives across the call.
        unsafe { _Unwind_Backtrace(count_one, (&raw mut count).cast()) };
        count
    }

    type Trace = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int;
    type OfOne = unsafe extern "C" fn(*mut c_void) -> c_int;
    type OfTwo = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;

    /// libunwind's entry points, found at run time.
    #[derive(Clone, Copy)]
    struct LibUnwind {
        backtrace: Trace,
        context: OfOne,
        init: OfTwo,
        step: OfOne,
    }

    impl LibUnwind {
        fn open() -> Option<LibUnwind> {
            // SAFETY: the functions have the types that libunwind.h gives them.
            unsafe {
                let library = libc::dlopen(c"libunwind.so.8".as_ptr(), libc::RTLD_NOW);
                if library.is_null() {
                    return None;
                }
                let find = |name: &std::ffi::CStr| {
                    let symbol = libc::dlsym(library, name.as_ptr());
                    (!symbol.is_null()).then_some(symbol)
                };
                Some(LibUnwind {
                    backtrace: std::mem::transmute::<*mut c_void, Trace>(find(c"unw_backtrace")?),
                    context: std::mem::transmute::<*mut c_void, OfOne>(find(
                        c"_Ux86_64_getcontext",
                    )?),
                    init: std::mem::transmute::<*mut c_void, OfTwo>(find(c"_ULx86_64_init_local")?),
                    step: std::mem::transmute::<*mut c_void, OfOne>(find(c"_ULx86_64_step")?),
                })
            }
        }

        fn trace(&self) -> usize {
            let mut frames = [std::ptr::null_mut(); 512];
            // SAFETY: room for so many pointers.
            let count = unsafe { (self.backtrace)(frames.as_mut_ptr(), 512) };
            black_box(&frames);
            count as usize
        }

        fn steps(&self) -> usize {
            // unw_context_t and unw_cursor_t of x86_64: 936 and 127 × 8 bytes; more is given.
            let (mut context, mut cursor) = ([0u64; 256], [0u64; 256]);
            let mut count = 1;
            // SAFETY: both are larger than libunwind needs, and live across the calls.
            unsafe {
                (self.context)(context.as_mut_ptr().cast());
                (self.init)(cursor.as_mut_ptr().cast(), context.as_mut_ptr().cast());
                while (self.step)(cursor.as_mut_ptr().cast()) > 0 {
                    count += 1;
                }
            }
            count
        }
    }

    pub fn run(c: &mut Criterion<ThreadTime>) {
        let libunwind = LibUnwind::open();
        if libunwind.is_none() {
            eprintln!("libunwind.so.8 is not installed: its rows are missing");
        }
        ImageTable::refresh();
        let guard = ImageTable::enter();
        for frames in [10usize, 64, 300] {
            let stack = under(frames, copy_here);
            let mut unwinder = Unwinder::new();
            let count = walk(&mut unwinder, guard.set(), &stack);
            let mut group = c.benchmark_group(format!("{frames} frames"));
            group.throughput(Throughput::Elements(count as u64));
            group
                .sample_size(20)
                .warm_up_time(Duration::from_millis(300));
            group.measurement_time(Duration::from_millis(700));
            for extra in [0usize, 200] {
                let images = images_with(&guard, extra);
                let theirs = framehop_of(&guard, extra);
                let what = |name: &str| BenchmarkId::new(name, format!("{extra} more images"));
                group.bench_function(what("wedjat warm"), |b| {
                    b.iter(|| walk(&mut unwinder, &images, &stack));
                });
                group.bench_function(what("wedjat cold"), |b| {
                    // Another set of images: nothing that was learnt holds.
                    b.iter_batched_ref(
                        || images_with(&guard, extra),
                        |images| walk(&mut unwinder, images, &stack),
                        COLD,
                    );
                });
                let mut cache = CacheX86_64::new_in();
                group.bench_function(what("framehop warm"), |b| {
                    b.iter(|| walk_theirs(&theirs, &mut cache, &stack));
                });
                group.bench_function(what("framehop cold"), |b| {
                    b.iter_batched_ref(
                        CacheX86_64::new_in,
                        |cache| walk_theirs(&theirs, cache, &stack),
                        COLD,
                    );
                });
            }
            group.bench_function("backtrace", |b| {
                b.iter_custom(|rounds| {
                    under(frames, || {
                        timed(rounds, || {
                            backtrace::trace(|frame| {
                                black_box(frame.ip());
                                true
                            });
                        })
                    })
                });
            });
            group.bench_function("libgcc", |b| {
                b.iter_custom(|rounds| under(frames, || timed(rounds, || _ = black_box(libgcc()))));
            });
            if let Some(library) = libunwind {
                group.bench_function("libunwind unw_backtrace", |b| {
                    b.iter_custom(|rounds| {
                        under(frames, || timed(rounds, || _ = black_box(library.trace())))
                    });
                });
                group.bench_function("libunwind unw_step", |b| {
                    b.iter_custom(|rounds| {
                        under(frames, || timed(rounds, || _ = black_box(library.steps())))
                    });
                });
            }
            // The limit: a list of frame records, each at some distance from the next.
            let mut records = vec![0u64; count * 16];
            let start = records.as_ptr() as u64;
            for index in 0..count - 1 {
                records[index * 16] = start + (index as u64 + 1) * 128;
                records[index * 16 + 1] = 1;
            }
            let bytes: Vec<u8> = records.iter().flat_map(|word| word.to_le_bytes()).collect();
            group.bench_function("frame pointer walk", |b| {
                b.iter(|| {
                    let mut copy = StackCopy::new(start, &bytes);
                    let (mut fp, mut found) = (start, 0usize);
                    while fp != 0 {
                        black_box(copy.read(fp + 8).ok());
                        fp = copy.read(fp).unwrap_or(0);
                        found += 1;
                    }
                    found
                });
            });
            group.finish();
        }
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() {
    let mut criterion = criterion::Criterion::default()
        .with_measurement(bench::ThreadTime)
        .configure_from_args();
    bench::run(&mut criterion);
    criterion.final_summary();
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {
    eprintln!("this bench compares unwinders of x86_64 Linux");
}
