//! What an app uses of its monitor while it runs: frames, launch, stacks, counters, callbacks, loads,
//! rate limit; and what it learns of the launch before.
#![cfg(target_os = "linux")]

mod stall_support;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use stall_support::{DISTURBED, burn, is_child, start, tell_all_starved};
use wedjat::load::{CpuLoad, MemoryLoad, SlowFrames};
use wedjat::report::{EventKind, Report};
use wedjat::stall::StallEvent;
use wedjat::store::HowEnded;
use wedjat::{Crash, Monitor, MonitorBuilder, RateLimit, Stall, Threads};

const MS: Duration = Duration::from_millis(1);

/// The folder of a test, which parent and child know by the test's name.
fn folder(test: &str) -> PathBuf {
    let parent = if is_child() {
        std::os::unix::process::parent_id()
    } else {
        std::process::id()
    };
    std::env::temp_dir().join(format!("wedjat-api-{parent}-{test}"))
}

fn builder(folder: &Path) -> MonitorBuilder {
    Monitor::builder("Api", "1.2").directory(folder)
}

/// Plays the child of this test to its end and gives the reports that it left. Where it fails and says
/// that it had no CPU for long, it is played again, a few times.
fn reports(test: &str) -> Vec<Report> {
    let folder = folder(test);
    let starved = |lines: &[String]| {
        let mut told = lines
            .iter()
            .filter_map(|line| line.strip_prefix("starved "));
        told.next().map_or(0, |told| told.parse().unwrap())
    };
    for attempt in 1.. {
        let (good, lines) = start(test).outcome();
        if good {
            break;
        }
        let again = attempt < 8 && starved(&lines) >= DISTURBED;
        assert!(again, "{lines:#?}");
        stall_support::deadline::run_again(test);
        std::fs::remove_dir_all(&folder).unwrap();
    }
    let stored = wedjat::store::reports(&folder).unwrap();
    let reports = stored.iter().map(|stored| stored.read().unwrap().report);
    let reports = reports.collect();
    std::fs::remove_dir_all(&folder).unwrap();
    reports
}

#[test]
fn frames_and_launch_stand_in_the_vitals() {
    let test = "frames_and_launch_stand_in_the_vitals";
    if is_child() {
        let monitor = builder(&folder(test)).install().unwrap();
        println!("ready");
        monitor.launched();
        for _ in 0..20 {
            monitor.frame();
        }
        monitor.record("now").unwrap();
        assert_eq!(monitor.stats().frames, 20);
        return;
    }
    let reports = reports(test);
    let vitals = reports[0].vitals.as_ref().unwrap();
    assert_eq!(vitals.frame_rate, Some(20.0));
    assert!(vitals.launch_time.unwrap() <= vitals.uptime.unwrap());
    let kind = vitals.launch_kind.as_deref().unwrap();
    assert!(kind == "cold" || kind == "warm");
    let memory = vitals.memory.as_ref().unwrap();
    assert!(memory.footprint.unwrap() > 0 && memory.device_total > memory.device_free);
    assert!(vitals.cpu.as_ref().unwrap().process.is_some());
}

#[test]
fn a_stall_is_reported_as_it_comes_and_goes_and_is_counted() {
    let test = "a_stall_is_reported_as_it_comes_and_goes_and_is_counted";
    if is_child() {
        let events = Arc::new(Mutex::new(Vec::new()));
        let told = events.clone();
        let monitor = builder(&folder(test))
            .stall(Stall::default())
            .rate_limit(RateLimit::default().per_hour(0))
            .on_stall(move |event| {
                told.lock().unwrap().push(match event {
                    StallEvent::Began(info) => format!("began {}", info.lasted >= 200 * MS),
                    StallEvent::Ended(end) => format!("ended {}", end.how.as_str()),
                    _ => "something else".to_owned(),
                });
            })
            .install()
            .unwrap();
        println!("ready");
        let heart = monitor.heartbeat();
        heart.turn(|| ());
        heart.turn(|| sleep(600 * MS));
        let begin = Instant::now();
        while monitor.stats().stalled_time.is_zero() && begin.elapsed() < Duration::from_secs(10) {
            sleep(10 * MS);
        }
        tell_all_starved();
        let stats = monitor.stats();
        assert_eq!((stats.turns, stats.stalls, stats.stalled), (2, 1, false));
        assert!(stats.longest >= 500 * MS && stats.captures >= 1 && stats.reports == 0);
        assert_eq!(stats.losses, [("quota", 1)]);
        // It stands in every later report, not only in those of stalls.
        monitor.record("now").unwrap();
        drop(monitor);
        assert_eq!(*events.lock().unwrap(), ["began true", "ended recovered"]);
        return;
    }
    let reports = reports(test);
    assert_eq!(reports.len(), 1, "the quota is 0");
    let loss = reports[0].loss.as_ref().unwrap();
    assert_eq!(loss.counts, [("quota".to_owned(), 1)]);
}

