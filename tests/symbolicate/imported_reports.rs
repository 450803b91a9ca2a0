//! Reports in other recorders' layouts, down to function, file and line (`testdata/foreign`).

use std::time::{Duration, SystemTime};

use std::path::{Path, PathBuf};
use std::process::Command;

use wedjat::report::{EventKind, Reading, Report, Thread, ThreadState};
use wedjat::symbolicate::group::{self, Member};
use wedjat::symbolicate::import::{self, Layout};
use wedjat::symbolicate::{DebugFiles, Symbolicated, Symbolicator};

fn since_epoch(report: &Report) -> Duration {
    let since = report.head.time.duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap()
}

fn testdata(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(path)
}

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(testdata("foreign").join(name)).unwrap()
}

fn symbolicated(name: &str) -> Vec<Symbolicated> {
    symbolicated_readings(import::read(&bytes(name)).unwrap())
}

fn symbolicated_readings(readings: Vec<Reading>) -> Vec<Symbolicated> {
    let mut files = DebugFiles::new().no_search();
    files.add(&testdata("macho/arm64/kiosk.dSYM")).unwrap();
    let symbolicator = Symbolicator::new(files);
    readings
        .into_iter()
        .map(|reading| symbolicator.symbolicate_reading(reading))
        .collect()
}

/// `function file:line`, innermost first.
fn lines(report: &Symbolicated, thread: usize) -> Vec<String> {
    let frames = report.threads[thread].frames.iter();
    frames
        .flat_map(|physical| physical.frames.iter())
        .map(|frame| {
            let function = frame.function.as_deref().unwrap_or("?");
            match (frame.file.as_deref(), frame.line) {
                (Some(file), Some(line)) => format!("{function} {file}:{line}"),
                _ => function.to_owned(),
            }
        })
        .collect()
}

/// The lines that `llvm-dwarfdump` gives for 0x100000554 and for the call before 0x10000055c
/// (`testdata/macho/golden/arm64.ndjson`).
const STORY: [&str; 2] = ["kiosk_fault /fixture/kiosk.c:7", "main /fixture/kiosk.c:26"];

const CRASHES: [(&str, Layout); 7] = [
    ("crash.ips", Layout::Ips),
    ("crash.crash", Layout::CrashText),
    ("metrickit-offset.json", Layout::MetricKit),
    ("metrickit-address.json", Layout::MetricKit),
    ("kscrash.json", Layout::KsCrash),
    ("event.json", Layout::Event),
    ("crash.plcrash", Layout::PlCrash),
];

#[test]
fn every_layout_reads_as_the_same_report() {
    for (name, layout) in CRASHES {
        assert_eq!(import::detect(&bytes(name)), Some(layout), "{name}");
        let found = &symbolicated(name)[0];
        assert_eq!(found.damage, [""; 0], "{name}");
        let report = &found.report;
        let crashed = report.threads.iter().position(|t| t.crashed).unwrap();
        assert_eq!(crashed, 1, "{name}");
        assert_eq!(lines(found, crashed)[..2], STORY, "{name}");
        assert_eq!(report.threads[crashed].frames.len(), 3, "{name}");
        assert_eq!(report.head.app.name, "kiosk", "{name}");
        assert_eq!(report.head.app.version, "2.1 (77)", "{name}");
        assert_eq!(report.head.os.version, "17.4", "{name}");
        assert_eq!(report.head.os.build.as_deref(), Some("21E219"), "{name}");
        assert_eq!(report.head.device.as_deref(), Some("iPhone15,2"), "{name}");
        assert_eq!(report.head.arch, "arm64", "{name}");
        assert_eq!(since_epoch(report).as_secs(), 1_714_557_600, "{name}");
        let event = report.event.as_ref().unwrap();
        assert_eq!(
            (event.kind, event.fatal),
            (EventKind::Crash, true),
            "{name}"
        );
        let signal = event.signal.as_ref().unwrap();
        assert_eq!(
            (signal.number, signal.name.as_str()),
            (11, "SIGSEGV"),
            "{name}"
        );
        if layout != Layout::Event {
            assert_eq!(signal.address, Some(16), "{name}");
        }
        if layout != Layout::MetricKit {
            assert_eq!(report.head.id[..2], [0x11, 0x11], "{name}");
            let registers = &report.threads[crashed].registers;
            assert!(registers.contains(&("pc".into(), 0x104c3c554)), "{name}");
        }
    }
}

