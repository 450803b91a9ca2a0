//! Reports, debug files and names with damage at random: none makes the command fail, and none takes long.
//!
//! `WEDJAT_MUTATIONS=1` tries 100,000 reports of each layout, 20,000 debug files of each container and 1,000,000 names, as
//! `.ci/long strangers` does; another number tries so much less. Without it a thousandth.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use object::{Object as _, ObjectSymbol as _};
use wedjat::new;
use wedjat::report::{self, Found, Frame, Image, Report, Thread};
use wedjat::symbolicate::format::{Folded, Format, Html, Json, Style, Text, Top, TopLayout};
use wedjat::symbolicate::{Addresses, DebugFiles, Symbolicator, demangled, import};

use super::DSYM;
use crate::support::symbolicate::Workshop;

/// Time for one input: a hundred times more than they take.
const LIMIT: Duration = Duration::from_secs(10);

fn share(of_all: usize) -> usize {
    let less = std::env::var("WEDJAT_MUTATIONS").map_or(1000, |less| less.parse().unwrap());
    of_all.div_ceil(less)
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) as usize % bound.max(1)
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    fn part(&mut self, len: usize) -> std::ops::Range<usize> {
        let start = self.below(len);
        start..(start + 1 + self.below(64)).min(len)
    }

    /// One of `inputs` with some changes, parts of the others among them.
    fn mutated(&mut self, inputs: &[Vec<u8>]) -> Vec<u8> {
        const WORDS: [&[u8]; 10] = [
            b"0",
            b"-1",
            b"4294967295",
            b"18446744073709551616",
            b"\xff\xff\xff\xff",
            b"\0\0\0\0",
            b"\n\n",
            b"{[",
            b"\"",
            b"0x",
        ];
        let mut bytes = self.of(inputs).clone();
        for _ in 0..1 + self.below(6) {
            let part = self.part(bytes.len());
            match self.below(8) {
                0..3 if !bytes.is_empty() => {
                    let to = [0, 0xff, 0x7f, 0x80, self.below(256) as u8];
                    bytes[part.start] = *self.of(&to);
                }
                3 => drop(bytes.drain(part)),
                4 => {
                    let again = bytes[part.clone()].repeat(1 + self.below(20));
                    bytes.splice(part, again);
                }
                5 => {
                    let other = self.of(inputs);
                    let from = self.part(other.len());
                    bytes.splice(part, other[from].iter().copied());
                }
                6 if self.below(4) == 0 => bytes.truncate(part.start),
                _ => {
                    let word = *self.of(&WORDS);
                    bytes.splice(part.start..part.start, word.iter().copied());
                }
            }
        }
        bytes
    }
}

/// Counts what was tried, and keeps what failed.
#[derive(Default)]
struct Tried {
    counts: BTreeMap<String, (usize, Duration)>,
    failed: Vec<String>,
}

impl Tried {
    fn one(&mut self, kind: &str, input: &[u8], work: impl FnOnce()) {
        let began = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(work));
        let took = began.elapsed();
        let (count, worst) = self.counts.entry(kind.to_owned()).or_default();
        (*count, *worst) = (*count + 1, took.max(*worst));
        if result.is_err() || took > LIMIT {
            let number = self.failed.len();
            let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{kind}-{number}"));
            std::fs::write(&path, input).unwrap();
            self.failed.push(format!("{} ({took:?})", path.display()));
        }
    }

    fn conclude(self) {
        for (kind, (count, worst)) in &self.counts {
            println!("{kind}: {count}, {worst:?} at most");
        }
        assert!(self.failed.is_empty(), "{:#?}", self.failed);
    }
}

/// All files below a folder.
fn files(folder: &str) -> Vec<PathBuf> {
    let below = walkdir::WalkDir::new(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder));
    let files = below.sort_by_file_name().into_iter().flatten();
    files
        .filter(|file| file.file_type().is_file())
        .map(|file| file.into_path())
        .collect()
}

#[test]
fn reports_of_each_layout() {
    let mut layouts: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    for path in ["testdata/foreign", "testdata/imported", "testdata/reports"]
        .map(files)
        .concat()
    {
        let bytes = std::fs::read(&path).unwrap();
        let layout = match import::detect(&bytes) {
            Some(layout) => layout.as_str().to_owned(),
            None if path.extension().is_some_and(|ending| ending == "wedjat") => {
                "wedjat".to_owned()
            }
            None if path.ends_with("tombstone.txt") => "tombstone".to_owned(),
            None => continue,
        };
        layouts.entry(layout).or_default().push(bytes);
    }
    assert!(layouts.len() >= 14, "{:?}", layouts.keys());
    let mut given = DebugFiles::new().no_search();
    given.add(DSYM.as_ref()).unwrap();
    let symbolicator = Symbolicator::new(given);
    let (mut tried, mut random) = (Tried::default(), Random(0x9e37_79b9_7f4a_7c15));
    for (layout, inputs) in &layouts {
        for number in 0..share(100_000) {
            let bytes = random.mutated(inputs);
            tried.one(layout, &bytes, || read(&symbolicator, &bytes, number));
        }
    }
    tried.conclude();
}