#[inline(never)]
fn wants_stacks(monitor: &Monitor, threads: Threads) -> String {
    let text = monitor.stacks(threads).unwrap();
    std::hint::black_box(text)
}

#[inline(never)]
fn waits_at_a_gate(limiter: &std::sync::Barrier) {
    limiter.wait();
    std::hint::black_box(());
}

/// Machine code that no image has, which leaves nothing to find its caller by: `push 0; xor ebp, ebp;
/// notify: mov byte [rdi], 1; wait: cmp byte [rsi], 0; je wait`, then back as it came.
#[cfg(target_arch = "x86_64")]
const LONELY: &[u8] = &[
    0x55, 0x6a, 0x00, 0x31, 0xed, 0xc6, 0x07, 0x01, 0x80, 0x3e, 0x00, 0x74, 0xfb, 0x58, 0x5d, 0xc3,
];

#[cfg(target_arch = "x86_64")]
fn marks_that_a_stack_goes_on(monitor: &Monitor) {
    use std::sync::atomic::{AtomicU8, Ordering};
    static INSIDE: AtomicU8 = AtomicU8::new(0);
    static STOP: AtomicU8 = AtomicU8::new(0);
    // SAFETY: a page of our own with a function of the type given, which touches the two bytes alone.
    let lonely: extern "C" fn(*mut u8, *const u8) = unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let page = libc::mmap(std::ptr::null_mut(), 4096, access, flags, -1, 0);
        assert_ne!(page, libc::MAP_FAILED);
        std::ptr::copy_nonoverlapping(LONELY.as_ptr(), page.cast(), LONELY.len());
        std::mem::transmute(page)
    };
    std::thread::scope(|scope| {
        scope.spawn(|| lonely(INSIDE.as_ptr(), STOP.as_ptr()));
        while INSIDE.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        let all = monitor.stacks(Threads::All).unwrap();
        STOP.store(1, Ordering::Release);
        let cut = "\n(the stack goes on; the walk stopped here: no unwind info)\n";
        assert_eq!(all.matches(cut).count(), 1, "{all}");
        assert_eq!(all.matches("\n??? 0x").count(), 1, "{all}");
    });
}

#[test]
fn stacks_are_text_with_names_at_once() {
    let test = "stacks_are_text_with_names_at_once";
    if is_child() {
        let monitor = builder(&folder(test)).names(true).install().unwrap();
        println!("ready");
        let current = wants_stacks(&monitor, Threads::Current);
        let first = current.lines().next().unwrap();
        assert!(first.contains("::wants_stacks + "), "{current}");
        for line in current.lines() {
            let mut words = line.split(' ');
            let (image, address) = (words.next().unwrap(), words.next().unwrap());
            assert!(!image.is_empty() && address.starts_with("0x"), "{line}");
            assert!(line.contains(" + "), "{line}");
        }
        let main = wants_stacks(&monitor, Threads::Main);
        assert_eq!(main.lines().next(), current.lines().next());
        let limiter = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("gate-keeper".into());
            thread
                .spawn_scoped(scope, || waits_at_a_gate(&limiter))
                .unwrap();
            let begin = Instant::now();
            loop {
                let all = wants_stacks(&monitor, Threads::All);
                if all.contains("waits_at_a_gate") && all.contains("gate-keeper") {
                    assert!(all.starts_with("thread "), "{all}");
                    assert!(all.contains("\n\nthread "), "{all}");
                    break;
                }
                assert!(begin.elapsed() < Duration::from_secs(10), "{all}");
            }
            limiter.wait();
        });
        #[cfg(target_arch = "x86_64")]
        marks_that_a_stack_goes_on(&monitor);
        monitor.record("named").unwrap();
        return;
    }
    let reports = reports(test);
    let frames = &reports[0].threads[0].frames;
    let named = frames.iter().filter(|frame| frame.name.is_some()).count();
    assert!(named * 2 > frames.len(), "{named} of {}", frames.len());
}

