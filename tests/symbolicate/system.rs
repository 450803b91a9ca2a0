//! Frames in Apple's own libraries: named by a dyld shared cache, or by Xcode's `DeviceSupport` folder.
//!
//! The caches are made here, byte by byte, by the layouts of `dyld_cache_format.h` and `loader.h`; which
//! function lies where is written down before any of it is made.

use std::path::Path;

use wedjat::new;
use wedjat::report::{End, Event, EventKind, Found, Frame, Image, Report, Thread};
use wedjat::symbolicate::{DebugFiles, Source, Symbolicated, Symbolicator};

/// Where the cache lies, unslid, and what was added to it in the process of the report.
const BASE: u64 = 0x1_8000_0000;
const SLIDE: u64 = 0x1234_4000;
/// Between two files of a cache, and between two images of one.
const FILE: u64 = 0x100_0000;
const IMAGE: u64 = 0x8000;
/// Where an image's code begins, and how much it is.
const TEXT: u64 = 0x1000;
const TEXT_SIZE: u64 = 0x140;
/// Where functions begin, behind the start of the code: the third has no symbol at all.
const STARTS: [u64; 4] = [0, 0x40, 0x80, 0xc0];

/// An image of a cache.
struct Library {
    path: &'static str,
    uuid: [u8; 16],
    /// Unslid address.
    address: u64,
    /// Exported, with where they begin behind the start of the code.
    exported: &'static [(&'static str, u64)],
    local: &'static [(&'static str, u64)],
}

impl Library {
    /// What a program counter so far into the code is in.
    fn truth(&self, at: u64) -> Option<&'static str> {
        let begin = *STARTS.iter().rfind(|&&start| start <= at)?;
        let named = self.exported.iter().chain(self.local);
        let mut named = named.filter(|(_, start)| *start == begin && at < TEXT_SIZE);
        named.next().map(|(name, _)| *name)
    }
}

fn libraries() -> [Library; 2] {
    [
        Library {
            path: "/System/Library/PrivateFrameworks/UIKitCore.framework/UIKitCore",
            uuid: *b"the kit's UUID..",
            address: BASE + IMAGE,
            exported: &[("_UIApplicationMain", 0), ("_UIGraphicsPop", 0xc0)],
            local: &[("-[UIView _draw:inRect:]", 0x40)],
        },
        Library {
            path: "/usr/lib/system/libsystem_c.dylib",
            uuid: *b"the libc's UUID.",
            address: BASE + FILE + IMAGE,
            exported: &[("_abort", 0), ("_qsort", 0xc0)],
            local: &[("_med3", 0x40)],
        },
    ]
}

/// A file that is written at any place, in any order.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        if self.0.len() < at + bytes.len() {
            self.0.resize(at + bytes.len(), 0);
        }
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn u32s(&mut self, at: usize, numbers: &[u64]) {
        for (index, &number) in numbers.iter().enumerate() {
            let number = u32::try_from(number).unwrap();
            self.put(at + 4 * index, &number.to_le_bytes());
        }
    }

    fn u64s(&mut self, at: usize, numbers: &[u64]) {
        for (index, number) in numbers.iter().enumerate() {
            self.put(at + 8 * index, &number.to_le_bytes());
        }
    }
}

fn name16(text: &str) -> [u8; 16] {
    let mut name = [0; 16];
    name[..text.len()].copy_from_slice(text.as_bytes());
    name
}

/// `nlist_64`s and their names; N_SECT, and N_EXT where exported.
fn symbol_table(library: &Library, symbols: &[(&str, u64, bool)]) -> (Bytes, Vec<u8>) {
    let (mut nlists, mut names) = (Bytes::default(), vec![0]);
    for (index, &(name, start, exported)) in symbols.iter().enumerate() {
        let at = 16 * index;
        nlists.u32s(at, &[names.len() as u64]);
        nlists.put(at + 4, &[0xe | u8::from(exported), 1, 0, 0]);
        nlists.u64s(at + 8, &[library.address + TEXT + start]);
        names.extend(name.as_bytes());
        names.push(0);
    }
    (nlists, names)
}

