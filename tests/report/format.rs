//! `docs/report-format.md` held against the code: add a key without writing it down, and this fails.

use std::time::{Duration, SystemTime};

use std::collections::{BTreeMap, BTreeSet};

use crate::support::report::full_report;
use rmpv::Value as V;
use wedjat::new;
use wedjat::report::{
    self, AppView, ClosedBy, EventKind, EventView, Found, HeadView, ImageView, OsView, RawFrame,
    ReportWriter, ThreadView, limits,
};

const SPECIFICATION: &str = include_str!("../../docs/report-format.md");

/// The rows of the first table behind a line, their cells without backquotes.
fn table_behind(line: &str) -> Vec<Vec<String>> {
    let mut lines = SPECIFICATION
        .lines()
        .skip_while(|other| *other != line)
        .skip(1);
    assert!(
        lines.by_ref().any(|line| line.starts_with("| ---")),
        "no table behind {line:?}"
    );
    let cells = |line: &str| {
        let inner = line.trim_matches('|');
        inner
            .split('|')
            .map(|cell| cell.trim().replace('`', ""))
            .collect()
    };
    lines
        .take_while(|line| line.starts_with('|'))
        .map(cells)
        .collect()
}

/// The kinds of sections, how often each stands in a report, and its struct.
const KINDS: &[(&str, &str, &str)] = &[
    ("head", "first", "Head"),
    ("event", "once", "Event"),
    ("thread", "many", "Thread"),
    ("image", "many", "Image"),
    ("sample", "many", "Sample"),
    ("vitals", "once", "Vitals"),
    ("context", "once", "AppContext"),
    ("memory", "many", "NearMemory"),
    ("stall_end", "once", "StallEnd"),
    ("capture", "once", "Capture"),
    ("loss", "once", "Loss"),
    ("end", "last", "End"),
];

/// The structs of the model, as they stand in its source.
const MODEL: &str = concat!(
    include_str!("../../src/report/model/head.rs"),
    include_str!("../../src/report/model/event.rs"),
    include_str!("../../src/report/model/stack.rs"),
    include_str!("../../src/report/model/image.rs"),
    include_str!("../../src/report/model/state.rs"),
);

/// One field of a struct.
struct Field {
    key: String,
    /// Its Rust type.
    of: String,
    /// Lines of its docs.
    docs: Vec<String>,
}

/// The fields of a struct, in the order in which they are written.
fn fields_of(name: &str) -> Vec<Field> {
    let begin = format!("    {name}, {name}View");
    let (_, body) = MODEL
        .split_once(&begin)
        .unwrap_or_else(|| panic!("there is no {name}"));
    let (body, _) = body.split_once("\n}").unwrap();
    let (_, body) = body.split_once('\n').unwrap();
    let (mut fields, mut renamed, mut docs) = (Vec::new(), None, Vec::new());
    for line in body.lines().map(str::trim) {
        if let Some(doc) = line.strip_prefix("/// ") {
            docs.push(doc.to_owned());
        }
        if let Some((_, rest)) = line.split_once("rename = \"") {
            renamed = rest.split_once('"').map(|(key, _)| key.to_owned());
        }
        let is_field = line.starts_with(|first: char| first.is_ascii_lowercase());
        if let (true, Some((key, of))) = (is_field, line.split_once(": ")) {
            let of = of.split_once(" as ").map_or(of, |(owned, _)| owned);
            fields.push(Field {
                key: renamed.take().unwrap_or_else(|| key.to_owned()),
                of: of.trim_end_matches(',').to_owned(),
                docs: std::mem::take(&mut docs),
            });
        }
    }
    assert!(!fields.is_empty(), "{name}");
    fields
}