#[inline(never)]
fn burns_much(time: Duration) {
    burn(time);
    std::hint::black_box(());
}

#[test]
fn too_much_cpu_memory_and_too_few_frames_are_reported_each_as_its_own_kind() {
    let test = "too_much_cpu_memory_and_too_few_frames_are_reported_each_as_its_own_kind";
    if is_child() {
        let monitor = builder(&folder(test))
            .cpu(CpuLoad::default().share(0.05).over(1_000 * MS))
            .memory(MemoryLoad::default().bytes(64 << 20))
            .slow_frames(
                SlowFrames::default()
                    .below(30.0)
                    .lasting(500 * MS)
                    .cpu(0.02),
            )
            .install()
            .unwrap();
        println!("ready");
        let much = vec![1u8; 80 << 20];
        let begin = Instant::now();
        let is_there = |kind: &str| {
            let files = std::fs::read_dir(folder(test)).unwrap();
            let mut names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
            names.any(|name| name.contains(kind) && name.ends_with(".wedjat"))
        };
        let wanted = ["-cpu-", "-memory-", "-stall-"];
        while !wanted.into_iter().all(is_there) && begin.elapsed() < Duration::from_secs(60) {
            monitor.frame();
            burns_much(150 * MS);
        }
        std::hint::black_box(&much);
        tell_all_starved();
        assert!(wanted.into_iter().all(is_there));
        drop(monitor);
        return;
    }
    let mut reports = reports(test);
    let mut take = |kind| {
        let place = reports
            .iter()
            .position(|report| report.event.as_ref().unwrap().kind == kind);
        reports.remove(place.unwrap_or_else(|| panic!("no {kind:?}")))
    };
    let cpu = take(EventKind::Cpu);
    let reason = cpu.event.as_ref().unwrap().reason.as_deref().unwrap();
    assert!(reason.contains("% of a core over"), "{reason}");
    assert!(
        cpu.threads[0].main && cpu.threads[0].frames.len() > 3,
        "the hottest first"
    );
    let seen: u64 = cpu.samples.iter().map(|sample| sample.count).sum();
    assert!(seen >= 10, "{seen}");
    let memory = take(EventKind::Memory);
    let footprint = memory.vitals.unwrap().memory.unwrap().footprint.unwrap();
    assert!(footprint > 64 << 20, "{footprint}");
    let frames = take(EventKind::Stall);
    let event = frames.event.as_ref().unwrap();
    assert_eq!(event.class.as_deref(), Some("slow_frames"));
    assert!(event.reason.as_deref().unwrap().contains("frames a second"));
    assert!(frames.stall_end.unwrap().duration >= Duration::from_millis(500));
}

/// What the next launch learns of one that did `what`.
fn ended(what: &str) -> (HowEnded, Option<i32>) {
    let test = "how_the_launch_before_ended_is_known_without_a_report";
    let folder = folder(what);
    // SAFETY: this test's children are started one after another, by this thread.
    unsafe { std::env::set_var("WEDJAT_TEST_WHAT", what) };
    let mut child = start(test);
    if what.starts_with("killed") {
        while child.line() != "now" {}
        child.signal(libc::SIGKILL);
    }
    child.end();
    let seen = wedjat::store::launches(&folder).unwrap();
    let monitor = builder(&folder).install().unwrap();
    let previous = monitor.previous_launch().unwrap().clone();
    assert_eq!(seen, std::slice::from_ref(&previous));
    assert!(previous.app_version == "1.2" && previous.footprint.unwrap() > 0);
    assert!(previous.last_seen >= previous.started);
    assert_eq!(previous.foreground, what != "killed in the background");
    drop(monitor);
    // What was reported once is not reported again.
    let monitor = builder(&folder).install().unwrap();
    assert_eq!(monitor.previous_launches().len(), 1);
    assert_eq!(
        monitor.previous_launch().unwrap().how,
        HowEnded::Uninstalled
    );
    drop(monitor);
    std::fs::remove_dir_all(&folder).unwrap();
    (previous.how, previous.status)
}