/// What an image has in `__LINKEDIT`: function starts, symbols and their names, at these offsets.
fn linkedit(
    file: &mut Bytes,
    at: usize,
    library: &Library,
    symbols: &[(&str, u64, bool)],
) -> [u64; 6] {
    // ULEB128 of the distances from the image's start, which all take two bytes or one.
    let mut starts = Vec::new();
    let mut last = 0;
    for start in STARTS {
        let delta = TEXT + start - last;
        last += delta;
        match delta {
            0..0x80 => starts.push(delta as u8),
            _ => starts.extend([delta as u8 & 0x7f | 0x80, (delta >> 7) as u8]),
        }
    }
    starts.push(0);
    let (nlists, names) = symbol_table(library, symbols);
    let nlists_at = at + 0x100;
    let names_at = nlists_at + nlists.0.len();
    file.put(at, &starts);
    file.put(nlists_at, &nlists.0);
    file.put(names_at, &names);
    [
        at as u64,
        starts.len() as u64,
        nlists_at as u64,
        symbols.len() as u64,
        names_at as u64,
        names.len() as u64,
    ]
}

/// An image's headers at `at` of the file; its `__LINKEDIT` lies at address `linked`.
fn headers(file: &mut Bytes, at: usize, library: &Library, linked: u64, tables: [u64; 6]) {
    let [starts, starts_len, nlists, count, names, names_len] = tables;
    let commands = [72 + 80, 72, 24, 24, 16];
    let size: u64 = commands.iter().sum();
    // arm64e, a dylib.
    file.u32s(
        at,
        &[0xfeed_facf, 0x0100_000c, 0x8000_0002, 6, 5, size, 0, 0],
    );
    let mut at = at + 32;
    file.u32s(at, &[0x19, commands[0]]);
    file.put(at + 8, &name16("__TEXT"));
    file.u64s(at + 24, &[library.address, 0x4000, 0, 0x4000]);
    file.u32s(at + 56, &[5, 5, 1, 0]);
    let section = at + 72;
    file.put(section, &name16("__text"));
    file.put(section + 16, &name16("__TEXT"));
    file.u64s(section + 32, &[library.address + TEXT, TEXT_SIZE]);
    file.u32s(section + 48, &[TEXT, 2, 0, 0, 0x8000_0400, 0, 0, 0]);
    at += commands[0] as usize;
    file.u32s(at, &[0x19, commands[1]]);
    file.put(at + 8, &name16("__LINKEDIT"));
    file.u64s(at + 24, &[linked, 0x4000, 0, 0x4000]);
    file.u32s(at + 56, &[1, 1, 0, 0]);
    at += commands[1] as usize;
    file.u32s(at, &[2, commands[2], nlists, count, names, names_len]);
    at += commands[2] as usize;
    file.u32s(at, &[0x1b, commands[3]]);
    file.put(at + 8, &library.uuid);
    at += commands[3] as usize;
    file.u32s(at, &[0x26, commands[4], starts, starts_len]);
}

/// The symbols that an image keeps in a cache: names of local ones are elsewhere.
fn kept(library: &Library) -> Vec<(&'static str, u64, bool)> {
    let exported = library.exported.iter().map(|&(name, at)| (name, at, true));
    let local = library
        .local
        .iter()
        .map(|&(_, at)| ("<redacted>", at, false));
    exported.chain(local).collect()
}