#[test]
fn a_hang_has_its_duration_and_its_samples() {
    for name in ["metrickit-offset.json", "metrickit-address.json"] {
        let hang = &symbolicated(name)[1];
        let report = &hang.report;
        assert_eq!(report.event.as_ref().unwrap().kind, EventKind::Stall);
        assert_eq!(
            report.stall_end.as_ref().unwrap().duration,
            Duration::from_secs(20)
        );
        assert_eq!(report.samples[0].count, 20);
        assert!(report.threads[0].main);
        assert_eq!(lines(hang, 0)[..2], STORY, "{name}");
    }
    let dead = &symbolicated("kscrash-deadlock.json")[0];
    assert_eq!(dead.report.event.as_ref().unwrap().kind, EventKind::Stall);
}

#[test]
fn hangs_and_spins_have_their_stacks_and_samples() {
    for name in ["hang.spin", "hang-text.ips", "hang.ips"] {
        let layout = match name {
            "hang.spin" => Layout::Spindump,
            _ => Layout::Ips,
        };
        assert_eq!(import::detect(&bytes(name)), Some(layout), "{name}");
        let found = symbolicated(name);
        assert_eq!(found.len(), 1, "{name}");
        let found = &found[0];
        assert_eq!(found.damage, [""; 0], "{name}");
        let report = &found.report;
        let event = report.event.as_ref().unwrap();
        assert_eq!(
            (event.kind, event.fatal),
            (EventKind::Stall, false),
            "{name}"
        );
        assert_eq!(
            report.stall_end.as_ref().unwrap().duration,
            Duration::from_millis(4_200),
            "{name}"
        );
        assert_eq!(
            (report.head.app.name.as_str(), report.head.pid),
            ("kiosk", 77),
            "{name}"
        );
        assert_eq!(report.head.app.version, "2.1 (77)", "{name}");
        let time = Duration::from_millis(1_714_557_600_250);
        assert_eq!(since_epoch(report), time, "{name}");
        assert_eq!(report.threads.len(), 2, "{name}");
        assert!(report.threads[0].main && !report.threads[1].main, "{name}");
        assert_eq!(
            report.threads[1].name.as_deref(),
            Some("com.example.worker")
        );
        assert_eq!(report.threads[0].frames.len(), 3, "{name}");
        assert_eq!(lines(found, 0)[..2], STORY, "{name}");
        let kept = format!("{:?}", report.unknown);
        assert!(
            kept.contains("new this year") || kept.contains("somethingNew"),
            "{name}: {kept}"
        );
        if name != "hang.ips" {
            let samples: Vec<(Duration, u64, u64)> = report
                .samples
                .iter()
                .map(|s| (s.at, s.count, s.frames[0].pc))
                .collect();
            assert_eq!(
                samples,
                [
                    (Duration::ZERO, 15, 0x104c3c554),
                    (Duration::from_millis(1_500), 5, 0x104c3c558)
                ],
                "{name}"
            );
            assert_eq!(report.head.os.build.as_deref(), Some("23E214"));
        }
    }
}

#[test]
fn deep_stacks_and_branching_trees_keep_their_order() {
    let found = symbolicated("metrickit-deep.json");
    assert_eq!(found[0].report.threads[0].frames.len(), 400);
    assert_eq!(lines(&found[0], 0)[..2], STORY);
    assert_eq!(
        found[0].report.stall_end.as_ref().unwrap().duration,
        Duration::from_millis(1_500)
    );
    // 10 samples in `start`: 7 in `main`, 6 of them in `kiosk_fault`; 3 elsewhere.
    let tree = &found[1].report;
    assert_eq!(tree.event.as_ref().unwrap().kind, EventKind::Cpu);
    let mut counts: Vec<(u64, usize)> = tree
        .samples
        .iter()
        .map(|s| (s.count, s.frames.len()))
        .collect();
    counts.sort_unstable();
    assert_eq!(counts, [(1, 2), (3, 2), (6, 3)]);
    assert_eq!(lines(&found[1], 0)[..2], STORY);
}

