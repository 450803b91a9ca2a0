//! Reports that come again, packed reports, and inputs that are not there.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use wedjat::new;
use wedjat::report::{self, Event, EventKind, Frame, Image, Report, Thread};

fn symbolicate(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_symbolicate"));
    command.args(["--no-cache", "--no-search"]).args(args);
    command.output().expect("symbolicate runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

/// A crash of launch `launch` in a function of this name.
fn crash(id: u128, launch: u128, function: &str) -> Vec<u8> {
    let mut report = Report::default();
    report.head.id = id.to_be_bytes();
    report.head.launch = launch.to_be_bytes();
    report.head.app.name = "till".into();
    report.event = Some(new!(Event {
        kind: EventKind::Crash,
        fatal: true,
    }));
    report.images.push(new!(Image {
        name: "/opt/till/till".into(),
        base: 0x1000,
        size: 0x1000,
    }));
    report.threads.push(new!(Thread {
        main: true,
        crashed: true,
        frames: vec![new!(Frame {
            pc: 0x1010,
            image: Some(0),
            name: Some(function.into()),
        })],
    }));
    report.end = Some(new!(report::End {
        closed_by: "writer".into(),
    }));
    report::to_bytes(&report)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    ruzstd::encoding::compress_to_vec(bytes, level)
}

/// Four launches; one has two reports that say that it ended. Each report came 250 times, from several hosts.
fn uploads(folder: &Path) {
    let reports = [
        (1, 1, "parse"),
        (2, 2, "parse"),
        (3, 2, "parse"),
        (4, 3, "draw"),
    ];
    for copy in 0..250 {
        for (id, launch, function) in reports {
            let bytes = crash(id, launch, function);
            let (bytes, ending) = match copy % 3 {
                0 => (bytes, ""),
                1 => (gzip(&bytes), ".gz"),
                _ => (zstd(&bytes), ".zst"),
            };
            let name = format!("{copy:03}-{id}.wedjat{ending}");
            std::fs::write(folder.join(name), bytes).unwrap();
        }
    }
}

#[test]
fn each_id_counts_once_and_a_launch_ends_once() {
    let folder = tempfile::tempdir().unwrap();
    uploads(folder.path());
    let path = folder.path().to_str().unwrap();
    let top = symbolicate(&["--top", "10", path]);
    let printed = text(&top.stdout);
    let front = "4 reports in 2 groups; those that hurt users most:\n996 reports came again and count once.\n";
    assert!(printed.starts_with(front), "{printed}");
    let row = |function: &str| {
        let mut rows = printed.lines();
        let row = rows.find(|line| line.contains(function)).expect("a row");
        row.split_whitespace().take(4).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        (row("parse"), row("draw")),
        ("1. 2 2 3".into(), "2. 1 1 1".into())
    );
    let json = symbolicate(&["--top", "10", "--format", "json", path]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&json["reports"], &json["again"]), (&4.into(), &996.into()));
    let lines = symbolicate(&["--format", "ndjson", path]);
    assert_eq!(text(&lines.stdout).lines().count(), 4);
    let said = "symbolicate: 996 reports came again and count once\n";
    assert!(
        text(&lines.stderr).contains(said),
        "{}",
        text(&lines.stderr)
    );
    let folded = symbolicate(&["--format", "folded", path]);
    assert_eq!(text(&folded.stdout), "draw 1\nparse 3\n");
    let page = symbolicate(&["--format", "html", path]);
    assert!(text(&page.stdout).contains("996 reports came again and count once"));
    // As text a report is printed as often as it is named.
    let one = folder.path().join("000-1.wedjat");
    let one = one.to_str().unwrap();
    let twice = symbolicate(&[one, one]);
    assert_eq!(text(&twice.stdout).matches("Process:").count(), 2);
}

/// A whole report, a copy without its thread, and a copy with its thread but without `end`.
fn copies(id: u128) -> [Vec<u8>; 3] {
    let whole = crash(id, id, "parse");
    let section = |kind: &[u8]| {
        let mut all = whole.windows(kind.len());
        all.position(|bytes| bytes == kind).expect("a section")
    };
    let [small, large] = [&b"\x92\xa6thread"[..], b"\x92\xa3end"].map(section);
    let copies = [&whole[..], &whole[..small], &whole[..large]];
    copies.map(<[u8]>::to_vec)
}

/// Titles of `--top`, and the size and the damage of what each format that has all of a report takes.
fn counted(paths: &[&str]) -> (Vec<String>, Vec<(usize, usize)>) {
    let json = |options: &[&str]| -> Value {
        let output = symbolicate(&[options, paths].concat());
        assert_eq!(output.status.code(), Some(1), "a copy is damaged");
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
    };
    let top = json(&["--top", "10", "--format", "json"]);
    let groups = top["top"].as_array().unwrap().iter();
    let titles = groups.map(|group| group["title"].as_str().unwrap().to_owned());
    let all = json(&["--format", "json"]);
    let all = all.as_array().unwrap();
    let lines = symbolicate(&[&["--format", "ndjson"][..], paths].concat());
    let lines = text(&lines.stdout).lines();
    let lines: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(&lines, all);
    let len = |list: &Value| list.as_array().unwrap().len();
    let sizes = all
        .iter()
        .map(|report| (len(&report["threads"]), len(&report["damage"])));
    (titles.collect(), sizes.collect())
}

/// The name of a file decides nothing.
#[test]
fn of_copies_the_most_complete_one_counts() {
    let [whole, small, large] = copies(1);
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: String| folder.path().join(name);
        for (at, bytes) in order.into_iter().zip([&small, &large, &whole]) {
            std::fs::write(path(format!("{at}.wedjat")), bytes).unwrap();
        }
        let given = [folder.path().to_str().unwrap()];
        let title = vec!["crash in parse".to_owned()];
        assert_eq!(counted(&given), (title.clone(), vec![(1, 0)]), "{order:?}");
        let page = symbolicate(&[&["--format", "html"][..], &given].concat());
        assert!(
            text(&page.stdout).contains("crash in parse")
                && !text(&page.stdout).contains("(no stack)")
        );
        let folded = symbolicate(&[&["--format", "folded"][..], &given].concat());
        assert_eq!(text(&folded.stdout), "parse 1\n");
        // Without the whole one, the larger; packed, its file is the smaller one.
        std::fs::remove_file(path(format!("{}.wedjat", order[2]))).unwrap();
        std::fs::write(path(format!("{}.wedjat", order[1])), gzip(&large)).unwrap();
        assert_eq!(counted(&given), (title, vec![(1, 1)]), "{order:?}");
    }
}

