//! Reports of other recorders, as the command prints them: `testdata/imported/kinds/expected.txt` has a row for each.

use std::path::{Path, PathBuf};
use std::process::Command;

use wedjat::symbolicate::import;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/imported/kinds")
}

/// Standard output and error of the command over files of the folder, and its status.
fn symbolicate(words: &str) -> (String, Option<i32>) {
    let output = Command::new(env!("CARGO_BIN_EXE_symbolicate"))
        .args(["--no-cache", "--color", "never"])
        .args(words.split_whitespace())
        .current_dir(folder())
        .output()
        .unwrap();
    let bytes = [output.stdout, output.stderr].concat();
    (String::from_utf8(bytes).unwrap(), output.status.code())
}

#[test]
fn reports_of_each_kind_are_read_as_they_were_meant() {
    let table = std::fs::read_to_string(folder().join("expected.txt")).unwrap();
    let (mut output, mut row, mut rows) = (String::new(), "", 0);
    let mut wrong = Vec::new();
    let lines = table
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines {
        let (sign, text) = line.split_at(line.len().min(4));
        match sign {
            "  + " if !output.contains(text) => wrong.push(format!("{row}: no `{text}`")),
            "  - " if output.contains(text) => wrong.push(format!("{row}: has `{text}`")),
            "  + " | "  - " => {}
            _ => {
                row = line;
                rows += 1;
                let (words, status) = line.split_once(": exit ").unwrap_or((line, "0"));
                let found;
                (output, found) = symbolicate(words);
                if found != status.parse().ok() {
                    wrong.push(format!("{row}: exit {found:?}"));
                }
            }
        }
    }
    assert!(rows > 38, "{rows}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The page has a line for each layout of the importer's own table.
#[test]
fn the_page_lists_each_layout() {
    let names = |path: &str| -> Vec<String> {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path));
        let text = text.unwrap().replace("//! ", "");
        let (_, table) = text.split_once("| layout |").unwrap();
        let rows = table
            .lines()
            .skip(2)
            .map_while(|line| line.strip_prefix("| `"));
        rows.map(|row| row.split('`').next().unwrap().to_owned())
            .collect()
    };
    let code = names("src/symbolicate/import/mod.rs");
    assert!(code.len() > 10, "{code:?}");
    assert_eq!(code, names("docs/measured/imports.md"));
}

/// A file that no row names would never be read.
#[test]
fn each_report_has_a_row() {
    let table = std::fs::read_to_string(folder().join("expected.txt")).unwrap();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name == "expected.txt" || table.contains(&name), "{name}");
    }
}

/// Of a program for Linux an event has the build id, its front as a GUID, or both.
#[cfg(target_os = "linux")]
#[test]
fn an_event_names_an_elf_file_by_either_id() {
    use crate::support::symbolicate::Workshop;

    let source =
        "int sum(int n) {\n    return n + 1;\n}\nint main(void) {\n    return sum(2);\n}\n";
    let shop = Workshop::new(&[("till.c", source)]);
    shop.run("gcc -g -O0 -o till till.c -Wl,--build-id");
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let id = shop.id("till");
    let turned = |range: std::ops::Range<usize>| {
        let bytes: Vec<u8> = id[range].iter().rev().copied().collect();
        hex(&bytes)
    };
    let guid = [
        turned(0..4),
        turned(4..6),
        turned(6..8),
        hex(&id[8..10]),
        hex(&id[10..16]),
    ];
    let (build, guid) = (hex(&id), guid.join("-"));
    let base = 0x5555_5555_4000_u64;
    let pc = |symbol, offset| format!("{:#x}", base + shop.address("till", symbol) + offset);
    let ids = [
        serde_json::json!({"code_id": build, "debug_id": guid}),
        serde_json::json!({"code_id": build}),
        serde_json::json!({"debug_id": guid}),
        serde_json::json!({"debug_id": format!("{guid}-0")}),
    ];
    for ids in ids {
        let mut image = serde_json::json!({"type": "elf", "image_addr": format!("{base:#x}"),
            "image_size": 20480, "code_file": "/usr/bin/till"});
        image
            .as_object_mut()
            .unwrap()
            .extend(ids.as_object().unwrap().clone());
        let event = serde_json::json!({"platform": "native",
            "exception": {"values": [{"type": "SIGSEGV", "stacktrace": {"frames": [
                {"instruction_addr": pc("main", 14)}, {"instruction_addr": pc("sum", 7)}]}}]},
            "debug_meta": {"images": [image]}});
        let path = shop.path("event.json");
        std::fs::write(&path, event.to_string()).unwrap();
        let till = shop.path("till").display().to_string();
        let (text, status) = symbolicate(&format!("--debug {till} {}", path.display()));
        assert_eq!(status, Some(0), "{text}");
        assert!(text.contains("sum + 7 (till.c:2)"), "{ids}: {text}");
        assert!(text.contains("main + 14 (till.c:5)"), "{ids}: {text}");
    }
}

