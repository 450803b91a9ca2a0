//! What formats made for people show of a report: all that it holds, and whom it blames.

use std::time::Duration;

use serde_json::Value as Json;
use wedjat::new;
use wedjat::report::{
    AppContext, Capture, Cpu, End, Event, EventKind, Found, Frame, Image, Loss, MemoryUse, Report,
    Sample, StallEnd, StallOutcome, Thread, Thresholds, Value, Vitals,
};
use wedjat::symbolicate::format::{Firefox, Format, Html, Style, Text, Top, TopLayout};
use wedjat::symbolicate::{DebugFiles, Symbolicated, Symbolicator};

fn text_of<F: Format>(mut format: F, style: &Style, report: &Symbolicated) -> String {
    let mut out = Vec::new();
    format
        .report(style, "some.wedjat", report, &mut out)
        .unwrap();
    format.finish(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn named(report: Report) -> Symbolicated {
    Symbolicator::new(DebugFiles::new()).symbolicate(report)
}

const MS: Duration = Duration::from_millis(1);

/// A stall of 406 ms with eight samples, found after 250 ms, of an app that says all that an app can say.
fn full() -> Report {
    let mut report = Report::default();
    report.head.app.name = "till".into();
    report.head.app.version = "1.0".into();
    report.head.clock = MS * 10_000;
    report.event = Some(new!(Event {
        kind: EventKind::Stall,
        thresholds: Some(new!(Thresholds {
            timeout: MS * 50,
            strikes: 5,
        })),
    }));
    report.images.push(new!(Image {
        name: "/opt/till/till".into(),
        base: 0x1000,
        size: 0x1000,
    }));
    let frames = |names: &[&str]| -> Vec<Frame> {
        let frames = names.iter().zip(1..).map(|(name, at)| {
            new!(Frame {
                pc: 0x1000 + at,
                image: Some(0),
                name: Some((*name).to_owned()),
            })
        });
        frames.collect()
    };
    report.threads.push(new!(Thread {
        main: true,
        frames: frames(&["till::parse", "till::load", "till::main"]),
    }));
    for at in [52, 103, 154, 205, 256, 307, 352, 400] {
        report.samples.push(new!(Sample {
            at: MS * at,
            count: 1,
            frames: frames(&["till::parse", "till::load", "till::main"]),
        }));
    }
    report.vitals = Some(new!(Vitals {
        cpu: Some(new!(Cpu {
            process: Some(0.5),
            device: Some(2.0),
            cores: Some(2),
        })),
        memory: Some(new!(MemoryUse {
            resident: Some(3 << 20),
        })),
        frame_rate: Some(58.26),
        uptime: Some(MS * 90_000),
        launch_time: Some(MS * 1_200),
        launch_kind: Some("cold".into()),
    }));
    report.context = Some(new!(AppContext {
        keys: vec![
            ("screen".into(), Value::Text("Checkout".into())),
            ("a first".into(), Value::Unsigned(3)),
        ],
        breadcrumbs: vec![(MS * 9_900, "tapped Buy".into())],
        gauges: vec![("queue".into(), 3.5)],
        marks: vec![
            ("GET /prices".into(), MS * 9_800, Some(MS * 120)),
            ("page Checkout".into(), MS * 9_000, None),
        ],
    }));
    report.stall_end = Some(new!(StallEnd {
        duration: MS * 406,
        how: StallOutcome::Recovered,
    }));
    report.capture = Some(new!(Capture {
        stopped: Some(Duration::from_micros(70)),
    }));
    report.loss = Some(new!(Loss {
        counts: vec![("quota".into(), 2)],
    }));
    report
}

/// The same stall, in the program of `testdata/macho`, whose functions, lines and inlined chains are known: what
/// `suites/readers/run browser` draws.
fn pictured() -> Report {
    let mut report = full();
    report.head.id = *b"0123456789abcdef";
    report.head.time = std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    report.head.app.name = "kiosk".into();
    report.head.os.name = "macOS".into();
    report.head.os.version = "14.4".into();
    report.head.device = Some("Mac14,2".into());
    report.head.arch = "arm64".into();
    let image = |name: &str, id: &[u8], base, size| {
        new!(Image {
            name: name.into(),
            id: id.into(),
            base,
            base_svma: base,
            size,
            arch: Some("arm64".into()),
        })
    };
    let uuid = 0x4C4C_44E2_5555_3144_A15D_8DB1_B87D_BB83_u128;
    report.images = vec![
        image(
            "/Applications/Kiosk.app/kiosk",
            &uuid.to_be_bytes(),
            0x1_0000_0000,
            0x8000,
        ),
        image("/usr/lib/dyld", &[7; 16], 0x1_a000_0000, 0x8_0000),
    ];
    // Innermost first: counts beans (twelve functions of Rust's library inlined), adds taxes, cracks beans.
    let (counts, adds, cracks) = (
        &[0x1_0000_0c24, 0x1_0000_0ed0, 0x1_0000_0638][..],
        &[0x1_0000_06b4, 0x1_0000_0610][..],
        &[0x1_0000_0b38, 0x1_0000_0ebc, 0x1_0000_0638][..],
    );
    let frames = |own: &[u64]| -> Vec<Frame> {
        let pcs = own.iter().chain(&[0x1_0000_0580, 0x1_a001_8344]);
        let frames = pcs.enumerate().map(|(at, pc)| {
            new!(Frame {
                pc: *pc,
                found: if at == 0 {
                    Found::Context
                } else {
                    Found::UnwindInfo
                },
                image: Some(u32::from(*pc > 0x1_a000_0000)),
            })
        });
        frames.collect()
    };
    report.threads[0].frames = frames(counts);
    let ways = [adds, counts, counts, cracks, counts, counts, adds, cracks];
    for (sample, way) in report.samples.iter_mut().zip(ways) {
        sample.frames = frames(way);
    }
    report.end = Some(new!(End {
        closed_by: "writer".into(),
    }));
    report
}

/// `WEDJAT_NEW_SAMPLES=1` writes the file anew.
#[test]
fn the_report_that_is_drawn_is_this_one() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/testdata/pictures/stall.wedjat"
    );
    if std::env::var_os("WEDJAT_NEW_SAMPLES").is_some() {
        std::fs::write(file, wedjat::report::to_bytes(&pictured())).unwrap();
    }
    let drawn = wedjat::report::read(&std::fs::read(file).unwrap()).unwrap();
    assert!(drawn.damage.is_empty(), "{:?}", drawn.damage);
    let (drawn, report) = (drawn.report, pictured());
    assert_eq!(drawn.threads, report.threads);
    assert_eq!(drawn.samples, report.samples);
    assert_eq!(drawn.images, report.images);
    assert_eq!(drawn.context, report.context);
    assert_eq!(drawn.vitals, report.vitals);
}