fn read(symbolicator: &Symbolicator, bytes: &[u8], number: usize) {
    let readings = match import::detect(bytes) {
        Some(_) => import::read(bytes).unwrap_or_default(),
        None => report::read(bytes).into_iter().collect(),
    };
    for reading in readings.into_iter().take(4) {
        let named = symbolicator.symbolicate_reading(reading);
        let style = Style::default();
        let printed = match number % 5 {
            0 => print(Text::default(), &style, &named),
            1 => print(Json::default(), &style, &named),
            2 => print(Folded::default(), &style, &named),
            3 => print(Html::default(), &style, &named),
            _ => print(Top::new(3, TopLayout::Text, style.clone()), &style, &named),
        };
        let text = String::from_utf8(printed).expect("all formats are text");
        let is_command = |c: char| {
            (c.is_control() && !matches!(c, '\n' | '\t'))
                || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        assert!(!text.contains(is_command), "{text:?}");
    }
}

fn print<F: Format>(
    mut format: F,
    style: &Style,
    named: &wedjat::symbolicate::Symbolicated,
) -> Vec<u8> {
    let mut out = Vec::new();
    format.report(style, "1", named, &mut out).unwrap();
    format.finish(&mut out).unwrap();
    out
}

#[test]
fn debug_files_of_each_container() {
    let source = "volatile int sink;\nstatic inline void inner(int n) { sink = n; }\nint outer(int n) { inner(n); return n; }\nint main(int n) { return outer(n); }\n";
    let shop = Workshop::new(&[("a.c", source)]);
    shop.run("gcc -g -O1 -fPIC -shared -nostdlib -Wl,--build-id=sha1 a.c -o plain.so");
    shop.run("gcc -g -gz -O1 -fPIC -shared -nostdlib -Wl,--build-id=sha1 a.c -o packed.so");
    shop.run("gcc -g -O1 -c a.c -o unlinked.o");
    shop.run("gcc -g -gsplit-dwarf -O1 -c a.c -o split.o");
    shop.run("ar rc archive.a unlinked.o");
    let of_shop = [
        "plain.so",
        "packed.so",
        "unlinked.o",
        "split.o",
        "split.dwo",
        "archive.a",
    ];
    let mut containers: Vec<(String, PathBuf)> = of_shop
        .map(|name| (name.to_owned(), shop.path(name)))
        .to_vec();
    containers.push(("mach-o".to_owned(), DSYM.into()));
    for path in files("testdata/macho/universal") {
        let bytes = std::fs::read(&path).unwrap();
        if bytes.starts_with(b"\xca\xfe\xba\xbe") {
            let name = path.file_name().unwrap().to_str().unwrap();
            containers.push((format!("universal-{name}"), path));
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let (mut tried, mut random) = (Tried::default(), Random(0x2545_f491_4f6c_dd1d));
    for (name, whole) in &containers {
        let inputs = [std::fs::read(whole).unwrap()];
        for _ in 0..share(20_000) {
            let bytes = random.mutated(&inputs);
            // A new file each time: the one before may still be mapped.
            let _ = std::fs::remove_file(&path);
            std::fs::write(&path, &bytes).unwrap();
            tried.one(name, &bytes, || look(&path));
        }
    }
    tried.conclude();
}

/// Asks for addresses where the code of small files lies, by address and by a report.
fn look(path: &Path) {
    let mut files = DebugFiles::new().no_search();
    if files.add(path).is_err() {
        return;
    }
    let low = (0..0x2000).step_by(0x20);
    let places = low.chain((0x1_0000_0000..0x1_0000_8000_u64).step_by(0x200));
    if let Ok(addresses) = Addresses::new(&files, None, None) {
        places
            .clone()
            .for_each(|address| drop(addresses.frames(address)));
    }
    let ids: Vec<Vec<u8>> = files.ids().map(<[u8]>::to_vec).collect();
    let mut report = Report::default();
    for (id, index) in ids.into_iter().take(4).zip(0..) {
        report.images.push(new!(Image { id, size: u64::MAX }));
        let frame = |pc| {
            new!(Frame {
                pc,
                found: Found::UnwindInfo,
                image: Some(index),
            })
        };
        report.threads.push(new!(Thread {
            frames: places.clone().map(frame).collect(),
        }));
    }
    Symbolicator::new(files).symbolicate(report);
}

#[test]
fn names() {
    let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let own = file.symbols().filter_map(|symbol| symbol.name().ok());
    let own = own
        .filter(|name| name.starts_with("_"))
        .step_by(97)
        .take(2_000);
    let others = [
        "_ZN2ns3payERKSt6vectorIiSaIiEE",
        "_ZZN1aC4IZ1fvEUlvE_EEOT_ENKUlvE_clEv",
        "_ZNSt8functionIFvSt10shared_ptrIN5boost4asio10io_contextEEEEC2IZN3app4mainEvEUlT_E_vEES6_",
        "_ZN1aI1bILi3EEdlEPvSt11align_val_tU7enable_ifILb1EE",
        "$s4main4CartC5total3forSdSS_tYaKFTY0_",
        "$s4main7StorageV_5value4Wrap33_0A0LLVyAA3FooVGAA8ProtocolA2aDP3runyyFTW",
        "_TtC4main4Cart",
        "_RNvMs_NtCs1234_7mycrate3fooINtB4_3BarpE3baz",
        "_RINvNtC3std3mem8align_ofNtNtC3std3mem12DiscriminantE",
    ];
    let inputs: Vec<Vec<u8>> = own.chain(others).map(|name| name.into()).collect();
    let (mut tried, mut random) = (Tried::default(), Random(0x1234_5678_9abc_def1));
    for _ in 0..share(1_000_000) {
        let name = random.mutated(&inputs);
        let name = String::from_utf8_lossy(&name);
        tried.one("names", name.as_bytes(), || drop(demangled(&name)));
    }
    tried.conclude();
}