/// The table row of a field: its docs end with `*always; unit*` or `*else what its absence means; unit*`.
fn row(field: &Field) -> String {
    let Field { key, of, docs } = field;
    let (last, meaning) = docs
        .split_last()
        .unwrap_or_else(|| panic!("{key} has no docs"));
    let last = last
        .strip_prefix('*')
        .and_then(|last| last.strip_suffix('*'));
    let last = last.unwrap_or_else(|| panic!("the docs of {key} end with no line in italics"));
    let (absent, unit) = last.split_once("; ").unwrap_or((last, ""));
    let absent = absent.strip_prefix("else ").unwrap_or(absent);
    let mut meaning = meaning.join(" ");
    assert_eq!(meaning.pop(), Some('.'), "{key}: {meaning}");
    // A word that begins a sentence, unless it has capitals of its own.
    let mut letters = meaning.chars();
    let (first, second) = (letters.next().unwrap(), letters.next().unwrap());
    if !second.is_uppercase() {
        let rest = &meaning[first.len_utf8()..];
        meaning = first.to_lowercase().to_string() + rest;
    }
    let unit = if unit.is_empty() {
        String::new()
    } else {
        format!(" {unit}")
    };
    format!("| `{key}` | {} |{unit} | {absent} | {meaning} |", word(of))
}

/// The specification, with its tables of keys made anew from the structs.
fn with_tables_of_the_code() -> String {
    let mut text = SPECIFICATION.to_owned();
    for (name, of) in structs() {
        let heading = format!("### `{name}`\n");
        let (before, rest) = text
            .split_once(&heading)
            .unwrap_or_else(|| panic!("no {heading}"));
        let header = "| --- | --- | --- | --- | --- |\n";
        let (between, rest) = rest.split_once(header).unwrap();
        let old = rest.lines().take_while(|line| line.starts_with('|'));
        let behind = &rest[old.map(|line| line.len() + 1).sum::<usize>()..];
        let rows: String = fields_of(&of)
            .iter()
            .map(|field| row(field) + "\n")
            .collect();
        text = format!("{before}{heading}{between}{header}{rows}{behind}");
    }
    text
}

/// The inner struct that a field's type is of, if it is of one.
fn inner(of: &str) -> Option<&str> {
    let name = of.trim_start_matches("Option<").trim_end_matches('>');
    MODEL
        .contains(&format!("    {name}, {name}View"))
        .then_some(name)
}

/// The maps that have keys of their own, section kind, or kind and key, and the struct of each.
/// `loss` has none: its keys are reasons, its values counts.
fn structs() -> Vec<(String, String)> {
    let mut structs = Vec::new();
    for (kind, _, name) in KINDS.iter().filter(|(kind, ..)| *kind != "loss") {
        structs.push(((*kind).to_owned(), (*name).to_owned()));
        for field in fields_of(name) {
            if let Some(name) = inner(&field.of) {
                structs.push((format!("{kind}.{}", field.key), name.to_owned()));
            }
        }
    }
    structs
}

/// Each of [`structs`], with key and type of each field.
fn maps() -> Vec<(String, Vec<(String, &'static str)>)> {
    let typed = |name: &str| {
        let fields = fields_of(name).into_iter();
        fields.map(|field| (field.key, word(&field.of))).collect()
    };
    let structs = structs().into_iter();
    structs.map(|(map, name)| (map, typed(&name))).collect()
}

/// What the specification calls a Rust type.
fn word(of: &str) -> &'static str {
    if inner(of).is_some() {
        return "map";
    }
    let option = of.strip_prefix("Option<");
    match option.and_then(|of| of.strip_suffix('>')).unwrap_or(of) {
        "String" | "EventKind" | "WalkEnd" | "Magic" | "StallClass" | "StallOutcome"
        | "ThreadState" | "CutReason" => "text",
        "u64" | "u32" | "SystemTime" | "Duration" => "unsigned",
        "i64" => "integer",
        "bool" => "bool",
        "Vec<u8>" | "[u8; 16]" => "bin",
        "f64" => "float",
        "Vec<(String, u64)>" => "registers",
        "Vec<Frame>" => "frames",
        "Vec<AsyncChain>" => "chains",
        "Omitted" => "gap",
        "Vec<(String, Value)>" => "values",
        "Vec<(String, f64)>" => "floats",
        "Vec<(Duration, String)>" => "breadcrumbs",
        "Vec<(String, Duration, Option<Duration>)>" => "marks",
        _ => panic!("the specification has no word for {of}"),
    }
}