#[test]
fn an_uncaught_exception_has_the_stack_that_threw_it() {
    let found = &symbolicated("exception.ips")[0];
    let event = found.report.event.as_ref().unwrap();
    assert_eq!(event.kind, EventKind::Exception);
    assert_eq!(
        event.message.as_deref(),
        Some("*** Terminating app due to uncaught exception")
    );
    let last = found.report.threads.len() - 1;
    assert_eq!(
        found.report.threads[last].name.as_deref(),
        Some(Thread::LAST_EXCEPTION)
    );
    // Return addresses all: the first, too, is looked up before itself.
    assert_eq!(lines(found, last)[0], STORY[1]);
}

/// A stall that is over when its recorder tells of it has not ended the launch, whether or not it says how long it took.
#[test]
fn a_stall_that_does_not_say_how_long_it_took_has_not_ended_the_launch() {
    let launch = serde_json::json!({"appLaunchDiagnostics": [{
        "diagnosticMetaData": {"launchDuration": "5 sec"},
        "callStackTree": {"callStacks": [{"callStackRootFrames": [{"address": 4096}]}]},
    }]});
    let event = serde_json::json!({"exception": {"values": [{
        "type": "App Hanging", "mechanism": {"handled": true},
        "stacktrace": {"frames": [{"instruction_addr": "0x1000"}]},
    }]}});
    // KSCrash keeps one that the app survived.
    let mut kscrash: serde_json::Value = serde_json::from_slice(&bytes("kscrash.json")).unwrap();
    kscrash["crash"]["error"] = serde_json::json!({"type": "hang", "hang": {
        "hang_start_nanos": 1_000_000_000, "hang_end_nanos": 6_000_000_000_u64, "hang_recovered": true,
    }});
    let hang = String::from_utf8(bytes("hang.ips")).unwrap();
    let (header, body) = hang.split_once('\n').unwrap();
    let mut body: serde_json::Value = serde_json::from_str(body).unwrap();
    body.as_object_mut().unwrap().remove("duration");
    for (text, duration, ending) in [
        (launch.to_string(), 5, "reported"),
        (event.to_string(), 0, "unknown"),
        (kscrash.to_string(), 5, "reported"),
        (format!("{header}\n{body}"), 0, "unknown"),
    ] {
        let reading = import::read(text.as_bytes()).unwrap();
        let found = symbolicated_readings(reading).remove(0);
        let member = Member::new("", &found);
        assert_eq!(member.kind, EventKind::Stall, "{text}");
        assert_eq!((member.ended, member.at_least), (false, false), "{text}");
        assert_eq!(
            (member.duration, member.ending.as_str()),
            (Duration::from_secs(duration), ending)
        );
    }
}

/// KSCrash has the stack of the throw in the thread that crashed, without registers.
#[test]
fn an_exception_of_kscrash_begins_with_a_return_address() {
    for (kind, has_registers, first) in [
        ("mach", true, "main"),
        ("cpp_exception", false, "kiosk_fault"),
        ("nsexception", false, "kiosk_fault"),
        ("user", false, "kiosk_fault"),
        ("user", true, "main"),
    ] {
        let mut report: serde_json::Value = serde_json::from_slice(&bytes("kscrash.json")).unwrap();
        report["crash"]["error"]["type"] = kind.into();
        let thread = &mut report["crash"]["threads"][1];
        let frame = &mut thread["backtrace"]["contents"][0]["instruction_addr"];
        *frame = (frame.as_u64().unwrap() + 4).into();
        if !has_registers {
            thread.as_object_mut().unwrap().remove("registers");
        }
        let reading = import::read(report.to_string().as_bytes()).unwrap();
        let found = symbolicated_readings(reading).remove(0);
        let function = found.threads[1].frames[0].frames[0].function.as_deref();
        assert_eq!(function, Some(first), "{kind} {has_registers}");
    }
}