/// Who has seen a report knows its id, and puts a report of another head or thread before it.
#[test]
fn a_report_of_others_with_a_known_id_hides_none() {
    let folder = tempfile::tempdir().unwrap();
    let forged = [
        crash(1, 1, "nothing"),
        crash(1, 2, "parse"),
        crash(1, 2, ""),
    ];
    for (at, bytes) in forged.iter().chain([&crash(1, 1, "parse"); 2]).enumerate() {
        std::fs::write(folder.path().join(format!("{at}.wedjat")), bytes).unwrap();
    }
    let folder = folder.path().to_str().unwrap();
    let printed = symbolicate(&["--format", "ndjson", folder]);
    let lines = text(&printed.stdout);
    assert_eq!(lines.lines().count(), 4, "{lines}");
    assert!(lines.contains("crash in parse"), "{lines}");
    let errors = text(&printed.stderr);
    assert!(
        errors.contains("no copies, though their id came before: 3 reports"),
        "{errors}"
    );
    assert!(errors.contains("1 report came again"), "{errors}");
    let top = symbolicate(&["--top", "10", folder]);
    let top = text(&top.stdout);
    assert!(top.contains("4 reports in "), "{top}");
    assert!(
        top.contains("no copies, though their id came before: 3 reports"),
        "{top}"
    );
}

/// Several reports in one file, of which one is cut.
#[test]
fn a_cut_copy_among_other_reports_of_a_file_counts_last() {
    let folder = tempfile::tempdir().unwrap();
    let [whole, small, _] = copies(1);
    let many = [crash(2, 2, "draw"), small, crash(3, 3, "load")].concat();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (many, whole) = (write("a.wedjat", &many), write("b.wedjat", &whole));
    let (titles, sizes) = counted(&[&many, &whole]);
    assert_eq!(titles.len(), 3, "{titles:?}");
    assert!(titles.iter().all(|title| title != "crash in (no stack)"));
    assert_eq!(sizes, [(1, 0); 3]);
    // What is read as it comes has no second chance: the first copy counts.
    let mut command = Command::new(env!("CARGO_BIN_EXE_symbolicate"));
    command.args(["--no-cache", "--no-search", "--top", "10", "-"]);
    command.stdin(std::fs::File::open(&many).unwrap());
    let printed = command.output().unwrap();
    assert!(text(&printed.stdout).contains("(no stack)"));
}