/// `dyld_cache_local_symbols_info` with what it leads to; each entry has `width` bytes for the offset.
fn local_symbols(file: &mut Bytes, at: usize, width: usize) {
    let (mut nlists, mut names, mut entries) = (Vec::new(), vec![0], Vec::new());
    for library in libraries() {
        let of: Vec<_> = library
            .local
            .iter()
            .map(|&(name, at)| (name, at, false))
            .collect();
        let (mut own, own_names) = symbol_table(&library, &of);
        for index in 0..of.len() {
            let shifted = u32::from_le_bytes(own.0[16 * index..][..4].try_into().unwrap());
            own.u32s(16 * index, &[u64::from(shifted) + names.len() as u64]);
        }
        entries.extend(&(library.address - BASE).to_le_bytes()[..width]);
        entries.extend(((nlists.len() / 16) as u32).to_le_bytes());
        entries.extend((of.len() as u32).to_le_bytes());
        nlists.extend(own.0);
        names.extend(own_names);
    }
    let (nlists_at, names_at, entries_at) = (0x40, 0x400, 0x800);
    file.u32s(
        at,
        &[
            nlists_at,
            nlists.len() as u64 / 16,
            names_at,
            names.len() as u64,
            entries_at,
            2,
        ],
    );
    file.put(at + nlists_at as usize, &nlists);
    file.put(at + names_at as usize, &names);
    file.put(at + entries_at as usize, &entries);
}

/// `dyld_cache_image_info` and `dyld_cache_image_text_info` of all images, at 0x600, 0x700 and 0x800.
fn image_tables(file: &mut Bytes) {
    for (index, library) in libraries().iter().enumerate() {
        let path = 0x800 + 0x80 * index;
        file.put(path, library.path.as_bytes());
        file.u64s(0x600 + 32 * index, &[library.address, 0, 0]);
        file.u32s(0x600 + 32 * index + 24, &[path as u64, 0]);
        file.put(0x700 + 32 * index, &library.uuid);
        file.u64s(0x700 + 32 * index + 16, &[library.address]);
        file.u32s(0x700 + 32 * index + 24, &[0x4000, path as u64]);
    }
    file.u64s(0x88, &[0x700, 2]);
}

/// The header of a file of iOS 16's caches and later, with one mapping of the whole file at `address`.
fn new_header(file: &mut Bytes, uuid: &[u8; 16], address: u64) {
    file.put(0, b"dyld_v1  arm64e\0");
    file.u32s(0x10, &[0x200, 1]);
    file.put(0x58, uuid);
    file.u64s(0x68, &[2]);
    file.u64s(0xe0, &[BASE]);
    file.u64s(0x200, &[address, FILE, 0]);
    file.u32s(0x218, &[5, 5]);
    file.u32s(0x138, &[0x240, 1]);
    file.u64s(0x240, &[address, FILE, 0, 0, 0, 0]);
    file.u32s(0x240 + 48, &[5, 5]);
}

/// A cache in four files: an image in each of two, `__LINKEDIT` in the third, local symbols in the last.
fn write_new(folder: &Path) {
    let mut files: Vec<Bytes> = (0..4).map(|_| Bytes::default()).collect();
    let uuids: Vec<[u8; 16]> = (0..4).map(|index| [0xa0 + index; 16]).collect();
    let suffixes = ["", ".01", ".02.dyldlinkedit", ".symbols"];
    for (index, file) in files.iter_mut().enumerate() {
        new_header(file, &uuids[index], BASE + FILE * index as u64);
    }
    image_tables(&mut files[0]);
    files[0].u32s(0x188, &[0x500, 2]);
    for index in 1..3 {
        let entry = 0x500 + 56 * (index - 1);
        files[0].put(entry, &uuids[index]);
        files[0].u64s(entry + 16, &[FILE * index as u64]);
        files[0].put(entry + 24, suffixes[index].as_bytes());
    }
    files[0].put(0x190, &uuids[3]);
    files[0].u32s(0x1c0, &[0x600, 2, 1]);
    for (index, library) in libraries().iter().enumerate() {
        let place = 0x4000 * (index + 1);
        let tables = linkedit(&mut files[2], place, library, &kept(library));
        let linked = BASE + 2 * FILE + place as u64;
        headers(&mut files[index], IMAGE as usize, library, linked, tables);
    }
    local_symbols(&mut files[3], 0x4000, 8);
    files[3].u64s(0x48, &[0x4000, 0x1000]);
    for (file, suffix) in files.iter().zip(suffixes) {
        std::fs::write(
            folder.join(format!("dyld_shared_cache_arm64e{suffix}")),
            &file.0,
        )
        .unwrap();
    }
}