fn is_of(word: &str, value: &V) -> bool {
    let texts = |is: &dyn Fn(&V) -> bool| {
        value
            .as_map()
            .is_some_and(|map| map.iter().all(|(key, value)| key.is_str() && is(value)))
    };
    let rows = |is: &dyn Fn(&[V]) -> bool| {
        value
            .as_array()
            .is_some_and(|rows| rows.iter().all(|row| is(row.as_array().unwrap())))
    };
    match word {
        "text" => value.is_str(),
        "unsigned" => value.is_u64(),
        "integer" => value.is_i64(),
        "bool" => value.is_bool(),
        "bin" => value.is_bin(),
        "float" => value.is_f64(),
        "map" => value.is_map(),
        "registers" => texts(&V::is_u64),
        "values" => texts(&|_| true),
        "floats" => texts(&V::is_f64),
        "frames" => rows(&|row| {
            row.len() >= 3
                && row[0].is_u64()
                && row[1].is_u64()
                && (row[2].is_u64() || row[2].is_nil())
        }),
        "chains" => rows(&|row| {
            let callers = row[1].as_array().unwrap();
            row.len() == 3 && row[0].is_u64() && callers.iter().all(V::is_u64) && row[2].is_str()
        }),
        "gap" => value
            .as_array()
            .is_some_and(|gap| gap.iter().all(V::is_u64)),
        "breadcrumbs" => rows(&|row| row.len() == 2 && row[0].is_u64() && row[1].is_str()),
        "marks" => rows(&|row| row.len() == 3 && row[0].is_str() && row[1].is_u64()),
        _ => panic!("{word}"),
    }
}

/// All maps of a report with every field set, by their path, as an independent decoder sees them.
fn written() -> BTreeMap<String, Vec<(String, V)>> {
    let (bytes, all) = (report::to_bytes(&full_report()), maps());
    let mut rest = bytes.as_slice();
    let mut maps: BTreeMap<String, Vec<(String, V)>> = BTreeMap::new();
    while !rest.is_empty() {
        let section = rmpv::decode::read_value(&mut rest).unwrap();
        let [kind, map] = section.as_array().unwrap().as_slice() else {
            panic!("{section}")
        };
        let kind = kind.as_str().unwrap();
        for (key, value) in map.as_map().unwrap() {
            let Some(key) = key.as_str() else { continue };
            let path = format!("{kind}.{key}");
            if all.iter().any(|(name, _)| *name == path) {
                let inner = value.as_map().unwrap().iter();
                let inner =
                    inner.map(|(key, value)| (key.as_str().unwrap().to_owned(), value.clone()));
                maps.entry(path).or_default().extend(inner);
            }
            maps.entry(kind.to_owned())
                .or_default()
                .push((key.to_owned(), value.clone()));
        }
    }
    maps
}

/// Keys that `full_report` adds as those that are not known.
fn is_extra(key: &str) -> bool {
    key.starts_with("later") || key == "more"
}

#[test]
fn the_specification_s_tables_are_the_code_s() {
    let made = with_tables_of_the_code();
    if std::env::var_os("WEDJAT_NEW_TABLES").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/report-format.md");
        std::fs::write(path, &made).unwrap();
        return;
    }
    let differs = SPECIFICATION
        .lines()
        .zip(made.lines())
        .find(|(old, new)| old != new);
    assert!(
        SPECIFICATION == made,
        "docs/report-format.md is not of this code: make its tables by \
         WEDJAT_NEW_TABLES=1 cargo test --test report format::; {differs:#?}"
    );
}

#[test]
fn the_specification_s_kinds_are_the_code_s() {
    let stated: Vec<(String, String)> = table_behind("## Sections")
        .into_iter()
        .map(|row| (row[0].clone(), row[1].clone()))
        .collect();
    let coded: Vec<(String, String)> = KINDS
        .iter()
        .map(|(kind, place, _)| ((*kind).to_owned(), (*place).to_owned()))
        .collect();
    assert_eq!(stated, coded);
}

#[test]
fn what_is_written_is_what_is_specified() {
    let written = written();
    for (name, fields) in maps() {
        let keys: BTreeSet<&str> = written[&name]
            .iter()
            .map(|(key, _)| key.as_str())
            .filter(|key| !is_extra(key) && *key != "check")
            .collect();
        let specified: BTreeSet<&str> = fields.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(
            keys, specified,
            "{name}: left is written, right is specified"
        );
        for (key, value) in &written[&name] {
            if let Some((_, word)) = fields.iter().find(|(field, _)| field == key) {
                assert!(is_of(word, value), "{name}.{key} is no {word}: {value}");
            }
        }
    }
    // `future` is a kind that stands for those that are not known.
    let kinds: BTreeSet<&str> = written
        .keys()
        .map(String::as_str)
        .filter(|name| !name.contains('.') && *name != "future")
        .collect();
    let specified: BTreeSet<&str> = KINDS.iter().map(|(kind, ..)| *kind).collect();
    assert_eq!(kinds, specified, "left is written, right is specified");
}

