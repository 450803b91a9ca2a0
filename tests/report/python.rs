//! The specification's reader in Python reads what the recorder writes: `suites/readers/run python`.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::report::{Shape, full_report, stall_report};
use wedjat::report;

/// What the reader in Python prints, one line a section, for a report of these bytes.
fn read_in_python(name: &str, bytes: &[u8]) -> Output {
    let python = std::env::var_os("WEDJAT_PYTHON").expect(
        "WEDJAT_PYTHON names a Python that has msgpack: run suites/readers/run python, which makes one",
    );
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&file, bytes).unwrap();
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report/read_report.py");
    Command::new(python).arg(reader).arg(file).output().unwrap()
}

fn lines(output: &Output) -> Vec<String> {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone())
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

#[test]
#[ignore = "needs Python and the network: suites/readers/run python runs it, and .ci/run runs that"]
fn python_reads_what_we_write() {
    let (bytes, lengths) = stall_report(Shape::ALL_IMAGES);
    let lines = lines(&read_in_python("stall.wedjat", &bytes));
    assert_eq!(lines.len(), lengths.len());
    for (line, (kind, _)) in lines.iter().zip(&lengths) {
        assert!(line.starts_with(&format!("{kind} {{")), "{kind}: {line}");
    }
    assert!(lines[0].contains("'format': 'wedjat', 'version': 1, 'id': b'0123456789abcdef'"));
    assert!(lines[1].contains("'thresholds': {'timeout': 50000000, 'strikes': 5}"));
    let report = report::read(&bytes).unwrap().report;
    for (line, (kind, _)) in lines.iter().zip(&lengths) {
        if *kind != "thread" {
            continue;
        }
        let thread = report
            .threads
            .iter()
            .find(|thread| line.starts_with(&format!("thread {{'id': {},", thread.id)))
            .unwrap_or_else(|| panic!("no such thread: {line}"));
        let frames: Vec<String> = thread
            .frames
            .iter()
            .map(|frame| {
                format!(
                    "[{}, {}, {}]",
                    frame.pc,
                    frame.found.code(),
                    frame.image.unwrap()
                )
            })
            .collect();
        assert!(
            line.contains(&format!("'frames': [{}]", frames.join(", "))),
            "{line}"
        );
    }
}

#[test]
#[ignore = "needs Python and the network: suites/readers/run python runs it, and .ci/run runs that"]
fn python_reads_unknown_kinds_and_extension_types() {
    let lines = lines(&read_in_python(
        "full.wedjat",
        &report::to_bytes(&full_report()),
    ));
    let unknown = lines
        .iter()
        .find(|line| line.starts_with("future "))
        .unwrap();
    assert!(
        unknown.contains("ExtType(code=3, data=b'\\x01\\x02\\x03')"),
        "{unknown}"
    );
}

#[test]
#[ignore = "needs Python and the network: suites/readers/run python runs it, and .ci/run runs that"]
fn python_finds_a_changed_byte_by_the_crc() {
    let (mut bytes, _) = stall_report(Shape::APP);
    let at = bytes
        .windows(7)
        .position(|window| window == b"Example" || window == b"example")
        .unwrap();
    bytes[at] ^= 0x20;
    let output = read_in_python("changed.wedjat", &bytes);
    assert!(String::from_utf8_lossy(&output.stderr).contains("the file was changed"));
}

/// `examples/read_folder.py` says of each sample what our reader finds in it.
#[test]
#[ignore = "needs Python and the network: suites/readers/run python runs it, and .ci/run runs that"]
fn python_reads_a_folder() {
    let python =
        std::env::var_os("WEDJAT_PYTHON").expect("WEDJAT_PYTHON: run suites/readers/run python");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = root.join("testdata/reports/v1.0");
    let mut example = Command::new(python);
    example
        .arg(root.join("examples/read_folder.py"))
        .arg(&folder);
    let lines = lines(&example.output().unwrap());
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "wedjat"))
        .collect();
    paths.sort();
    assert_eq!(lines.len(), paths.len());
    for (line, path) in lines.iter().zip(&paths) {
        let report = report::read(&std::fs::read(path).unwrap()).unwrap().report;
        let (head, event) = (&report.head, report.event.as_ref().unwrap());
        let seconds = head.time.duration_since(std::time::UNIX_EPOCH).unwrap();
        let start = format!(
            "{} of {} {} at {}",
            event.word(),
            head.app.name,
            head.app.version,
            seconds.as_secs()
        );
        assert!(line.starts_with(&start), "{line}\n{start}");
        let lasted = report
            .stall_end
            .as_ref()
            .map(|end| end.duration.as_millis());
        let found =
            line.contains(&lasted.map_or(", in".into(), |lasted| format!("for {lasted} ms, in")));
        assert!(found, "{line}");
        let inside = report.threads[0].frames[0].image;
        let name = &report.images[inside.unwrap() as usize].name;
        assert!(line.contains(name.rsplit('/').next().unwrap()), "{line}");
    }
}