#[test]
fn how_the_launch_before_ended_is_known_without_a_report() {
    if is_child() {
        let what = std::env::var("WEDJAT_TEST_WHAT").unwrap();
        let monitor = builder(&folder(&what))
            .stall(Stall::default())
            .crash(Crash::default())
            .install()
            .unwrap();
        println!("ready");
        monitor.heartbeat().turn(|| ());
        match &*what {
            "exits" => std::process::exit(7),
            "drops" => return drop(monitor),
            // SAFETY: no memory is involved.
            "crashes" => unsafe {
                libc::raise(libc::SIGSEGV);
            },
            "killed" => println!("now"),
            "killed in the background" => {
                monitor.set_foreground(false);
                // It is another thread that writes it to the disk.
                sleep(200 * MS);
                println!("now");
            }
            "killed in a stall" => {
                monitor.heartbeat().begin();
                while !monitor.stats().stalled {
                    sleep(10 * MS);
                }
                println!("now");
            }
            "forks" => {
                // SAFETY: the child only exits, by way of what `exit` calls.
                match unsafe { libc::fork() } {
                    0 => std::process::exit(3),
                    child => {
                        let mut status = 0;
                        // SAFETY: our own child.
                        unsafe { libc::waitpid(child, &mut status, 0) };
                        // SAFETY: nothing of the process is used any more.
                        unsafe { libc::_exit(0) };
                    }
                }
            }
            other => panic!("{other}"),
        }
        sleep(Duration::from_secs(60));
        return;
    }
    assert_eq!(ended("exits"), (HowEnded::Exit, Some(7)));
    assert_eq!(ended("drops"), (HowEnded::Exit, Some(0)));
    assert_eq!(ended("crashes"), (HowEnded::Crash, None));
    assert_eq!(ended("killed"), (HowEnded::Abrupt, None));
    assert_eq!(ended("killed in the background"), (HowEnded::Abrupt, None));
    assert_eq!(ended("killed in a stall"), (HowEnded::Stalled, None));
    assert_eq!(
        ended("forks"),
        (HowEnded::Abrupt, None),
        "the child's exit is its own"
    );
}

/// With the feature `tracing`, a stall and its report are events too.
#[cfg(feature = "tracing")]
#[test]
fn a_stall_and_its_report_are_events_of_tracing() {
    use std::fmt::Write;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    struct Listener(Arc<Mutex<Vec<String>>>);
    struct Words(String);
    impl Visit for Words {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            write!(self.0, "{}={value:?} ", field.name()).unwrap();
        }
    }
    impl Subscriber for Listener {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "wedjat"
        }
        fn event(&self, event: &Event<'_>) {
            let mut words = Words(String::new());
            event.record(&mut words);
            self.0.lock().unwrap().push(words.0);
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    let test = "a_stall_and_its_report_are_events_of_tracing";
    if is_child() {
        let events = Arc::new(Mutex::new(Vec::new()));
        tracing::subscriber::set_global_default(Listener(events.clone())).unwrap();
        let monitor = builder(&folder(test))
            .stall(Stall::default())
            .install()
            .unwrap();
        println!("ready");
        monitor.heartbeat().turn(|| ());
        monitor.heartbeat().turn(|| sleep(600 * MS));
        let begin = Instant::now();
        while monitor.stats().reports == 0 && begin.elapsed() < Duration::from_secs(10) {
            sleep(10 * MS);
        }
        drop(monitor);
        tell_all_starved();
        let events = events.lock().unwrap();
        let all = events.join("\n");
        assert_eq!(events.len(), 3, "{all}");
        for (word, count) in [
            ("message=stall class", 1),
            ("message=stall over", 1),
            ("class=", 2),
            ("path=", 1),
        ] {
            assert_eq!(all.matches(word).count(), count, "{word} in {all}");
        }
        return;
    }
    assert_eq!(reports(test).len(), 1);
}