/// What the report holds beside its stacks, in words.
const ALL: [&str; 15] = [
    "1.20 s (cold)",
    "58.3 frames a second",
    "process 50.0 % of a core, device 2.0 of 2 cores busy",
    "resident 3.0 MiB",
    "90.00 s since the process started",
    "screen",
    "Checkout",
    "a first",
    "tapped Buy",
    "queue",
    "3.5",
    "GET /prices",
    "lasted 120 ms",
    "page Checkout",
    "not over",
];

#[test]
fn text_and_pages_show_all_of_a_report_in_the_order_of_the_app() {
    let mut report = full();
    report.vitals.get_or_insert_default().battery = Some(0.42);
    let report = named(report);
    for page in [
        text_of(Text::default(), &Style::default(), &report),
        text_of(Html::default(), &Style::default(), &report),
    ] {
        for part in ALL.into_iter().chain([
            "42 %",
            "thread stopped for 70 µs",
            "2 by quota",
            "200 ms before",
        ]) {
            assert!(page.contains(part), "{part} is missing in {page}");
        }
        assert!(page.find("screen").unwrap() < page.find("a first").unwrap());
    }
}

/// Frames behind code without unwind information, as the recorder marks them; those of an imported report, of which
/// nothing is known, have no mark.
#[test]
fn guesses_are_marked() {
    let mut report = full();
    report.samples.clear();
    let found = [
        Found::Context,
        Found::FramePointer,
        Found::LeafReturnAddress,
    ];
    for (frame, found) in report.threads[0].frames.iter_mut().zip(found) {
        frame.found = found;
    }
    let marks = |report: &Report| {
        let report = named(report.clone());
        let text = text_of(Text::default(), &Style::default(), &report);
        let page = text_of(Html::default(), &Style::default(), &report);
        let lines = text.lines().filter(|line| line.ends_with(" [guess]"));
        let names = lines.map(|line| line.split_whitespace().nth(3).unwrap().to_owned());
        (
            names.collect::<Vec<_>>(),
            page.matches("guess</span>").count(),
        )
    };
    let guesses = vec!["till::load".to_owned(), "till::main".to_owned()];
    assert_eq!(marks(&report), (guesses, 2));
    for frame in &mut report.threads[0].frames {
        frame.found = Found::Other(255);
    }
    assert_eq!(marks(&report), (vec![], 0));
}

