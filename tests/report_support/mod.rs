//! A report that uses all that the format has, and what it means to be a part of one.
#![allow(dead_code, reason = "each test program uses its own part")]

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

/// Every field of every section is set. Structs are spelled out, so that a field added to the model
/// has to be added here, and with it to the schema and the specification.
pub fn full_report() -> Report {
    let mut report = Report::default();
    report.head = Head {
        version: 1,
        id: *b"0123456789abcdef",
        launch: *b"fedcba9876543210",
        time: 1_700_000_000_000_000_000,
        clock: 123_456_789,
        app: App {
            name: "MyApp".to_owned(),
            version: "1.2.3".to_owned(),
            extra: extra(1),
        },
        os: Os {
            name: "Linux".to_owned(),
            version: "6.1.0".to_owned(),
            build: some("#1 SMP"),
            extra: extra(2),
        },
        device: some("MacBookPro18,3"),
        arch: "x86_64".to_owned(),
        pid: 4711,
        extra: extra(3),
    };
    report.event = Some(Event {
        kind: EventKind::Crash,
        fatal: true,
        reason: some("it broke"),
        signal: Some(Signal {
            number: 11,
            name: "SIGSEGV".to_owned(),
            code: -6,
            code_name: some("SI_TKILL"),
            address: Some(0xdead_beef),
            extra: extra(4),
        }),
        name: some("main"),
        message: some("index out of bounds: \u{1f4a5}"),
        location: some("src/main.rs:3:5"),
        class: some("blocked"),
        thresholds: Some(Thresholds {
            timeout: 50_000_000,
            strikes: 5,
            extra: extra(5),
        }),
        extra: extra(6),
    });
    report.threads = (0..3).map(thread).collect();
    report.images = (0..3).map(image).collect();
    report.samples = (0..4).map(sample).collect();
    report.vitals = Some(Vitals {
        cpu: Some(Cpu {
            process: Some(1.5),
            watchdog: Some(0.001),
            device: Some(0.25),
            cores: Some(8),
            extra: extra(7),
        }),
        memory: Some(Memory {
            resident: Some(1 << 20),
            footprint: Some(1 << 21),
            peak: Some(1 << 22),
            device_total: Some(1 << 34),
            device_free: Some(1 << 33),
            extra: extra(8),
        }),
        frame_rate: Some(59.94),
        uptime: Some(1_000_000),
        launch_time: Some(300_000),
        launch_kind: some("cold"),
        battery: Some(0.5),
        thermal: some("nominal"),
        low_power: Some(false),
        extra: extra(9),
    });
    report.context = Some(Context {
        keys: vec![
            ("screen".to_owned(), Value::Text("Checkout".to_owned())),
            ("count".to_owned(), Value::Float(0.5)),
            ("blob".to_owned(), Value::Bytes(vec![0x92, 0xa4, 0xc1])),
        ],
        breadcrumbs: vec![(1, "started".to_owned()), (2, "tapped".to_owned())],
        gauges: vec![("queue".to_owned(), 3.0)],
        marks: vec![
            ("load".to_owned(), 5, Some(7)),
            ("open".to_owned(), 9, None),
        ],
        extra: extra(10),
    });
    report.stall_end = Some(StallEnd {
        duration: 400_000_000,
        how: "recovered".to_owned(),
        extra: extra(11),
    });
    report.capture = Some(Capture {
        stopped: Some(9_000),
        unwind: Some(12_000),
        bytes: Some(20_480),
        samples: Some(4),
        cut: Some(Value::Text("budget".to_owned())),
        unanswered: Some(1),
        extra: extra(12),
    });
    report.loss = Some(Loss {
        counts: vec![("quota".to_owned(), 3), ("late".to_owned(), 1)],
        extra: vec![("why".to_owned(), Value::Text("busy".to_owned()))],
    });
    report.end = Some(End {
        crc32: 0,
        sections: 0,
        closed_by: "writer".to_owned(),
        extra: extra(13),
    });
    report.unknown = vec![(
        "future".to_owned(),
        Value::Map(vec![(
            Value::Unsigned(1),
            Value::Extension(-3, vec![1, 2, 3]),
        )]),
    )];
    report
}

fn thread(n: u64) -> Thread {
    Thread {
        id: 100 + n,
        name: Some(format!("worker {n}")),
        main: n == 0,
        crashed: n == 1,
        state: some("running"),
        syscall: some("futex"),
        cpu: Some(55),
        registers: vec![
            ("rip".to_owned(), u64::MAX),
            ("rsp".to_owned(), 0x7fff_0000),
        ],
        frames: (0..4).map(frame).collect(),
        end: Some(WalkEnd::Root),
        omitted: (n == 2).then_some(Omitted { at: 2, count: 1000 }),
        extra: extra(20 + n),
    }
}

fn frame(n: u64) -> Frame {
    let found = [
        Found::Context,
        Found::UnwindInfo,
        Found::FramePointer,
        Found::LinkRegister,
    ];
    Frame {
        pc: 0x1_0000_0000 * (1 + n) + 0x234,
        found: found[n as usize % 4],
        // The last lies in no image.
        image: (n < 3).then_some(n as u32),
        name: (n == 1).then(|| "symbol".to_owned()),
    }
}

fn image(n: u64) -> Image {
    Image {
        name: format!("/usr/lib/libimage{n}.so"),
        id: vec![n as u8; 20],
        base: 0x1_0000_0000 * (1 + n),
        stated: 0x4000,
        size: 0x8000,
        arch: some("x86_64"),
        text_hash: Some(vec![9; 8]),
        extra: extra(30 + n),
    }
}

fn sample(n: u64) -> Sample {
    Sample {
        at: n * 10_000_000,
        state: some("blocked"),
        count: 1 + n,
        keep: n,
        frames: (0..2).map(frame).collect(),
        omitted: (n == 3).then_some(Omitted { at: 0, count: 2 }),
        extra: extra(40 + n),
    }
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
    sub(&part.images, &whole.images, |a, b| a == b);
    sub(&part.threads, &whole.threads, |a, b| {
        frames(&a.frames, &b.frames)
            && Thread {
                frames: b.frames.clone(),
                ..a.clone()
            } == *b
    });
    sub(&part.samples, &whole.samples, |a, b| {
        frames(&a.frames, &b.frames)
            && Sample {
                frames: b.frames.clone(),
                ..a.clone()
            } == *b
    });
}