#[test]
fn limits_are_as_specified() {
    let coded = [
        ("DEPTH", limits::DEPTH),
        ("SECTION_BYTES", limits::SECTION_BYTES),
        ("REPORT_BYTES", limits::REPORT_BYTES),
        ("GARBAGE_BYTES", limits::GARBAGE_BYTES),
        ("SECTIONS", limits::SECTIONS as usize),
        ("FRAMES", limits::FRAMES),
        ("FIELDS", limits::FIELDS),
        ("TEXT_BYTES", limits::TEXT_BYTES),
        ("DAMAGES", limits::DAMAGES),
        ("WRITTEN_TEXT_BYTES", limits::WRITTEN_TEXT_BYTES),
    ];
    let coded: Vec<(String, String)> = coded
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.to_string()))
        .collect();
    let stated: Vec<(String, String)> = table_behind("## Limits")
        .into_iter()
        .map(|row| (row[0].clone(), row[1].clone()))
        .collect();
    assert_eq!(stated, coded);
    let source = include_str!("../../src/report/limits.rs");
    let constants = source
        .lines()
        .filter(|line| line.starts_with("pub const "))
        .count();
    assert_eq!(
        constants,
        coded.len(),
        "a constant of limits.rs is not in the specification"
    );
}

#[test]
fn the_worked_example_is_what_the_writer_writes() {
    let mut buffer = [0; 1024];
    let mut bytes: Vec<u8> = Vec::new();
    let mut writer = ReportWriter::new(&mut buffer, &mut bytes);
    writer
        .section(&HeadView {
            id: *b"wedjat report 01",
            launch: *b"wedjat launch 01",
            time: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
            clock: Duration::from_secs(5),
            app: AppView {
                name: "MyApp",
                version: "1.2.3",
            },
            os: OsView {
                name: "macOS",
                version: "14.5",
                ..OsView::default()
            },
            arch: "arm64",
            pid: 4711,
            ..Default::default()
        })
        .unwrap();
    writer
        .section(&EventView {
            kind: EventKind::Live,
            ..Default::default()
        })
        .unwrap();
    let frames = [
        new!(RawFrame {
            pc: 0x1_0400_4000,
            found: Found::Context,
            image: 0,
        }),
        new!(RawFrame {
            pc: 0x1_8000_0abc,
            found: Found::UnwindInfo,
            image: RawFrame::NO_IMAGE,
        }),
    ];
    writer
        .section(&ThreadView {
            id: 259,
            main: true,
            frames: &frames,
            ..Default::default()
        })
        .unwrap();
    writer
        .section(&ImageView {
            name: "/Applications/MyApp",
            id: b"wedjat  image 01",
            base: 0x1_0400_0000,
            base_svma: 0x1_0000_0000,
            size: 0x8000,
            ..Default::default()
        })
        .unwrap();
    writer.finish(ClosedBy::Writer).unwrap();
    let example = SPECIFICATION.split("## A worked example").nth(1).unwrap();
    let example = example.split("```").nth(1).unwrap();
    let mut stated = Vec::new();
    for line in example.lines().skip(1) {
        // offset, two spaces, the bytes, two spaces, what they mean
        let mut columns = line.split("  ");
        let offset = usize::from_str_radix(columns.next().unwrap(), 16).unwrap();
        assert_eq!(offset, stated.len(), "{line}");
        let hex = columns.next().unwrap().split(' ');
        stated.extend(hex.map(|byte| u8::from_str_radix(byte, 16).unwrap()));
    }
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    assert_eq!(
        hex(&stated),
        hex(&bytes),
        "left is specified, right is written"
    );
    assert!(SPECIFICATION.contains(&format!("{} bytes.", bytes.len())));
    assert_eq!(report::read(&bytes).unwrap().damage, []);
}

#[test]
fn the_reader_in_the_specification_is_the_one_that_is_tested() {
    let reader = include_str!("read_report.py");
    assert!(SPECIFICATION.contains(&format!("```python\n{reader}```")));
}