/// With the feature `tracing`, a report recorded within a span has it as a mark, and what went wrong so far as breadcrumbs.
#[cfg(feature = "tracing")]
#[test]
fn spans_are_marks_and_errors_are_breadcrumbs() {
    use tracing_subscriber::layer::SubscriberExt;
    use wedjat::context::TracingLayer;

    let test = "spans_are_marks_and_errors_are_breadcrumbs";
    if is_child() {
        let monitor = builder(&folder(test)).install().unwrap();
        let layer = TracingLayer::new(monitor.context());
        let registry = tracing_subscriber::registry().with(layer);
        tracing::subscriber::set_global_default(registry).unwrap();
        println!("ready");
        let checkout = tracing::info_span!("checkout", user = 7).entered();
        tracing::info_span!("load prices").in_scope(|| sleep(20 * MS));
        tracing::error!(target: "till", status = 503, host = "a b", "no {}", "prices");
        tracing::warn!(target: "till", "slow");
        tracing::info!(target: "till", "not wanted");
        tracing::error!(target: "wedjat", "the recorder's own");
        tracing::warn!(target: "till", long = "ä".repeat(500), "much");
        monitor.record("within").unwrap();
        drop(checkout);
        monitor.record("after").unwrap();
        return;
    }
    let mut reports = reports(test);
    assert_eq!(reports.len(), 2);
    // While the span lasts its mark has no duration.
    reports.sort_by_key(|report| report.context.as_ref().unwrap().marks[0].2);
    let [within, after] = [0, 1].map(|at| reports[at].context.as_ref().unwrap());
    let [checkout, load] = &within.marks[..] else {
        panic!("{:?}", within.marks);
    };
    assert_eq!((checkout.0.as_str(), checkout.2), ("checkout", None));
    assert_eq!(load.0, "load prices");
    assert!(load.2.unwrap() >= 20 * MS && load.1 >= checkout.1);
    let texts: Vec<&str> = within
        .breadcrumbs
        .iter()
        .map(|(_, text)| text.as_str())
        .collect();
    assert_eq!(
        texts[..2],
        [
            "ERROR till: no prices status=503 host=\"a b\"",
            "WARN till: slow"
        ]
    );
    assert!(texts.len() == 3 && texts[2].starts_with("WARN till: much long=\"ää"));
    // Once the span is closed, its mark has an end.
    assert!(after.marks[0].2.unwrap() >= load.2.unwrap());
}

/// Whether this signal has a handler.
fn is_handled(signal: i32) -> bool {
    // SAFETY: an all-zero `sigaction` is a valid value of that plain struct.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: reads only; `action` lives across the call.
    let known = unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) };
    assert_eq!(known, 0);
    action.sa_sigaction != libc::SIG_DFL
}

#[test]
fn the_signal_of_captures_is_the_one_that_was_set() {
    let test = "the_signal_of_captures_is_the_one_that_was_set";
    if is_child() {
        println!("ready");
        let (free, wanted) = (libc::SIGRTMIN() + 4, libc::SIGRTMIN() + 9);
        let install = |signal| builder(&folder(test)).capture_signal(signal).install();
        let refused = |signal| match install(signal) {
            Err(wedjat::InstallError::Signal {
                signal: Some(told),
                source,
            }) => {
                assert_eq!(told, signal);
                source.to_string()
            }
            other => panic!("{other:?}"),
        };
        assert!(refused(libc::SIGUSR1).contains("no real-time signal"));
        // SAFETY: an ignored signal calls nothing.
        unsafe { libc::signal(wanted + 1, libc::SIG_IGN) };
        assert!(refused(wanted + 1).contains("has a handler"));
        let monitor = install(wanted).unwrap();
        std::thread::scope(|scope| {
            let done = std::sync::atomic::AtomicBool::new(false);
            let done = Arc::new(done);
            let theirs = done.clone();
            let relaxed = std::sync::atomic::Ordering::Relaxed;
            scope.spawn(move || while !theirs.load(relaxed) {});
            monitor.record("by that signal").unwrap();
            done.store(true, relaxed);
        });
        assert!(is_handled(wanted) && !is_handled(free));
        drop(monitor);
        assert!(refused(free).contains(&wanted.to_string()));
        drop(install(wanted).unwrap());
        return;
    }
    let threads = &reports(test)[0].threads;
    assert!(threads.iter().all(|thread| !thread.frames.is_empty()));
}