/// `till::count` calls itself 34 times by one call.
#[test]
fn equal_frames_in_a_row_are_folded() {
    let mut report = full();
    let frame = report.threads[0].frames[0].clone();
    report.samples.clear();
    let innermost = std::iter::repeat_n(frame, 34);
    report.threads[0].frames.splice(..1, innermost);
    let report = named(report);
    let mut verbose = Style::default();
    verbose.verbose = true;
    let text = text_of(Text::default(), &Style::default(), &report);
    let thread = &text[text.find("Thread 0:").unwrap()..];
    assert_eq!(thread.matches("till::parse").count(), 1, "{thread}");
    assert!(thread.contains("(the same 33 times more; --verbose shows them)\n34  till"));
    let text = text_of(Text::default(), &verbose, &report);
    let thread = &text[text.find("Thread 0:").unwrap()..];
    assert_eq!(thread.matches("till::parse").count(), 34);
    let page = text_of(Html::default(), &Style::default(), &report);
    let fold = "<details class=\"fold\"><summary>the same 33 times more</summary>";
    let (_, folded) = page.split_once(fold).unwrap();
    let (folded, rest) = folded.split_once("</details>").unwrap();
    assert_eq!(folded.matches("<div class=\"frame").count(), 33);
    assert!(rest.contains("<i>34</i><b>till::load"));
}

#[test]
fn firefox_profiles_have_markers_at_their_times() {
    let report = named(full());
    let profile: Json =
        serde_json::from_str(&text_of(Firefox::default(), &Style::default(), &report)).unwrap();
    let thread = &profile["threads"][0];
    let markers = &thread["markers"];
    let strings = thread["stringArray"].as_array().unwrap();
    let length = markers["length"].as_u64().unwrap() as usize;
    let mut all = String::new();
    let mut times = Vec::new();
    for at in 0..length {
        let name = strings[markers["name"][at].as_u64().unwrap() as usize]
            .as_str()
            .unwrap();
        all.push_str(&format!(
            "{name}: {}\n",
            markers["data"][at]["name"].as_str().unwrap()
        ));
        times.push((
            name,
            markers["startTime"][at].as_f64(),
            markers["endTime"][at].as_f64(),
            markers["phase"][at].as_u64(),
        ));
    }
    for part in ALL {
        assert!(all.contains(part), "{part} is missing in {all}");
    }
    // The first mark began 750 ms before the stall, which is where the profile begins.
    assert!(
        times.contains(&("page Checkout", Some(0.0), Some(1000.0), Some(1))),
        "{times:?}"
    );
    assert!(
        times.contains(&("GET /prices", Some(800.0), Some(920.0), Some(1))),
        "{times:?}"
    );
    assert!(
        times.contains(&("stall", Some(750.0), Some(1156.0), Some(1))),
        "{times:?}"
    );
    assert!(
        times.contains(&("breadcrumb", Some(900.0), None, Some(0))),
        "{times:?}"
    );
    assert_eq!(thread["samples"]["timeDeltas"][0].as_f64(), Some(802.0));
    for column in ["category", "data", "endTime", "name", "phase", "startTime"] {
        assert_eq!(
            markers[column].as_array().unwrap().len(),
            length,
            "{column}"
        );
    }
}

#[test]
fn the_axis_of_the_samples_is_the_stalls_own() {
    let page = text_of(Html::default(), &Style::default(), &named(full()));
    assert!(page.contains("<small>8 in 406 ms</small>"), "{page}");
    assert!(page.contains("<span>0</span><span>406 ms</span>"));
    // The flame graph of the samples, and the marks below the line of time.
    assert!(page.contains("title=\"till::parse: 8 of 8 samples (100 %)\""));
    assert!(page.contains("class=\"mark\"") && page.contains("class=\"tick\""));
}

#[test]
fn one_is_one() {
    let report = named(full());
    let top = Top::new(10, TopLayout::Text, Style::default());
    let top = text_of(top, &Style::default(), &report);
    assert!(top.starts_with("1 report in 1 group; "), "{top}");
    let mut top = Top::new(10, TopLayout::Json, Style::default());
    let mut out = Vec::new();
    top.report(&Style::default(), "a", &report, &mut out)
        .unwrap();
    top.finish(&mut out).unwrap();
    let top: Json = serde_json::from_slice(&out).unwrap();
    assert_eq!(
        top["top"][0]["group_recipe"],
        wedjat::symbolicate::group::RECIPE
    );
}