/// The texts of a table: each begins with a line `%% ` and its columns.
fn table(name: &str) -> Vec<(Vec<String>, String)> {
    let text = std::fs::read_to_string(folder().with_file_name(name)).unwrap();
    let rows = format!("\n{text}");
    let rows = rows.split("\n%% ").skip(1).map(|row| {
        let (columns, text) = row.split_once('\n').unwrap();
        let columns = columns.split(" | ").map(str::to_owned).collect();
        (columns, format!("{text}\n"))
    });
    rows.collect()
}

/// Columns: name, count of reports, kind, innermost function of the first report, and where the right answer is from.
#[test]
fn reports_are_read_in_each_dress() {
    let rows = table("reports.txt");
    assert!(rows.len() > 30, "{}", rows.len());
    for (columns, text) in rows {
        let [name, count, kind, first, _truth] = &columns[..] else {
            panic!("{columns:?}");
        };
        let readings =
            import::read(text.as_bytes()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(readings.len().to_string(), *count, "{name}");
        let report = &readings[0].report;
        assert_eq!(report.event.as_ref().unwrap().word(), kind, "{name}");
        let thread = report.threads.iter().find(|thread| thread.crashed);
        let frame = &thread.unwrap_or(&report.threads[0]).frames[0];
        let found = frame.name.clone().unwrap_or(format!("{:#x}", frame.pc));
        assert_eq!(found, *first, "{name}");
    }
}

#[test]
fn texts_of_other_products_are_no_reports() {
    let rows = table("no-reports.txt");
    assert!(rows.len() > 28, "{}", rows.len());
    for (name, text) in rows {
        assert_eq!(import::detect(text.as_bytes()), None, "{name:?}");
        assert_eq!(
            import::read(text.as_bytes()).unwrap_err(),
            import::ImportError::Unknown,
            "{name:?}"
        );
    }
}

/// Each row of the table of kinds says where its right answer is from; a section's heading may say it for its rows.
#[test]
fn each_row_has_a_source_of_the_truth() {
    let text = std::fs::read_to_string(folder().join("expected.txt")).unwrap();
    let headings = text.lines().filter(|line| line.starts_with("# "));
    let without: Vec<&str> = headings.filter(|line| !line.contains("right: ")).collect();
    assert_eq!(without, [""; 0]);
}

/// Devices add an ending once a report was sent; an archive may hold reports, so it is named.
#[test]
fn a_folder_names_what_it_does_not_open() {
    let shop = tempfile::tempdir().unwrap();
    let crash = std::fs::read(folder().join("watchdog-ips.ips")).unwrap();
    let envelope = std::fs::read(folder().join("two-items.envelope")).unwrap();
    for (name, bytes) in [
        ("a.ips.beta", &crash[..]),
        ("b.ips.synced", &crash),
        ("c.envelope", &envelope),
        ("d.zip", b"PK\x03\x04rest"),
        ("e.dmp", b"MDMP rest"),
        ("notes.log", b"opened the till\n"),
    ] {
        std::fs::write(shop.path().join(name), bytes).unwrap();
    }
    let (text, status) = symbolicate(&format!("--no-search --top {}", shop.path().display()));
    assert_eq!(status, Some(1), "{text}");
    for part in [
        "2 reports in 2 groups",
        "1 report came again",
        "d.zip: it looks like a ZIP archive",
        "e.dmp: it looks like a minidump",
        "c.envelope: not read of the envelope: attachment `a.dmp` (a minidump)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("notes.log"), "{text}");
}
