//! Reports of one bug are one group, whichever recorder, system, device and build they came from.
//!
//! The set: each bug is a path through the program of `testdata/macho`, in C, C++ and Rust, some of whose functions are
//! inlined. What lies at which address llvm-dwarfdump has said (`testdata/macho/golden`). Of each bug reports are written
//! for arm64 and x86_64, for three systems with their own frames, load addresses and devices, as our own reports, `.crash`
//! text, `.ips` and MetricKit's JSON: with addresses alone, as of builds whose dSYM is here; and as text and `.ips` of a
//! build whose dSYM is nowhere, with the names of functions that the device has found, which knows no inlined ones.
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};
use wedjat::new;
use wedjat::report::{self, Event, EventKind, Found, Frame, Image, Report, Signal, Thread};
use wedjat::symbolicate::group::Member;
use wedjat::symbolicate::{DebugFiles, Symbolicator, import};

fn testdata(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(path)
}

/// Link-time address of the program.
const STATED: u64 = 0x1_0000_0000;

/// An address in the program, and the names of the functions there, innermost first.
#[derive(Clone)]
struct Place {
    svma: u64,
    names: Vec<String>,
}

/// The program for one architecture.
struct Program {
    arch: &'static str,
    id: String,
    /// By the functions as the source has them: instances of one template are one function.
    places: BTreeMap<Vec<String>, Vec<Place>>,
}

/// A function as the source has it: without what stands in `<…>` and `(…)`, but for `(anonymous namespace)`.
fn source_name(name: &str) -> String {
    let name = name
        .replace("(anonymous namespace)", "anonymous")
        .replace("->", "");
    let (mut text, mut depth) = (String::new(), 0);
    // `<A as B>::c` of Rust is a name of its own.
    if name.starts_with('<') {
        return name;
    }
    for c in name.chars() {
        match c {
            '<' | '(' => depth += 1,
            '>' | ')' => depth -= 1,
            c if depth == 0 => text.push(c),
            _ => {}
        }
    }
    let text = text.trim_end_matches(" const").trim_end_matches("::");
    text.rsplit(' ').next().unwrap_or(text).to_owned()
}

impl Program {
    fn read(arch: &'static str) -> Program {
        let golden =
            std::fs::read_to_string(testdata(&format!("macho/golden/{arch}.ndjson"))).unwrap();
        let id = std::fs::read_to_string(testdata(&format!("macho/golden/{arch}.uuid"))).unwrap();
        let mut places: BTreeMap<Vec<String>, Vec<Place>> = BTreeMap::new();
        for line in golden.lines() {
            let line: Json = serde_json::from_str(line).unwrap();
            let frames = line["frames"].as_array().unwrap();
            let names: Vec<String> = frames
                .iter()
                .filter_map(|frame| Some(frame["function"].as_str()?.to_owned()))
                .collect();
            // Of the app's own functions alone: those of Rust's library are in no group's key.
            let is_own = |name: &String| {
                !["core::", "<core::", "<u", "alloc::"]
                    .iter()
                    .any(|of| name.starts_with(of))
            };
            if names.is_empty() || !names.iter().all(is_own) {
                continue;
            }
            let svma = u64::from_str_radix(&line["address"].as_str().unwrap()[2..], 16).unwrap();
            let key = names.iter().map(|name| source_name(name)).collect();
            places.entry(key).or_default().push(Place { svma, names });
        }
        Program {
            arch,
            id: id.trim().to_owned(),
            places,
        }
    }
}

/// Numbers that look random (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

/// A system, and the frames that its run loop has below the app's.
const SYSTEMS: [(&str, &str, &str, &[&str]); 3] = [
    (
        "iPhone OS",
        "15.8.1 (19H380)",
        "iPhone9,1",
        &[
            "CFRunLoopRunSpecific",
            "GSEventRunModal",
            "UIApplicationMain",
            "start",
        ],
    ),
    (
        "iPhone OS",
        "17.4 (21E219)",
        "iPhone15,2",
        &[
            "__CFRunLoopRun",
            "CFRunLoopRunSpecific",
            "-[UIApplication _run]",
            "start",
        ],
    ),
    (
        "macOS",
        "14.4 (23E214)",
        "Mac14,2",
        &["-[NSApplication run]", "NSApplicationMain", "start"],
    ),
];

