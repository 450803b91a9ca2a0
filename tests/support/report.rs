//! A report that uses all that the format has, and what it means to be a part of one.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::time::{Duration, SystemTime};

use wedjat::new;
use wedjat::report::*;

/// An `rmpv` map with text keys.
pub fn v(pairs: &[(&str, rmpv::Value)]) -> rmpv::Value {
    rmpv::Value::Map(
        pairs
            .iter()
            .map(|(key, value)| ((*key).into(), value.clone()))
            .collect(),
    )
}

fn extra(n: u64) -> Extra {
    vec![
        (format!("later{n}"), Value::Unsigned(n)),
        (
            "more".to_owned(),
            Value::Array(vec![Value::Nil, Value::Bool(true), Value::Signed(-7)]),
        ),
    ]
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// Every field of every section is set: the test of what is written fails where one is not.
pub fn full_report() -> Report {
    let mut report = Report::default();
    report.head = new!(Head {
        format: Magic::Wedjat,
        version: 1,
        id: *b"0123456789abcdef",
        launch: *b"fedcba9876543210",
        time: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
        clock: Duration::from_nanos(123_456_789),
        app: new!(App {
            name: "MyApp".to_owned(),
            version: "1.2.3".to_owned(),
            extra: extra(1),
        }),
        os: new!(Os {
            name: "Linux".to_owned(),
            version: "6.1.0".to_owned(),
            build: some("#1 SMP"),
            extra: extra(2),
        }),
        device: some("MacBookPro18,3"),
        arch: "x86_64".to_owned(),
        pid: 4711,
        extra: extra(3),
    });
    report.event = Some(new!(Event {
        kind: EventKind::Crash,
        fatal: true,
        reason: some("it broke"),
        signal: Some(new!(Signal {
            number: 11,
            name: "SIGSEGV".to_owned(),
            code: -6,
            code_name: some("SI_TKILL"),
            address: Some(0xdead_beef),
            extra: extra(4),
        })),
        name: some("main"),
        message: some("index out of bounds: \u{1f4a5}"),
        location: some("src/main.rs:3:5"),
        class: Some(StallClass::Blocked),
        thread: Some(193),
        thresholds: Some(new!(Thresholds {
            timeout: Duration::from_millis(50),
            strikes: 5,
            extra: extra(5),
        })),
        watched: Some(new!(Watched {
            name: "tokio".to_owned(),
            number: Some(3),
            pool: Some(16),
            at_rest: Some(13),
            stalled: Some(2),
            extra: extra(7),
        })),
        extra: extra(6),
    }));
    report.threads = (0..3).map(thread).collect();
    report.images = (0..3).map(image).collect();
    report.samples = (0..4).map(sample).collect();
    report.vitals = Some(new!(Vitals {
        cpu: Some(new!(Cpu {
            process: Some(1.5),
            watchdog: Some(0.001),
            device: Some(0.25),
            cores: Some(8),
            extra: extra(7),
        })),
        memory: Some(new!(MemoryUse {
            resident: Some(1 << 20),
            footprint: Some(1 << 21),
            peak: Some(1 << 22),
            device_total: Some(1 << 34),
            device_free: Some(1 << 33),
            extra: extra(8),
        })),
        frame_rate: Some(59.94),
        uptime: Some(Duration::from_millis(1)),
        launch_time: Some(Duration::from_micros(300)),
        launch_kind: some("cold"),
        battery: Some(0.5),
        thermal: some("nominal"),
        low_power: Some(false),
        extra: extra(9),
    }));
    report.context = Some(new!(AppContext {
        keys: vec![
            ("screen".to_owned(), Value::Text("Checkout".to_owned())),
            ("count".to_owned(), Value::Float(0.5)),
            ("blob".to_owned(), Value::Bytes(vec![0x92, 0xa4, 0xc1])),
        ],
        breadcrumbs: vec![
            (Duration::from_nanos(1), "started".to_owned()),
            (Duration::from_nanos(2), "tapped".to_owned()),
        ],
        gauges: vec![("queue".to_owned(), 3.0)],
        marks: vec![
            (
                "load".to_owned(),
                Duration::from_nanos(5),
                Some(Duration::from_nanos(7)),
            ),
            ("open".to_owned(), Duration::from_nanos(9), None),
        ],
        extra: extra(10),
    }));
    report.memory = vec![new!(NearMemory {
        of: "rdi".to_owned(),
        at: 0x7ffd_0000_1000,
        bytes: vec![0, 1, 2, 0xff],
        text: Some("order 66".to_owned()),
        extra: extra(14),
    })];
    report.stall_end = Some(new!(StallEnd {
        duration: Duration::from_millis(400),
        at_least: true,
        how: StallOutcome::Recovered,
        class: Some(StallClass::Blocked),
        reason: Some("deadlock: thread 7 waits for itself".to_owned()),
        extra: extra(11),
    }));
    report.capture = Some(new!(Capture {
        stopped: Some(Duration::from_nanos(9_000)),
        unwind: Some(Duration::from_nanos(12_000)),
        bytes: Some(20_480),
        samples: Some(4),
        cut: Some(CutReason::Limit),
        unanswered: Some(1),
        extra: extra(12),
    }));
    report.loss = Some(new!(Loss {
        counts: vec![("quota".to_owned(), 3), ("late".to_owned(), 1)],
        extra: vec![("why".to_owned(), Value::Text("busy".to_owned()))],
    }));
    report.end = Some(new!(End {
        crc32: 0,
        sections: 0,
        closed_by: "writer".to_owned(),
        extra: extra(13),
    }));
    report.unknown = vec![(
        "future".to_owned(),
        Value::Map(vec![(
            Value::Unsigned(1),
            Value::Extension(3, vec![1, 2, 3]),
        )]),
    )];
    report
}

fn thread(n: u64) -> Thread {
    new!(Thread {
        id: 100 + n,
        name: Some(format!("worker {n}")),
        main: n == 0,
        crashed: n == 1,
        state: Some(ThreadState::Running),
        syscall: some("futex"),
        cpu: Some(Duration::from_nanos(55)),
        registers: vec![
            ("rip".to_owned(), u64::MAX),
            ("rsp".to_owned(), 0x7fff_0000),
        ],
        frames: (0..4).map(frame).collect(),
        end: Some(WalkEnd::Root),
        tasks: chains(n),
        omitted: (n == 2).then_some(new!(Omitted { at: 2, count: 1000 })),
        extra: extra(20 + n),
    })
}

fn frame(n: u64) -> Frame {
    let found = [
        Found::Context,
        Found::UnwindInfo,
        Found::FramePointer,
        Found::LeafReturnAddress,
    ];
    new!(Frame {
        pc: 0x1_0000_0000 * (1 + n) + 0x234,
        found: found[n as usize % 4],
        // The last lies in no image.
        image: (n < 3).then_some(n as u32),
        name: (n == 1).then(|| "symbol".to_owned()),
    })
}

fn image(n: u64) -> Image {
    new!(Image {
        name: format!("/usr/lib/libimage{n}.so"),
        id: vec![n as u8; 20],
        base: 0x1_0000_0000 * (1 + n),
        base_svma: 0x4000,
        size: 0x8000,
        arch: some("x86_64"),
        text_hash: Some(vec![9; 8]),
        extra: extra(30 + n),
    })
}

fn sample(n: u64) -> Sample {
    new!(Sample {
        at: Duration::from_millis(10 * n),
        state: Some(ThreadState::Blocked),
        count: 1 + n,
        keep: n,
        frames: (0..2).map(frame).collect(),
        tasks: chains(n),
        omitted: (n == 3).then_some(new!(Omitted { at: 0, count: 2 })),
        end: (n == 1).then_some(WalkEnd::Truncated),
        extra: extra(40 + n),
    })
}

/// Asserts that whatever `part` holds is what `whole` holds, and that its lists are in the same order.
///
/// Frames may have lost their image, and have another index for the same image.
pub fn assert_is_part_of(part: &Report, whole: &Report) {
    fn same<T: PartialEq + std::fmt::Debug>(part: &Option<T>, whole: &Option<T>) {
        assert!(
            part.is_none() || part == whole,
            "{part:?}\nis not\n{whole:?}"
        );
    }
    fn sub<T: std::fmt::Debug>(part: &[T], whole: &[T], eq: impl Fn(&T, &T) -> bool) {
        let mut rest = whole.iter();
        for one in part {
            assert!(
                rest.any(|other| eq(one, other)),
                "{one:?}\nis not in its place in\n{whole:?}"
            );
        }
    }
    let name = |report: &Report, frame: &Frame| {
        report
            .images
            .get(frame.image? as usize)
            .map(|image| image.name.clone())
    };
    let frames = |a: &[Frame], b: &[Frame]| {
        a.len() == b.len()
            && a.iter().zip(b).all(|(a, b)| {
                let (image_a, image_b) = (name(part, a), name(whole, b));
                (&a.pc, &a.found, &a.name) == (&b.pc, &b.found, &b.name)
                    && (image_a.is_none() || image_a == image_b)
            })
    };
    assert!(
        part.head == Head::default() || part.head == whole.head,
        "{:?}",
        part.head
    );
    same(&part.event, &whole.event);
    same(&part.vitals, &whole.vitals);
    same(&part.context, &whole.context);
    same(&part.stall_end, &whole.stall_end);
    same(&part.capture, &whole.capture);
    same(&part.loss, &whole.loss);
    same(&part.end, &whole.end);
    sub(&part.unknown, &whole.unknown, |a, b| a == b);
    sub(&part.memory, &whole.memory, |a, b| a == b);
    sub(&part.images, &whole.images, |a, b| a == b);
    sub(&part.threads, &whole.threads, |a, b| {
        frames(&a.frames, &b.frames)
            && new!(Thread {
                frames: b.frames.clone(),
                ..a.clone()
            }) == *b
    });
    sub(&part.samples, &whole.samples, |a, b| {
        frames(&a.frames, &b.frames)
            && new!(Sample {
                frames: b.frames.clone(),
                ..a.clone()
            }) == *b
    });
}

/// What is in a report as [`stall_report`] writes it.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Images; frames lie in the first 40 of them.
    pub images: u32,
    /// Threads, the watched one included, each with 20 frames but the watched one, which has 40.
    pub threads: u64,
    /// Samples of 40 frames.
    pub samples: u64,
    /// How many of a sample's frames are those of the sample before.
    pub kept: u64,
}