/// The one file of a cache as iOS 14 has it.
fn write_old(folder: &Path) {
    let mut file = Bytes::default();
    file.put(0, b"dyld_v1  arm64e\0");
    file.u32s(0x10, &[0x130, 1, 0x600, 2]);
    file.put(0x58, &[0xa0; 16]);
    file.u64s(0xe0, &[BASE]);
    file.u64s(0x130, &[BASE, 4 * FILE, 0]);
    file.u32s(0x148, &[5, 5]);
    image_tables(&mut file);
    for (index, library) in libraries().iter().enumerate() {
        let place = 0x10_0000 * (index + 1);
        let tables = linkedit(&mut file, place, library, &kept(library));
        let at = (library.address - BASE) as usize;
        headers(&mut file, at, library, BASE + place as u64, tables);
    }
    local_symbols(&mut file, 0x40_0000, 4);
    file.u64s(0x48, &[0x40_0000, 0x1000]);
    std::fs::write(folder.join("dyld_shared_cache_arm64e"), &file.0).unwrap();
}

/// What Xcode takes out of a device's cache: each image as a file, local symbols among the others.
fn write_device_support(folder: &Path) {
    for library in libraries() {
        let mut file = Bytes::default();
        let exported = library.exported.iter().map(|&(name, at)| (name, at, true));
        let local = library.local.iter().map(|&(name, at)| (name, at, false));
        let symbols: Vec<_> = exported.chain(local).collect();
        let tables = linkedit(&mut file, 0x4000, &library, &symbols);
        headers(&mut file, 0, &library, BASE + 3 * FILE, tables);
        let path = folder
            .join("17.0 (21A329)/Symbols")
            .join(&library.path[1..]);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, &file.0).unwrap();
    }
}

/// So far into the code of each image the report's frames are.
fn places() -> impl Iterator<Item = u64> {
    (0..=TEXT_SIZE).step_by(4)
}

/// A main thread in both libraries, at every instruction.
fn report() -> Report {
    let mut report: Report = Report::default();
    let mut thread: Thread = Thread::default();
    for (index, library) in libraries().iter().enumerate() {
        report.images.push(new!(Image {
            id: library.uuid.to_vec(),
            name: library.path.into(),
            base: library.address + SLIDE,
            base_svma: library.address,
            size: 0x4000,
            arch: Some("arm64e".into()),
        }));
        thread.frames.extend(places().map(|at| {
            new!(Frame {
                pc: library.address + SLIDE + TEXT + at,
                found: Found::Context,
                image: Some(index as u32),
            })
        }));
    }
    report.threads.push(thread);
    report
}

fn named(folder: &Path) -> Symbolicated {
    let mut files = DebugFiles::new().no_search();
    let added = files.add(folder).unwrap();
    assert_eq!((added.objects, added.damaged), (2, Vec::new()));
    Symbolicator::new(files).symbolicate(report())
}

/// Every instruction of both libraries has its function's name, and none where no symbol says it.
#[track_caller]
fn assert_named(of: &Symbolicated) {
    let mut frames = of.threads[0].frames.iter();
    for library in libraries() {
        for at in places() {
            let frame = frames.next().unwrap();
            let found = frame
                .frames
                .first()
                .and_then(|frame| frame.mangled.as_deref());
            let truth = library
                .truth(at)
                .map(|name| name.strip_prefix('_').unwrap_or(name));
            assert_eq!(found, truth, "{} {at:#x}", library.path);
            assert!(
                frame
                    .frames
                    .iter()
                    .all(|frame| frame.source == Source::Symbols)
            );
        }
    }
    assert!(
        of.missing
            .iter()
            .all(|missing| missing.symbols && missing.system)
    );
}