/// One report to be written: frames innermost first, as link-time address and the function's name.
struct Story<'a> {
    program: &'a Program,
    own: Vec<Place>,
    system: usize,
    base: u64,
    /// Id of the image: the program's, or one of a build whose dSYM is nowhere.
    id: String,
    named: bool,
}

const SYSTEM_BASE: u64 = 0x1_a000_0000;

impl Story<'_> {
    /// Address, name if there is one, and whether it lies in the app; innermost first.
    fn frames(&self) -> Vec<(u64, Option<&str>, bool)> {
        let own = self.own.iter().map(|place| {
            // The device names the function that holds the code, and none inlined into it.
            let name = place
                .names
                .last()
                .map(String::as_str)
                .filter(|_| self.named);
            (place.svma - STATED + self.base, name, true)
        });
        let system = SYSTEMS[self.system].3.iter().zip(1..);
        own.chain(system.map(|(name, at)| (SYSTEM_BASE + at * 0x1000, Some(*name), false)))
            .collect()
    }

    fn ours(&self) -> Vec<u8> {
        let (os, version, device, _) = SYSTEMS[self.system];
        let mut report = Report::default();
        report.head.app.name = "kiosk".into();
        (report.head.os.name, report.head.os.version) = (os.into(), version.into());
        report.head.device = Some(device.into());
        report.head.arch = self.program.arch.into();
        report.event = Some(new!(Event {
            kind: EventKind::Crash,
            fatal: true,
            signal: Some(new!(Signal {
                number: 11,
                name: "SIGSEGV".into(),
            })),
        }));
        let id = self.id.replace('-', "");
        let id = (0..16).map(|at| u8::from_str_radix(&id[2 * at..2 * at + 2], 16).unwrap());
        report.images = vec![
            new!(Image {
                name: PATH.into(),
                id: id.collect(),
                base: self.base,
                base_svma: STATED,
                size: 0x8000,
                arch: Some(self.program.arch.into()),
            }),
            new!(Image {
                name: "/usr/lib/system/libfixture.dylib".into(),
                base: SYSTEM_BASE,
                size: 0x10_0000,
            }),
        ];
        let frames = self
            .frames()
            .into_iter()
            .enumerate()
            .map(|(at, (pc, name, own))| {
                new!(Frame {
                    pc,
                    found: if at == 0 {
                        Found::Context
                    } else {
                        Found::UnwindInfo
                    },
                    image: Some(u32::from(!own)),
                    name: name.map(str::to_owned),
                })
            });
        report.threads = vec![new!(Thread {
            main: true,
            crashed: true,
            frames: frames.collect(),
        })];
        report::to_bytes(&report)
    }

    fn text(&self) -> Vec<u8> {
        let (os, version, device, _) = SYSTEMS[self.system];
        let (code, arch) = match self.program.arch {
            "arm64" => ("ARM-64 (Native)", "arm64"),
            other => ("X86-64 (Native)", other),
        };
        let mut text = format!(
            "Hardware Model:      {device}\nProcess:             kiosk [77]\nPath:                {PATH}\n\
             Identifier:          com.example.kiosk\nVersion:             2.1 (77)\nCode Type:           {code}\n\n\
             OS Version:          {os} {version}\nReport Version:      104\n\nException Type:  EXC_BAD_ACCESS (SIGSEGV)\n\
             Triggered by Thread:  0\n\nThread 0 Crashed:\n"
        );
        for (number, (pc, name, own)) in self.frames().into_iter().enumerate() {
            let (image, base) = if own {
                ("kiosk", self.base)
            } else {
                ("libfixture.dylib", SYSTEM_BASE)
            };
            let _ = match name {
                Some(name) => writeln!(text, "{number:<4}{image:<30}\t{pc:#018x} {name} + 12"),
                None => writeln!(
                    text,
                    "{number:<4}{image:<30}\t{pc:#018x} {base:#x} + {}",
                    pc - base
                ),
            };
        }
        let id = self.id.replace('-', "").to_lowercase();
        let _ = write!(
            text,
            "\nBinary Images:\n{:#x} - {:#x} kiosk {arch} <{id}> {PATH}\n{SYSTEM_BASE:#x} - {:#x} libfixture.dylib {arch} \
             <11111111111111111111111111111111> /usr/lib/system/libfixture.dylib\n\nEOF\n",
            self.base,
            self.base + 0x7fff,
            SYSTEM_BASE + 0xf_ffff
        );
        text.into_bytes()
    }

    fn ips(&self) -> Vec<u8> {
        let (os, version, device, _) = SYSTEMS[self.system];
        let frames: Vec<Json> = self
            .frames()
            .into_iter()
            .map(|(pc, name, own)| {
                let base = if own { self.base } else { SYSTEM_BASE };
                let mut frame = json!({"imageIndex": u8::from(!own), "imageOffset": pc - base});
                if let Some(name) = name {
                    (frame["symbol"], frame["symbolLocation"]) = (json!(name), json!(12));
                }
                frame
            })
            .collect();
        let header = json!({"bug_type": "309", "app_name": "kiosk", "app_version": "2.1", "bundleID": "com.example.kiosk",
            "os_version": format!("{os} {version}")});
        let body = json!({"procName": "kiosk", "procPath": PATH, "modelCode": device, "pid": 77, "cpuType": self.program.arch,
            "bundleInfo": {"CFBundleIdentifier": "com.example.kiosk", "CFBundleShortVersionString": "2.1"},
            "osVersion": {"train": format!("{os} {version}")},
            "exception": {"type": "EXC_BAD_ACCESS", "signal": "SIGSEGV"}, "faultingThread": 0,
            "threads": [{"triggered": true, "frames": frames}],
            "usedImages": [
                {"source": "P", "arch": self.program.arch, "base": self.base, "size": 0x8000, "uuid": self.id, "path": PATH,
                 "name": "kiosk"},
                {"source": "P", "arch": self.program.arch, "base": SYSTEM_BASE, "size": 0x10_0000,
                 "uuid": "11111111-1111-1111-1111-111111111111", "path": "/usr/lib/system/libfixture.dylib",
                 "name": "libfixture.dylib"}]});
        format!("{header}\n{body}\n").into_bytes()
    }

    fn metrickit(&self) -> Vec<u8> {
        let (os, version, device, _) = SYSTEMS[self.system];
        let mut tree: Option<Json> = None;
        // Its root is the innermost frame.
        for (pc, _, own) in self.frames().into_iter().rev() {
            let (name, id, base) = if own {
                ("kiosk", self.id.as_str(), self.base)
            } else {
                (
                    "libfixture.dylib",
                    "11111111-1111-1111-1111-111111111111",
                    SYSTEM_BASE,
                )
            };
            let mut frame = json!({"binaryName": name, "binaryUUID": id, "address": pc, "offsetIntoBinaryTextSegment": pc - base,
                "sampleCount": 1});
            if let Some(tree) = tree {
                frame["subFrames"] = json!([tree]);
            }
            tree = Some(frame);
        }
        json!({"timeStampBegin": "2024-05-01 00:00:00", "timeStampEnd": "2024-05-01 10:00:00", "crashDiagnostics": [{
            "version": "1.0.0", "diagnosticMetaData": {"appVersion": "2.1", "appBuildVersion": "77",
                "osVersion": format!("{os} {version}"), "deviceType": device, "platformArchitecture": self.program.arch,
                "bundleIdentifier": "com.example.kiosk", "exceptionType": 1, "signal": 11},
            "callStackTree": {"callStackPerThread": true, "callStacks": [
                {"threadAttributed": true, "callStackRootFrames": [tree]}]}}]})
        .to_string()
        .into_bytes()
    }
}