#[cfg(target_os = "linux")]
mod blamed {
    use object::{Object, ObjectSegment};

    use super::*;

    #[inline(never)]
    fn counts_the_till(n: usize) -> usize {
        std::hint::black_box(n) + 1
    }

    /// This program, as an image.
    fn image() -> Image {
        let path = std::env::current_exe().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let file = object::File::parse(&bytes[..]).unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let name = path.to_str().unwrap().to_owned();
        let first = maps.lines().find(|line| line.ends_with(&name)).unwrap();
        let base = u64::from_str_radix(first.split('-').next().unwrap(), 16).unwrap();
        let size = file
            .segments()
            .map(|part| part.address() + part.size())
            .max();
        new!(Image {
            name,
            id: file.build_id().unwrap().expect("a build id").to_vec(),
            base,
            size: size.unwrap(),
        })
    }

    /// A report with these functions of this program on its stack, innermost first.
    fn with_stack(kind: EventKind, functions: &[usize]) -> Symbolicated {
        let mut report = Report::default();
        report.head.app.name = "people".into();
        report.event = Some(new!(Event { kind }));
        report.images.push(image());
        let frames = functions.iter().map(|function| {
            new!(Frame {
                pc: *function as u64 + 1,
                found: Found::UnwindInfo,
                image: Some(0),
            })
        });
        report.threads.push(new!(Thread {
            main: true,
            frames: frames.collect(),
        }));
        let mut files = DebugFiles::new();
        files.add(&std::env::current_exe().unwrap()).unwrap();
        Symbolicator::new(files).symbolicate(report)
    }

    fn library() -> usize {
        Vec::<[u16; 3]>::push as fn(&mut Vec<[u16; 3]>, [u16; 3]) as usize
    }

    fn recorder() -> usize {
        wedjat::report::read as fn(&[u8]) -> _ as usize
    }

    fn app() -> usize {
        counts_the_till as fn(usize) -> usize as usize
    }

    #[test]
    fn the_apps_innermost_function_is_blamed_not_its_libraries() {
        let report = with_stack(EventKind::Stall, &[library(), recorder(), app()]);
        let stack = wedjat::symbolicate::group::normalised(&report);
        assert_eq!(
            *stack,
            ["symbolicate::format_people::blamed::counts_the_till"]
                .map(std::sync::Arc::<str>::from)
        );
        let text = text_of(Text::default(), &Style::default(), &report);
        let line = text
            .lines()
            .find(|line| line.starts_with("Frame to Blame:"));
        assert!(
            line.is_some_and(|line| line.contains("counts_the_till (format_people.rs:")),
            "{text}"
        );
        let page = text_of(Html::default(), &Style::default(), &report);
        assert!(
            page.contains(
                "<h1>people: stall in symbolicate::format_people::blamed::counts_the_till (format_people.rs:"
            ),
            "{page}"
        );
        // What is not the app's is there, dimmed.
        assert!(
            page.contains("<div class=\"frame\"><i>0</i><b>") && page.contains("push"),
            "{page}"
        );
        assert!(
            page.contains(
                "<div class=\"frame own\"><i>2</i><b>symbolicate::format_people::blamed::counts_the_till"
            ),
            "{page}"
        );
        let profile: Json =
            serde_json::from_str(&text_of(Firefox::default(), &Style::default(), &report)).unwrap();
        // Outermost first: the app's category, then the other twice.
        assert_eq!(
            profile["threads"][0]["frameTable"]["category"],
            serde_json::json!([1, 0, 0])
        );
    }

    #[test]
    fn a_panic_begins_with_the_app() {
        let report = with_stack(
            EventKind::Panic,
            &[recorder(), recorder(), library(), app()],
        );
        let text = text_of(Text::default(), &Style::default(), &report);
        let from = text.find("Thread 0").unwrap();
        let mut lines = text[from..]
            .lines()
            .skip(1)
            .skip_while(|line| !line.starts_with("    ("));
        assert_eq!(
            lines.next(),
            Some("    (3 frames of the panic's own handling; --verbose shows them)"),
            "{text}"
        );
        let first = lines.next().unwrap();
        assert!(
            first.starts_with("3   ") && first.contains("counts_the_till"),
            "{first}"
        );
        let mut verbose = Style::default();
        verbose.verbose = true;
        let text = text_of(Text::default(), &verbose, &report);
        assert!(text.contains("wedjat::report::"), "{text}");
        let page = text_of(Html::default(), &Style::default(), &report);
        assert!(
            page.contains("<summary>3 frames: the language's library, the recorder</summary>"),
            "{page}"
        );
    }
}