#[test]
fn packed_reports_are_read_as_files_in_folders_and_from_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (crash(1, 1, "parse"), crash(2, 2, "draw"));
    let many = [first.clone(), second.clone()].concat();
    let foreign = std::fs::read(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/testdata/foreign/crash.ips"
    ))
    .unwrap();
    let plain = symbolicate(&[concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/testdata/foreign/crash.ips"
    )]);
    for (ending, pack) in [("gz", gzip as fn(&[u8]) -> Vec<u8>), ("zst", zstd)] {
        let written = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(format!("{name}.{ending}"));
            std::fs::write(&path, pack(bytes)).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let path = written("a.wedjat", &first);
        assert!(text(&symbolicate(&[&path]).stdout).contains("parse"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_symbolicate"));
        let inspected = command.args(["--inspect", &path]).output().unwrap();
        let inspected = text(&inspected.stdout);
        let (first_line, rest) = inspected.split_once('\n').expect("lines");
        assert!(first_line.starts_with(&path), "{inspected}");
        let size = format!(
            "packed by {}: {} bytes in it",
            if ending == "gz" { "gzip" } else { "zstd" },
            first.len()
        );
        for part in [
            &*size,
            "id: 00000000-0000-0000-0000-000000000001",
            "app: till",
        ] {
            assert!(rest.contains(part), "{part}: {inspected}");
        }
        let path = written("many.wedjat", &many);
        assert_eq!(
            text(&symbolicate(&[&path]).stdout)
                .matches("Process:")
                .count(),
            2
        );
        let path = written("crash.ips", &foreign);
        assert_eq!(text(&symbolicate(&[&path]).stdout), text(&plain.stdout));
        for (packed, what) in [(pack(&many), 2), (pack(&foreign), 1)] {
            let mut child = Command::new(env!("CARGO_BIN_EXE_symbolicate"))
                .args(["--no-cache", "-"])
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            child.stdin.take().unwrap().write_all(&packed).unwrap();
            let output = child.wait_with_output().unwrap();
            assert_eq!(text(&output.stdout).matches("\nProcess:").count(), what);
        }
    }
    let all = symbolicate(&["--format", "ndjson", folder.path().to_str().unwrap()]);
    assert_eq!(
        text(&all.stdout).lines().count(),
        3,
        "{}",
        text(&all.stderr)
    );
}

/// A few bytes that become many take neither memory nor time, and do not keep the others from being read.
#[test]
fn bombs_and_cut_files_are_named_and_the_others_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("1.wedjat.gz"), gzip(&vec![0; 32 << 20])).unwrap();
    std::fs::write(path("2.wedjat.zst"), zstd(&vec![0; 32 << 20])).unwrap();
    let packed = gzip(&crash(1, 1, "parse"));
    std::fs::write(path("3.wedjat.gz"), &packed[..packed.len() - 9]).unwrap();
    std::fs::write(path("4.wedjat.gz"), &packed).unwrap();
    let output = symbolicate(&[folder.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout).matches("Process:").count(), 1);
    let errors = text(&output.stderr);
    assert_eq!(errors.matches("250 times its size").count(), 2, "{errors}");
    assert!(
        errors.contains("3.wedjat.gz: gzip data damaged or cut at byte"),
        "{errors}"
    );
}

#[test]
fn one_file_of_a_folder_that_cannot_be_opened_is_status_1() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.wedjat"), crash(1, 1, "parse")).unwrap();
    std::os::unix::fs::symlink("nowhere", folder.path().join("b.wedjat")).unwrap();
    let output = symbolicate(&["--follow-links", folder.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("parse"));
    assert!(text(&output.stderr).contains("b.wedjat: "));
}

#[test]
fn a_missing_input_is_status_3_and_the_others_are_printed() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("a.wedjat");
    std::fs::write(&report, crash(1, 1, "parse")).unwrap();
    let (report, nowhere) = (report.to_str().unwrap(), folder.path().join("nowhere"));
    for order in [
        [report, nowhere.to_str().unwrap()],
        [nowhere.to_str().unwrap(), report],
    ] {
        let output = symbolicate(&order);
        assert_eq!(output.status.code(), Some(3));
        assert!(text(&output.stdout).contains("parse"));
        assert!(
            text(&output.stderr).contains("nowhere: "),
            "{}",
            text(&output.stderr)
        );
    }
}

#[test]
fn the_words_of_other_recorders_select_stalls_and_the_help_shows_top_with_a_number() {
    let stall = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/testdata/reports/v1.0/stall.wedjat"
    );
    let asked = |kind: &str| symbolicate(&["--format", "ndjson", "-t", kind, stall]).stdout;
    assert_eq!(text(&asked("stall")).lines().count(), 1);
    for kind in ["hang", "anr"] {
        assert_eq!(text(&asked(kind)), text(&asked("stall")), "{kind}");
    }
    assert_eq!(text(&asked("crash")), "");
    let help = symbolicate(&["--help"]);
    let help = text(&help.stdout);
    assert!(
        help.contains("--top 10") && !help.contains("--top["),
        "{help}"
    );
    for top in [
        &["--top", stall][..],
        &["--top", "3", stall],
        &["--top=3", stall],
    ] {
        assert_eq!(symbolicate(top).status.code(), Some(0), "{top:?}");
    }
}