const PATH: &str = "/private/var/containers/Bundle/Application/1/kiosk.app/kiosk";
const BUGS: usize = 60;

#[test]
fn one_bug_is_one_group_over_formats_systems_and_devices() {
    let programs = [Program::read("arm64"), Program::read("x86_64")];
    // What both compilers have made of the source: paths of which each architecture has an address.
    let common: Vec<&Vec<String>> = programs[0]
        .places
        .keys()
        .filter(|key| programs[1].places.contains_key(*key))
        .collect();
    assert!(common.len() >= 15, "{common:?}");
    let mut files = DebugFiles::new().no_search();
    for arch in ["arm64", "x86_64"] {
        files
            .add(&testdata(&format!("macho/{arch}/kiosk.dSYM")))
            .unwrap();
    }
    let symbolicator = Symbolicator::new(files);
    let mut random = Random(4711);
    let mut bugs: Vec<Vec<&Vec<String>>> = Vec::new();
    while bugs.len() < BUGS {
        let len = 2 + random.below(3);
        let bug: Vec<&Vec<String>> = (0..len)
            .map(|_| common[random.below(common.len())])
            .collect();
        let flat = |bug: &Vec<&Vec<String>>| -> Vec<String> {
            bug.iter().flat_map(|part| part.iter().cloned()).collect()
        };
        // A function that calls itself is no bug of its own.
        let repeats = bug.windows(2).any(|pair| pair[0].last() == pair[1].first());
        let leads_out = bug
            .iter()
            .any(|part| part.last().is_some_and(|name| name == "main"));
        if !repeats && !leads_out && !bugs.iter().any(|known| flat(known) == flat(&bug)) {
            bugs.push(bug);
        }
    }
    // Those named by our debug files; those of bugs in which nothing is inlined, named by the device, too; all.
    let mut sets = [Counts::new(), Counts::new(), Counts::new()];
    for (number, bug) in bugs.iter().enumerate() {
        for at in 0..24 {
            let program = &programs[random.below(2)];
            let place = |random: &mut Random, key: &Vec<String>| {
                let places = &program.places[key];
                places[random.below(places.len())].clone()
            };
            let mut own: Vec<Place> = bug.iter().map(|key| place(&mut random, key)).collect();
            // Callers hold the address behind their call.
            own[1..].iter_mut().for_each(|place| place.svma += 1);
            let named = at % 4 == 3;
            let story = Story {
                program,
                own,
                system: random.below(SYSTEMS.len()),
                base: 0x1_0000_0000 + 0x4000 * (1 + random.below(0x1000) as u64),
                id: if named {
                    format!("{:08X}-5555-3144-A15D-8DB1B87DBB83", random.below(1 << 32))
                } else {
                    program.id.clone()
                },
                named,
            };
            let bytes = match (named, random.below(4)) {
                (_, 0) | (true, 1) => story.text(),
                (_, 1) | (true, _) => story.ips(),
                (_, 2) => story.metrickit(),
                _ => story.ours(),
            };
            let readings = match import::detect(&bytes) {
                Some(_) => import::read(&bytes).unwrap(),
                None => vec![report::read(&bytes).unwrap()],
            };
            for reading in readings {
                let found = symbolicator.symbolicate_reading(reading);
                let member = Member::new("", &found);
                if std::env::var_os("WEDJAT_SHOW").is_some() {
                    println!("{number}\t{named}\t{}\t{:?}", program.arch, member.stack);
                }
                let is_plain = bug.iter().all(|part| part.len() == 1);
                for (set, is_in) in sets.iter_mut().zip([!named, is_plain, true]) {
                    *set.entry((member.key, number)).or_default() += u64::from(is_in);
                }
            }
        }
    }
    let [dsyms, plain, all] = sets.map(|counts| score(&counts));
    println!(
        "precision and recall: {dsyms:?} with debug files, {plain:?} without inlined functions, {all:?} of all"
    );
    assert!(dsyms.0 >= 0.97 && dsyms.1 >= 0.85, "{dsyms:?}");
    assert!(plain.0 >= 0.97 && plain.1 >= 0.85, "{plain:?}");
    assert!(all.0 >= 0.97, "{all:?}");
}

/// Reports of each bug in each group.
type Counts = HashMap<(u128, usize), u64>;

/// Precision and recall over all pairs of reports.
fn score(counts: &Counts) -> (f64, f64) {
    let (mut groups, mut bugs) = (HashMap::<u128, u64>::new(), HashMap::<usize, u64>::new());
    for ((key, bug), count) in counts {
        *groups.entry(*key).or_default() += count;
        *bugs.entry(*bug).or_default() += count;
    }
    let pairs = |count: &u64| *count as f64 * (*count as f64 - 1.0) / 2.0;
    let both: f64 = counts.values().map(pairs).sum();
    let together: f64 = groups.values().map(pairs).sum();
    let belong: f64 = bugs.values().map(pairs).sum();
    (both / together, both / belong)
}