/// What an image is that its linker gave no build id: here of a library in C, which calls back.
const WITHOUT_ID: &str = "
    static int sum;
    __attribute__((noinline)) void outer(void (*back)(void *), void *data) {
        back(data);
        sum++;
    }";

fn compile(source: &str, library: &Path) {
    let code = library.with_extension("c");
    std::fs::write(&code, source).unwrap();
    let made = std::process::Command::new("gcc")
        .args(["-g", "-O0", "-shared", "-fPIC", "-Wl,--build-id=none", "-o"])
        .args([library, &code])
        .status();
    assert!(made.unwrap().success());
}

/// The bytes of the first executable segment that an ELF file has, by the gABI's tables.
fn text_of(file: &[u8]) -> &[u8] {
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    let half = |at: usize| usize::from(u16::from_le_bytes(file[at..at + 2].try_into().unwrap()));
    let headers = (0..half(56)).map(|index| word(32) + index * half(54));
    let runs = |at: &usize| file[*at] == 1 && file[at + 4] & 1 != 0;
    let at = headers.clone().find(runs).unwrap();
    &file[word(at + 8)..][..word(at + 32)]
}

#[test]
fn an_image_without_a_build_id_is_known_by_its_text() {
    let test = "an_image_without_a_build_id_is_known_by_its_text";
    let folder = folder(test);
    let library = folder.with_extension("so");
    if is_child() {
        compile(WITHOUT_ID, &library);
        let name = std::ffi::CString::new(library.to_str().unwrap()).unwrap();
        // SAFETY: the library has no initialisers.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        // SAFETY: a handle that `dlopen` gave, and a name with its zero.
        let outer = unsafe { libc::dlsym(handle, c"outer".as_ptr()) };
        assert!(!outer.is_null());
        type Back = extern "C" fn(*const Monitor);
        // SAFETY: its prototype in the source above.
        let outer: extern "C" fn(Back, *const Monitor) = unsafe { std::mem::transmute(outer) };
        extern "C" fn back(monitor: *const Monitor) {
            // SAFETY: `outer` passes on what it was given, which lives meanwhile.
            unsafe { &*monitor }.record("within").unwrap();
        }
        let monitor = builder(&folder).install().unwrap();
        println!("ready");
        outer(back, &monitor);
        return;
    }
    let report = reports(test).remove(0);
    let of_library = |image: &&wedjat::report::Image| image.name == library.to_str().unwrap();
    let image = report.images.iter().find(of_library).unwrap();
    assert!(image.id.is_empty());
    let file = std::fs::read(&library).unwrap();
    let text = text_of(&file);
    let mut hash = crc32fast::hash(text).to_be_bytes().to_vec();
    hash.extend((text.len() as u64).to_be_bytes());
    assert_eq!(image.text_hash, Some(hash));
    assert!(report.images.iter().any(|image| !image.id.is_empty()));
    for image in report.images.iter().filter(|image| !image.id.is_empty()) {
        assert_eq!(image.text_hash, None, "{image:?}");
    }

    #[cfg(feature = "symbolicate")]
    {
        use wedjat::symbolicate::{DebugFiles, Symbolicator};
        let named = |files: DebugFiles| {
            let frames = &Symbolicator::new(files).symbolicate(report.clone()).threads[0].frames;
            let all = frames.iter().flat_map(|frame| frame.frames.iter());
            all.filter_map(|frame| frame.function.clone())
                .any(|function| function.contains("outer"))
        };
        let added = |path: &Path| {
            let mut files = DebugFiles::new().system(false);
            files.add(path).unwrap();
            files
        };
        assert!(named(DebugFiles::new()), "at its own path");
        let kept = library.with_extension("kept");
        std::fs::rename(&library, &kept).unwrap();
        assert!(named(added(&kept)), "where it was kept");
        // Another build where it was: its functions are not those that ran.
        compile(&WITHOUT_ID.replace("sum++", "sum += 2"), &library);
        assert!(!named(DebugFiles::new()) && !named(added(&library)));
        std::fs::remove_file(kept).unwrap();
    }
    std::fs::remove_file(library.with_extension("c")).unwrap();
    std::fs::remove_file(library).unwrap();
}