/// KSCrash 2.6 takes them from libc's `backtrace_async`: frames of the stack, each 1 after the address at which its
/// function resumes, which is where a part of an async function begins.
#[test]
fn async_callers_of_kscrash_are_looked_up_where_they_resume() {
    let resumes = [
        (0x724, "render_receipt"),
        (0x6f0, "discount"),
        (0x658, "till_total"),
    ];
    let mut report: serde_json::Value = serde_json::from_slice(&bytes("kscrash.json")).unwrap();
    let stack = &mut report["crash"]["threads"][1]["backtrace"]["contents"];
    let stack = stack.as_array_mut().unwrap();
    stack.truncate(1);
    for (offset, _) in resumes {
        let mut frame = stack[0].clone();
        let image = frame["object_addr"].as_u64().unwrap();
        frame["instruction_addr"] = (image + offset + 1).into();
        stack.push(frame);
    }
    let reading = import::read(report.to_string().as_bytes()).unwrap();
    let found = symbolicated_readings(reading).remove(0);
    let callers = found.threads[1].frames.iter().skip(1);
    let functions: Vec<_> = callers
        .map(|frame| frame.frames.last().unwrap().function.as_deref().unwrap())
        .collect();
    assert_eq!(functions, resumes.map(|(_, name)| name));
}

#[test]
fn what_is_not_understood_is_kept() {
    let ips = &symbolicated("crash.ips")[0].report;
    let kept = format!("{:?}", ips.unknown);
    assert!(
        kept.contains("somethingNew") && kept.contains("later"),
        "{kept}"
    );
    assert!(format!("{:?}", ips.threads[1].extra).contains("novelty"));
    let text = format!("{:?}", symbolicated("crash.crash")[0].report.unknown);
    assert!(text.contains("new this year"), "{text}");
    let plcrash = format!("{:?}", symbolicated("crash.plcrash")[0].report.unknown);
    assert!(plcrash.contains("of a later version"), "{plcrash}");
    assert!(format!("{:?}", symbolicated("kscrash.json")[0].report.unknown).contains("Checkout"));
}

fn has(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|window| window == what)
}

