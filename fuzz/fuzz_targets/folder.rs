//! Any files in the folder of reports: launch records with and without a report behind them, the list of files begun,
//! reports that are cut. What is whole is found, what is cut is closed, and nothing beside the folder is touched.
#![no_main]

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use wedjat::Monitor;
use wedjat::report::{self, Report};
use wedjat::store;

#[derive(Arbitrary, Debug)]
struct AnyFile<'a> {
    name: u8,
    content: Content<'a>,
}

#[derive(Arbitrary, Debug)]
enum Content<'a> {
    Bytes(&'a [u8]),
    /// The list's first line, and names.
    List(Vec<u8>, &'a [u8]),
    /// A launch's record with these words, cut to so many bytes, and what stands behind it.
    Record(Vec<(u8, u64)>, u16, &'a [u8]),
    /// A record with a whole report behind it.
    RecordAndReport(Vec<(u8, u64)>, u32),
    /// A report with these bytes changed, cut to so many.
    Report(u32, Vec<(u8, u8)>, u16),
    Whole(u32),
}

const NAMES: [&str; 8] = [
    "1700000000000000000-0a1b2c3d.launch",
    "1700000000000000001-0a1b2c3d.launch",
    "2024-02-29T23-59-59.987Z-crash-0a1b2c3d.partial",
    "2024-02-29T23-59-59.987Z-crash-0a1b2c3d.wedjat",
    "2024-03-01T00-00-00.000Z-stall-11223344.partial",
    "2024-03-01T00-00-00.000Z-stall-11223344.damaged",
    "2024-03-01T00-00-00.001Z-live-55667788.wedjat",
    "a film",
];

fn whole(id: u32) -> Vec<u8> {
    let mut report = Report::default();
    report.head.id[..4].copy_from_slice(&id.to_be_bytes());
    report::to_bytes(&report)
}

fn record(words: &[(u8, u64)]) -> Vec<u8> {
    let mut record = [0u64; 40];
    for &(at, word) in words {
        record[usize::from(at) % 40] = word;
    }
    record[0] = u64::from_be_bytes(*b"wedjatL1");
    record.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn bytes(content: &Content<'_>) -> Vec<u8> {
    match content {
        Content::Bytes(bytes) => bytes.to_vec(),
        Content::List(names, rest) => {
            let mut list = b"wedjat: files that were begun here\n".to_vec();
            for &name in names {
                let name = NAMES[usize::from(name) % NAMES.len()];
                let up = if usize::from(name.len()) % 2 == 0 {
                    "../"
                } else {
                    ""
                };
                list.extend(format!("{up}{name}\n").bytes());
            }
            [&list, *rest].concat()
        }
        Content::Record(words, length, behind) => {
            let mut bytes = [&record(words), *behind].concat();
            bytes.truncate(usize::from(*length));
            bytes
        }
        Content::RecordAndReport(words, id) => [record(words), whole(*id)].concat(),
        Content::Report(id, changes, length) => {
            let mut bytes = whole(*id);
            for &(at, byte) in changes {
                let at = usize::from(at) % bytes.len();
                bytes[at] = byte;
            }
            bytes.truncate(usize::from(*length));
            bytes
        }
        Content::Whole(id) => whole(*id),
    }
}

/// A folder beside which lies one with the same names.
static PLACE: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    };
    place.join(format!("wedjat-fuzz-{}", std::process::id()))
});

fn found(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut found: Vec<_> = names
        .map(|name| (name.clone(), std::fs::read(folder.join(&name)).unwrap()))
        .collect();
    found.sort();
    found
}

fuzz_target!(|files: Vec<AnyFile<'_>>| {
    let folder = PLACE.join("reports");
    std::fs::create_dir_all(&folder).unwrap();
    for name in NAMES {
        std::fs::write(PLACE.join(name), whole(7)).unwrap();
    }
    let outside = NAMES.map(|name| std::fs::read(PLACE.join(name)).unwrap());
    let (mut expected, mut partial) = (Vec::new(), Vec::new());
    for file in files.iter().take(8) {
        let name = NAMES[usize::from(file.name) % NAMES.len()];
        let path = folder.join(name);
        if path.exists() {
            continue;
        }
        std::fs::write(&path, bytes(&file.content)).unwrap();
        match file.content {
            Content::RecordAndReport(_, id) if name.ends_with(".launch") => expected.push(id),
            Content::Whole(id) if name.ends_with(".wedjat") => expected.push(id),
            Content::Whole(id) if name.ends_with(".partial") => partial.push((name, id)),
            _ => {}
        }
    }
    // One whose name is taken stays as it is.
    let is_free = |name: &str| !folder.join(name.replace("partial", "wedjat")).exists();
    let free = partial.into_iter().filter(|(name, _)| is_free(name));
    expected.extend(free.map(|(_, id)| id));
    store::launches(&folder).unwrap();
    let monitor = Monitor::builder("fuzz", "1").directory(&folder).install();
    drop(monitor.unwrap());
    let reports = store::reports(&folder).unwrap();
    let ids: Vec<u32> = reports
        .iter()
        .filter_map(|stored| stored.read().ok())
        .map(|reading| u32::from_be_bytes(reading.report.head.id[..4].try_into().unwrap()))
        .collect();
    for id in expected {
        // A name may be taken: by what is no report, or by another of this id.
        let is_named = NAMES.iter().any(|name| name.contains(&format!("{id:08x}")));
        assert!(is_named || ids.contains(&id), "{id:08x} is lost");
    }
    drop(reports);
    // A second look finds nothing left to do.
    let before = found(&folder);
    store::reports(&folder).unwrap();
    assert_eq!(found(&folder), before);
    for (name, before) in NAMES.iter().zip(outside) {
        assert_eq!(std::fs::read(PLACE.join(name)).unwrap(), before, "{name}");
    }
    std::fs::remove_dir_all(&*PLACE).unwrap();
});