/// The app's callbacks may do what they like: a panic there ends neither the watch nor the process, and
/// the monitor may be dropped by one that runs on a thread of its own.
#[test]
fn callbacks_may_panic_and_may_drop_the_monitor() {
    let test = "callbacks_may_panic_and_may_drop_the_monitor";
    let told = Arc::new(Mutex::new(0));
    if is_child() {
        println!("ready");
        // These panics are meant: a log with them hides those that are not.
        std::panic::set_hook(Box::new(|_| {}));
        let freeze = |monitor: &Monitor| {
            let before = monitor.stats().reports;
            let deadline = Instant::now() + Duration::from_secs(20);
            while monitor.stats().reports == before && Instant::now() < deadline {
                monitor.heartbeat().turn(|| sleep(60 * MS));
            }
        };
        let count = told.clone();
        let monitor = builder(&folder(test))
            .stall(Stall::default().timeout(10 * MS).strikes(3))
            .crash(Crash::default())
            .rate_limit(RateLimit::default().same(100))
            .on_stall(|_| panic!("in on_stall"))
            .on_report(move |_| {
                *count.lock().unwrap() += 1;
                panic!("in on_report")
            });
        let monitor = monitor.install().unwrap();
        freeze(&monitor);
        freeze(&monitor);
        drop(monitor);
        assert!(*told.lock().unwrap() >= 2);

        static KEPT: Mutex<Option<Monitor>> = Mutex::new(None);
        let (dropped, done) = std::sync::mpsc::channel();
        let monitor = builder(&folder(test))
            .stall(Stall::default().timeout(10 * MS).strikes(3))
            .on_report(move |_| {
                drop(KEPT.lock().unwrap().take());
                let _ = dropped.send(());
            });
        let monitor = monitor.install().unwrap();
        let heart = monitor.heartbeat();
        *KEPT.lock().unwrap() = Some(monitor);
        let deadline = Instant::now() + Duration::from_secs(20);
        while done.try_recv().is_err() {
            assert!(Instant::now() < deadline);
            heart.turn(|| sleep(60 * MS));
        }
        drop(builder(&folder(test)).install().unwrap());
        return;
    }
    assert!(reports(test).len() >= 3);
}

/// An app that installs and drops monitors all day long keeps no threads, descriptors or stacks of them.
#[test]
fn a_monitor_that_is_dropped_leaves_next_to_nothing() {
    let test = "a_monitor_that_is_dropped_leaves_next_to_nothing";
    if is_child() {
        println!("ready");
        let count = |what: &str| {
            std::fs::read_dir(format!("/proc/self/{what}"))
                .unwrap()
                .count()
        };
        // Private memory that can be written to, bytes.
        let writable = || {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            let own = maps.lines().filter(|line| line.contains(" rw-p "));
            let size = |line: &str| {
                let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
                let number = |text| u64::from_str_radix(text, 16).unwrap();
                number(end) - number(start)
            };
            own.map(size).sum::<u64>()
        };
        let mut before = None;
        for _ in 0..2 {
            for _ in 0..20 {
                let monitor = builder(&folder(test))
                    .stall(Stall::default())
                    .crash(Crash::default());
                drop(monitor.install().unwrap());
            }
            let now = (count("task"), count("fd"), writable());
            let (tasks, fds, bytes) = *before.get_or_insert(now);
            // The system takes threads off its list a moment after they were joined.
            let deadline = Instant::now() + Duration::from_secs(20);
            while count("task") > tasks && Instant::now() < deadline {
                sleep(MS);
            }
            assert!(count("task") <= tasks && now.1 <= fds, "{now:?} {before:?}");
            assert!(now.2 < bytes + (1 << 20), "{now:?} {before:?}");
        }
        return;
    }
    reports(test);
}