#[test]
fn any_prefix_is_read_or_refused_and_says_so() {
    for (name, _) in CRASHES {
        let whole = bytes(name);
        let step = (whole.len() / 400).max(1);
        for len in (0..whole.len() - 2).step_by(step) {
            match import::read(&whole[..len]) {
                Ok(readings) => {
                    let damaged = readings.iter().any(|reading| !reading.damage.is_empty());
                    // What is missing at its end can't be known of text, nor of a protocol buffer that
                    // was cut between two parts behind the last required one.
                    let open_ended = name.ends_with(".crash")
                        || (name.ends_with(".plcrash") && has(&whole[..len], b"SEGV_MAPERR"));
                    assert!(damaged || open_ended, "{name} cut at {len} looks whole");
                }
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
}

#[test]
fn changed_bytes_never_make_it_panic() {
    let hangs = ["hang.spin", "hang-text.ips", "hang.ips"];
    for name in CRASHES.map(|(name, _)| name).into_iter().chain(hangs) {
        let whole = bytes(name);
        for at in (0..whole.len()).step_by((whole.len() / 300).max(1)) {
            for flip in [0x01, 0x20, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[at] ^= flip;
                let _ = import::read(&changed);
            }
        }
    }
}

#[test]
fn what_was_read_goes_back_into_a_report_of_our_own() {
    for (name, _) in CRASHES {
        let report = &symbolicated(name)[0].report;
        let again = wedjat::report::read(&wedjat::report::to_bytes(report))
            .unwrap()
            .report;
        assert_eq!(again.threads, report.threads, "{name}");
        assert_eq!(again.images, report.images, "{name}");
    }
}

#[test]
fn the_command_takes_them_with_the_same_exit_codes() {
    let run = |args: &[&std::ffi::OsStr]| {
        Command::new(env!("CARGO_BIN_EXE_symbolicate"))
            .args(args)
            .output()
            .unwrap()
    };
    let debug = testdata("macho/arm64/kiosk.dSYM");
    for (name, _) in CRASHES {
        let file = testdata("foreign").join(name);
        let out = run(&["--debug".as_ref(), debug.as_os_str(), file.as_os_str()]);
        assert_eq!(out.status.code(), Some(0), "{name}");
        let text = String::from_utf8(out.stdout).unwrap();
        assert!(
            text.contains("kiosk_fault") && text.contains("(kiosk.c:7)"),
            "{name}: {text}"
        );
    }
    let folder = testdata("foreign");
    let out = run(&["--format".as_ref(), "ndjson".as_ref(), folder.as_os_str()]);
    assert_eq!(out.status.code(), Some(0));
    assert_eq!(String::from_utf8(out.stdout).unwrap().lines().count(), 16);
    let cut = std::env::temp_dir().join(format!("wedjat-cut-{}.ips", std::process::id()));
    let whole = bytes("crash.ips");
    std::fs::write(&cut, &whole[..whole.len() - 300]).unwrap();
    let out = run(&[cut.as_os_str()]);
    std::fs::remove_file(&cut).unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("can't be read on"));
}

/// Over real reports, whose licences keep them out of the project: `WEDJAT_SAMPLES` names the folder,
/// and `.ci/run` runs this where it has one.
#[test]
#[ignore = "needs the folder of real reports that WEDJAT_SAMPLES names; `.ci/run` runs it"]
fn real_reports() {
    let folder =
        std::env::var("WEDJAT_SAMPLES").expect("WEDJAT_SAMPLES names the folder of samples");
    let folder = Path::new(&folder).join("reports");
    let read = |name: &str| {
        let bytes = std::fs::read(folder.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut readings = import::read(&bytes).unwrap();
        assert_eq!(readings.len(), 1, "{name}");
        assert!(
            readings[0].damage.is_empty(),
            "{name}: {:?}",
            readings[0].damage
        );
        readings.remove(0).report
    };
    // One crash in both of Apple's layouts: their stacks agree.
    let (ips, text) = (read("ios-crash.ips"), read("ios-crash.crash"));
    assert_eq!(ips.threads.len(), text.threads.len());
    for (a, b) in ips.threads.iter().zip(&text.threads) {
        let stack = |thread: &wedjat::report::Thread| -> Vec<(u64, Option<String>)> {
            thread
                .frames
                .iter()
                .map(|f| (f.pc, f.name.clone()))
                .collect()
        };
        assert_eq!(stack(a), stack(b));
        assert_eq!(a.crashed, b.crashed);
    }
    assert_eq!(ips.head.id, text.head.id);
    assert_eq!(ips.head.time, text.head.time);
    let ids = |report: &wedjat::report::Report| -> std::collections::BTreeSet<Vec<u8>> {
        report
            .images
            .iter()
            .map(|image| image.id.clone())
            .filter(|id| !id.is_empty())
            .collect()
    };
    assert_eq!(ids(&ips), ids(&text));
    let frame = &ips.threads[0].frames[2];
    assert_eq!(frame.pc, 0x1022364bc);
    assert!(
        ips.images[frame.image.unwrap() as usize]
            .name
            .ends_with("/iOSCrashingTest")
    );

    let mac = read("macos-crash.txt");
    let signal = mac.event.as_ref().unwrap().signal.as_ref().unwrap();
    assert_eq!(
        (signal.name.as_str(), signal.address),
        ("SIGSEGV", Some(0x88))
    );
    assert_eq!(mac.threads.iter().position(|t| t.crashed), Some(1));
    assert_eq!(mac.threads[0].frames.len(), 14);

    let event = read("kscrash-null-pointer-arm64.json");
    assert_eq!(event.images.len(), 327);
    assert_eq!(event.threads.len(), 11);
    let crashed = event.threads.iter().find(|t| t.crashed).unwrap();
    assert_eq!(crashed.frames.len(), 23);
    assert_eq!(crashed.frames[21].pc, 0x579b0);
}

fn read_json(document: &serde_json::Value) -> Report {
    let mut readings = import::read(document.to_string().as_bytes()).unwrap();
    assert_eq!(readings.len(), 1, "{document}");
    readings.remove(0).report
}

/// An `.ips` of `testdata/foreign`, with fields of its body set.
fn changed_ips(name: &str, set: impl FnOnce(&mut serde_json::Value)) -> Report {
    let text = String::from_utf8(bytes(name)).unwrap();
    let (header, body) = text.split_once('\n').unwrap();
    let mut body: serde_json::Value = serde_json::from_str(body).unwrap();
    set(&mut body);
    let mut readings = import::read(format!("{header}\n{body}").as_bytes()).unwrap();
    readings.remove(0).report
}

#[test]
fn an_objective_c_exception_has_its_name_and_its_message() {
    let metrickit = |key: &str| {
        read_json(&serde_json::json!({"crashDiagnostics": [{
            "diagnosticMetaData": {"exceptionType": 10, "signal": 6, key: {
                "composedMessage": "index 3 beyond bounds", "exceptionName": "NSRangeException",
            }},
            "callStackTree": {"callStacks": [{"callStackRootFrames": [{"address": 4096}]}]},
        }]}))
    };
    let ips = |body: &mut serde_json::Value| {
        body["exceptionReason"] = serde_json::json!({
            "composed_message": "index 3 beyond bounds", "name": "NSRangeException", "class": "NSException",
        });
    };
    for report in [
        metrickit("objectiveCexceptionReason"),
        metrickit("exceptionReason"),
        changed_ips("exception.ips", ips),
        changed_ips("crash.ips", ips),
    ] {
        let event = report.event.unwrap();
        assert_eq!(event.kind, EventKind::Exception);
        assert_eq!(event.name.as_deref(), Some("NSRangeException"));
        assert_eq!(event.message.as_deref(), Some("index 3 beyond bounds"));
    }
}

#[test]
fn the_subtype_of_an_exception_is_kept_with_and_without_a_signal() {
    for (kind, has_signal) in [("EXC_BAD_ACCESS", true), ("EXC_GUARD", false)] {
        let report = changed_ips("crash.ips", |body| {
            body["exception"] = serde_json::json!({"type": kind, "subtype": "GUARD_TYPE_FD"});
        });
        let event = report.event.unwrap();
        assert_eq!(event.signal.is_some(), has_signal, "{kind}");
        let extra = format!("{:?}", event.extra);
        assert!(extra.contains("GUARD_TYPE_FD"), "{kind}: {extra}");
    }
}

#[test]
fn hangs_of_every_name_are_stalls() {
    for (kind, ended) in [
        ("App Hanging", false),
        ("App Hang Fully Blocked", false),
        ("App Hang Non Fully Blocked", false),
        ("Fatal App Hang Fully Blocked", true),
        ("Fatal App Hang Non Fully Blocked", true),
        ("MXHangDiagnostic", false),
    ] {
        let frames = serde_json::json!({"frames": [{"instruction_addr": "0x1000"}]});
        let report = read_json(&serde_json::json!({
            "level": "error",
            "exception": {"values": [{"type": kind, "mechanism": {"type": "AppHang"}, "stacktrace": frames}]},
            "threads": {"values": [{"id": 1, "current": true, "stacktrace": frames}, {"id": 2}]},
        }));
        let event = report.event.as_ref().unwrap();
        assert_eq!(
            (event.kind, event.fatal),
            (EventKind::Stall, ended),
            "{kind}"
        );
        assert_eq!(report.stall_end.is_some(), !ended, "{kind}");
        // The exception's stack is the thread's own.
        assert_eq!(report.threads.len(), 2, "{kind}");
        assert!(!report.threads[0].crashed, "{kind}");
    }
}

#[test]
fn a_captured_error_is_of_the_thread_that_reported_it() {
    let frames = |at: &str| serde_json::json!({"frames": [{"instruction_addr": at}]});
    let event = |exception: serde_json::Value, own: serde_json::Value| {
        let exception = exception
            .as_object()
            .map(|_| serde_json::json!([exception]));
        let reading = serde_json::json!({
            "level": "error", "message": {"formatted": "till is empty"},
            "exception": {"values": exception},
            "threads": {"values": [
                {"id": 1, "main": true, "stacktrace": frames("0x1000")},
                {"id": 2, "current": true, "stacktrace": own},
                {"id": 3, "stacktrace": frames("0x3000")},
            ]},
        });
        let readings = import::read(reading.to_string().as_bytes()).unwrap();
        symbolicated_readings(readings).remove(0)
    };
    let error = |more: serde_json::Value| {
        let mut exception = serde_json::json!({"type": "NSError", "value": "till is empty"});
        let more = more.as_object().unwrap().clone();
        exception.as_object_mut().unwrap().extend(more);
        exception
    };
    let null = serde_json::Value::Null;
    for (exception, own, kind, pc) in [
        (
            error(serde_json::json!({})),
            frames("0x2000"),
            EventKind::Exception,
            0x2000,
        ),
        (
            error(serde_json::json!({"thread_id": 3})),
            frames("0x2000"),
            EventKind::Exception,
            0x3000,
        ),
        // The stack of the exception: of the thread, or of where it was thrown.
        (
            error(serde_json::json!({"stacktrace": frames("0x4000")})),
            null.clone(),
            EventKind::Exception,
            0x4000,
        ),
        (
            error(serde_json::json!({"stacktrace": frames("0x4000")})),
            frames("0x2000"),
            EventKind::Exception,
            0x4000,
        ),
        (null.clone(), frames("0x2000"), EventKind::Other, 0x2000),
    ] {
        let found = event(exception.clone(), own);
        let at = group::thread_in_question(&found.report).unwrap();
        assert_eq!(found.report.threads[at].frames[0].pc, pc, "{exception}");
        let event = found.report.event.as_ref().unwrap();
        assert_eq!((event.kind, event.fatal), (kind, false), "{exception}");
        assert_eq!(event.message.as_deref(), Some("till is empty"));
    }
}

#[test]
fn every_document_of_a_file_is_read() {
    let kscrash = String::from_utf8(bytes("kscrash.json")).unwrap();
    let event = String::from_utf8(bytes("event.json")).unwrap();
    let (kscrash, event) = (kscrash.trim(), event.trim());
    let metrickit = r#"{"crashDiagnostics": [{"callStackTree": {"callStacks": []}}]}"#;
    let ips = String::from_utf8(bytes("crash.ips")).unwrap();
    for (text, count) in [
        (format!("[{kscrash}, {kscrash}]"), 2),
        (format!("[{event},\n{event},{event}]\n"), 3),
        (format!("{kscrash}\n{kscrash}\n"), 2),
        (format!("{event}{event}\r\n{kscrash}"), 3),
        (format!("[{metrickit}, {metrickit}]{metrickit}"), 3),
        (format!("{ips}\n{ips}"), 2),
    ] {
        let readings = import::read(text.as_bytes()).unwrap();
        assert_eq!(readings.len(), count);
        for reading in readings.iter().filter(|_| !text.contains("callStacks")) {
            assert_eq!(reading.damage, [], "{count}");
            assert_eq!(reading.report.threads[1].frames.len(), 3);
        }
    }
    // What is no report behind one, or can't be read, is not passed over in silence.
    for (behind, count, what) in [
        ("{\"a\": 1}", 1, "no report"),
        ("not JSON", 1, "no JSON value"),
        (&event[..event.len() - 40], 2, "it ends here"),
    ] {
        let text = format!("{event}\n{behind}");
        let readings = import::read(text.as_bytes()).unwrap();
        assert_eq!(readings.len(), count, "{what}");
        let damage = &readings[count - 1].damage;
        assert!(
            damage.iter().any(|d| d.message.contains(what)),
            "{damage:?}"
        );
        assert!(damage[0].offset > event.len() as u64, "{damage:?}");
    }
    // Below an `.ips` may be the rest of a page, or a report in text.
    let crash = String::from_utf8(bytes("crash.crash")).unwrap();
    for (below, count) in [
        ("</details>".to_owned(), 1),
        (format!("I see this, too:\n\n{crash}"), 2),
        (format!("and\n{ips}\n-- \nBob"), 2),
    ] {
        for above in ["", "Hello,\n"] {
            let text = format!("{above}{ips}\n{below}");
            let readings = import::read(text.as_bytes()).unwrap();
            assert_eq!(readings.len(), count, "{above}{below}");
            for reading in readings {
                assert_eq!(reading.damage, [], "{above}{below}");
            }
        }
    }
    // There are bounds of both.
    let many = "{\"crash\":{},\"report\":0}\n".repeat(70_000);
    let array = format!("[{}0]", many.replace('\n', ","));
    let odd = format!("{event}{}", "{}".repeat(70_000));
    for (text, count, what) in [
        (many, 1 << 16, "no more than 65536 reports"),
        (array, 1 << 16, "no more than 65536 reports"),
        (odd, 1, "no report"),
    ] {
        let readings = import::read(text.as_bytes()).unwrap();
        assert_eq!(readings.len(), count);
        let damage = &readings[count - 1].damage;
        assert!(damage.last().unwrap().message.contains(what));
        assert!(damage.len() <= 256);
    }
}

/// Later versions of KSCrash have the stack of the handler in the thread that crashed.
#[test]
fn the_stack_of_the_throw_is_read_of_kscrash() {
    let mut document: serde_json::Value = serde_json::from_slice(&bytes("kscrash.json")).unwrap();
    let crash = &mut document["crash"];
    crash["error"] =
        serde_json::json!({"type": "nsexception", "nsexception": {"name": "NSRangeException"}});
    let thrown = crash["threads"][1]["backtrace"].clone();
    crash["last_exception_backtrace"] = thrown;
    crash["threads"][1]["backtrace"]["contents"] = serde_json::json!([{"instruction_addr": 4096}]);
    let readings = import::read(document.to_string().as_bytes()).unwrap();
    let found = symbolicated_readings(readings).remove(0);
    let at = group::thread_in_question(&found.report).unwrap();
    assert_eq!(
        found.report.threads[at].name.as_deref(),
        Some(Thread::LAST_EXCEPTION)
    );
    assert_eq!(lines(&found, at)[1], STORY[1]);
}

#[test]
fn kscrash_says_what_was_ended_for_its_memory() {
    for (kind, reason, expected) in [
        ("termination", "memory_limit", EventKind::Memory),
        ("resource_termination", "memory_pressure", EventKind::Memory),
        ("termination", "low_battery", EventKind::Crash),
        ("memory_termination", "", EventKind::Memory),
    ] {
        let event = read_json(&serde_json::json!({
            "report": {"id": "1"},
            "crash": {"error": {"type": kind, "termination_reason": reason, "is_fatal": true}},
        }));
        let event = event.event.unwrap();
        assert_eq!(
            (event.kind, event.fatal),
            (expected, true),
            "{kind} {reason}"
        );
        assert_eq!(event.reason.as_deref(), Some(reason));
    }
}

#[test]
fn the_state_of_a_thread_is_read_in_any_words() {
    for (word, state) in [
        ("blocked", ThreadState::Blocked),
        ("TH_STATE_WAITING", ThreadState::Other),
    ] {
        let frames = serde_json::json!([{"instruction_addr": 4096}]);
        let mut backtrace = serde_json::json!({"frames": frames});
        let sentry = serde_json::json!({
            "threads": {"values": [{"id": 7, "state": word, "stacktrace": backtrace}]},
        });
        backtrace = serde_json::json!({"contents": frames});
        let kscrash = serde_json::json!({
            "report": {"id": "1"},
            "crash": {"threads": [{"index": 0, "state": word, "backtrace": backtrace}]},
        });
        for report in [read_json(&sentry), read_json(&kscrash)] {
            let thread = &report.threads[0];
            assert_eq!(
                (thread.state, thread.state_word()),
                (Some(state), Some(word))
            );
            let again = wedjat::report::read(&wedjat::report::to_bytes(&report)).unwrap();
            assert_eq!(again.report.threads, report.threads);
        }
    }
}

#[test]
fn a_diagnostic_without_its_list_is_as_in_its_list() {
    for (list, key, word) in [
        ("crashDiagnostics", "signal", "crash"),
        ("hangDiagnostics", "hangDuration", "stall"),
        ("cpuExceptionDiagnostics", "totalCPUTime", "cpu"),
        (
            "diskWriteExceptionDiagnostics",
            "writesCaused",
            "disk writes",
        ),
        ("appLaunchDiagnostics", "launchDuration", "stall"),
    ] {
        let diagnostic = serde_json::json!({
            "diagnosticMetaData": {key: "6 sec"},
            "callStackTree": {"callStacks": [{"callStackRootFrames": [{"address": 4096}]}]},
        });
        let alone = read_json(&diagnostic).event.unwrap();
        let listed = read_json(&serde_json::json!({list: [diagnostic]}));
        assert_eq!(alone.word(), word, "{list}");
        assert_eq!(Some(alone), listed.event, "{list}");
    }
}