#[test]
fn a_shared_cache_in_several_files_names_its_images() {
    let folder = tempfile::tempdir().unwrap();
    write_new(folder.path());
    assert_named(&named(folder.path()));
    assert_named(&named(&folder.path().join("dyld_shared_cache_arm64e")));
}

#[test]
fn a_shared_cache_in_one_file_names_its_images() {
    let folder = tempfile::tempdir().unwrap();
    write_old(folder.path());
    assert_named(&named(folder.path()));
}

#[test]
fn device_support_names_its_images() {
    let folder = tempfile::tempdir().unwrap();
    let support = folder.path().join("iOS DeviceSupport");
    write_device_support(&support);
    assert_named(&named(&support));
}

/// A part that was not copied is reported as missing; wrong bytes end no process.
#[test]
fn a_damaged_shared_cache_does_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    write_new(folder.path());
    let main = folder.path().join("dyld_shared_cache_arm64e");
    let part = folder
        .path()
        .join("dyld_shared_cache_arm64e.02.dyldlinkedit");
    let aside = folder.path().join("aside");
    std::fs::rename(&part, &aside).unwrap();
    let error = DebugFiles::new().add(&main).unwrap_err().to_string();
    assert!(error.contains("arm64e.02.dyldlinkedit"), "{error}");
    std::fs::rename(&aside, &part).unwrap();

    let whole = std::fs::read(&main).unwrap();
    let headers = (0..0x280).chain(IMAGE as usize..IMAGE as usize + 0x140);
    for at in headers.chain(0x500..0x740).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x41;
        std::fs::write(&main, &bytes).unwrap();
        let mut files = DebugFiles::new().no_search();
        if files.add(&main).is_ok() {
            Symbolicator::new(files).symbolicate(report());
        }
    }
    std::fs::write(&main, &whole[..whole.len() / 2]).unwrap();
    let mut files = DebugFiles::new().no_search();
    if files.add(&main).is_ok() {
        Symbolicator::new(files).symbolicate(report());
    }
}

/// With neither, all of them are one line.
#[test]
fn what_the_system_lacks_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let mut report = report();
    for image in &mut report.images {
        image.id[0] ^= 1;
    }
    report.images.extend([3, 4].map(|index: u8| {
        new!(Image {
            id: vec![index; 16],
            name: format!("/System/Library/Frameworks/F{index}.framework/F{index}"),
            base: u64::from(index) << 40,
            size: 0x1000,
        })
    }));
    let more = [(3u64, 2), (4, 3)].map(|(base, image)| {
        new!(Frame {
            pc: base << 40,
            found: Found::Context,
            image: Some(image),
        })
    });
    report.threads[0].frames.extend(more);
    report.event = Some(new!(Event {
        kind: EventKind::Live,
    }));
    report.end = Some(new!(End {
        closed_by: "writer".into(),
    }));
    let path = folder.path().join("a.wedjat");
    std::fs::write(&path, wedjat::report::to_bytes(&report)).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_symbolicate"))
        .args(["--no-cache", "--color", "never"])
        .arg(&path)
        .output()
        .unwrap();
    let (text, printed) = (String::from_utf8_lossy(&output.stdout), output.stderr);
    let printed = String::from_utf8_lossy(&printed);
    let lines = text.lines().filter(|line| line.contains("system: "));
    let lines: Vec<&str> = lines.map(str::trim).collect();
    let expected = "system: UIKitCore, libsystem_c.dylib, F3 and 1 more  \
                    (Xcode's DeviceSupport folder, or a dyld shared cache, names them)";
    assert_eq!(lines, [expected], "{text}\n{printed}");
}