impl Shape {
    /// A real app's: 300 images of which 40 in its frames, 20 threads, 40 samples of 40 frames, each of
    /// them wholly different from the one before.
    pub const APP: Shape = Shape {
        images: 40,
        threads: 20,
        samples: 40,
        kept: 0,
    };
    /// The same with all images.
    pub const ALL_IMAGES: Shape = Shape {
        images: 300,
        ..Shape::APP
    };
    /// The same where samples share 30 of 40 frames with the one before, as they mostly do.
    pub const ALIKE: Shape = Shape {
        kept: 30,
        ..Shape::APP
    };
}

/// Lengths of the sections of a report, by kind, in the order of the file.
pub type Lengths = Vec<(&'static str, u64)>;

/// A stall's report as the recorder writes it, with paths, addresses and names as long as real ones.
pub fn stall_report(shape: Shape) -> (Vec<u8>, Lengths) {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        // xorshift64: the same report each time
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let base = |image: u32| 0x7f2a_4000_0000 + 0x40_0000 * u64::from(image);
    let mut frames = |count: u64| -> Vec<RawFrame> {
        (0..count)
            .map(|index| {
                let image = (next() % 40) as u32;
                let found = if index == 0 {
                    Found::Context
                } else {
                    Found::UnwindInfo
                };
                new!(RawFrame {
                    pc: base(image) + next() % 0x3f_ffff,
                    found,
                    image,
                })
            })
            .collect()
    };
    let registers: Vec<(&str, u64)> = [
        "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12",
        "r13", "r14", "r15", "rip", "rflags",
    ]
    .into_iter()
    .map(|name| (name, 0x7ffd_1234_5678))
    .collect();

    let mut buffer = vec![0; 64 << 10];
    let mut bytes: Vec<u8> = Vec::new();
    let mut lengths = Lengths::new();
    let mut writer = ReportWriter::new(&mut buffer, &mut bytes);
    macro_rules! write {
        ($kind:ident, $section:expr) => {{
            let before = writer.bytes();
            writer.section($section).unwrap();
            lengths.push((stringify!($kind), writer.bytes() - before));
        }};
    }
    let head = HeadView {
        id: *b"0123456789abcdef",
        launch: *b"fedcba9876543210",
        time: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
        clock: Duration::from_nanos(123_456_789_000),
        app: AppView {
            name: "org.example.Application",
            version: "12.34.5 (6789)",
        },
        os: OsView {
            name: "Linux",
            version: "6.1.0-18-amd64",
            build: Some("#1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1 (2024-02-01)"),
        },
        device: Some("Standard PC (i440FX + PIIX, 1996)"),
        arch: "x86_64",
        pid: 471_100,
        ..HeadView::default()
    };
    write!(head, &head);
    let event = EventView {
        kind: EventKind::Stall,
        class: Some(StallClass::Busy),
        reason: Some("the main thread did not come round for 250 ms"),
        thresholds: Some(ThresholdsView {
            timeout: Duration::from_millis(50),
            strikes: 5,
        }),
        ..Default::default()
    };
    write!(event, &event);
    let main = frames(40);
    let watched = ThreadView {
        id: 471_100,
        name: Some("main"),
        main: true,
        state: Some(ThreadState::Running),
        cpu: Some(Duration::from_nanos(3_456_789_012)),
        registers: &registers,
        frames: &main,
        end: Some(WalkEnd::Root),
        ..Default::default()
    };
    write!(thread, &watched);
    for image in 0..shape.images {
        let name = format!(
            "/usr/lib/x86_64-linux-gnu/some/sub/folder/liborg-example-part{image:03}.so.1.2.3"
        );
        let id = [image as u8; 20];
        let view = ImageView {
            name: &name,
            id: &id,
            base: base(image),
            base_svma: 0,
            size: 0x3f_e000,
            arch: Some("x86_64"),
            ..Default::default()
        };
        write!(image, &view);
    }
    let vitals = VitalsView {
        cpu: Some(CpuView {
            process: Some(1.03),
            watchdog: Some(0.001),
            device: Some(2.5),
            cores: Some(8),
        }),
        memory: Some(MemoryUseView {
            resident: Some(345 << 20),
            footprint: Some(300 << 20),
            peak: Some(400 << 20),
            device_total: Some(16 << 30),
            device_free: Some(7 << 30),
        }),
        uptime: Some(Duration::from_nanos(123_456_789_012)),
        ..Default::default()
    };
    write!(vitals, &vitals);
    for index in 0..shape.samples {
        let keep = if index == 0 { 0 } else { shape.kept };
        let view = SampleView {
            at: Duration::from_millis(250 + index * 10),
            state: Some(ThreadState::Running),
            count: 1,
            keep,
            frames: &frames(40 - keep),
            ..Default::default()
        };
        write!(sample, &view);
    }
    for index in 1..shape.threads {
        let name = format!("worker-{index}");
        let view = ThreadView {
            id: 471_100 + index,
            name: Some(&name),
            state: Some(ThreadState::Blocked),
            syscall: Some("futex"),
            cpu: Some(Duration::from_nanos(1_234_567_890)),
            frames: &frames(20),
            end: Some(WalkEnd::Root),
            ..Default::default()
        };
        write!(thread, &view);
    }
    let capture = CaptureView {
        stopped: Some(Duration::from_nanos(9_123)),
        unwind: Some(Duration::from_nanos(12_345)),
        bytes: Some(20_480),
        samples: Some(shape.samples),
        ..Default::default()
    };
    write!(capture, &capture);
    write!(
        stall_end,
        &StallEndView {
            duration: Duration::from_nanos(400_123_456),
            how: StallOutcome::Recovered,
            class: Some(StallClass::Blocked),
            ..StallEndView::default()
        }
    );
    writer.finish(ClosedBy::Writer).unwrap();
    let rest = bytes.len() as u64 - lengths.iter().map(|(_, length)| length).sum::<u64>();
    lengths.push(("end", rest));
    (bytes, lengths)
}

/// The async callers of a frame's function; one chain without any.
fn chains(n: u64) -> Vec<AsyncChain> {
    let chain = |frame, callers: &[u64], end| {
        new!(AsyncChain {
            frame,
            callers: callers.to_vec(),
            end,
        })
    };
    match n {
        1 => vec![
            chain(0, &[0x5000_0000, 0x5000_0100 + n], AsyncEnd::Root),
            chain(1, &[], AsyncEnd::Unknown),
        ],
        _ => Vec::new(),
    }
}
