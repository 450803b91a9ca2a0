//! Reports over many debug files: frameworks, each in several versions.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use object::{Object, ObjectSymbol, SymbolKind};
use wedjat::new;
use wedjat::report::{
    AppView, ClosedBy, EventKind, EventView, Found, HeadView, ImageView, OsView, RawFrame,
    ReportWriter, ThreadView, WalkEnd,
};

use super::random::Random;

/// Frameworks of one version of the app.
const FRAMEWORKS: usize = 20;
/// Source files of a framework, and functions of each.
const SOURCES: usize = 10;
const FUNCTIONS: usize = 150;
/// Frames of a report.
const FRAMES: usize = 100;
/// Reports in a file.
const PER_FILE: u64 = 100;
/// Images lie at multiples of this.
const STEP: u64 = 1 << 28;
/// Digits of a build id in the file that is compiled.
const ID: [u8; 20] = *b"\x57frameworks-of-fleet";

/// A debug file: its id, and the starts and sizes of its functions.
struct DebugFile {
    name: String,
    id: [u8; 20],
    size: u64,
    functions: Vec<(u64, u64)>,
}

/// Writes `count` reports, each over the frameworks of one version, and `files` debug files.
pub fn write(folder: &Path, count: u64, files: usize, seed: u64) -> Result<(), Box<dyn Error>> {
    let mut random = Random::new(seed);
    let (debug, reports) = (folder.join("debug"), folder.join("reports"));
    std::fs::create_dir_all(&debug)?;
    std::fs::create_dir_all(&reports)?;
    let mut all: Vec<DebugFile> = Vec::with_capacity(files);
    for index in 0..FRAMEWORKS.min(files) {
        let compiled = compile(&folder.join("source"), index)?;
        for version in (index..files).step_by(FRAMEWORKS) {
            let id = std::array::from_fn(|_| random.next() as u8);
            let file = DebugFile {
                name: format!("libframework{index}.so.{version}"),
                id,
                size: compiled.len() as u64,
                functions: functions(&compiled)?,
            };
            std::fs::write(debug.join(&file.name), with_id(&compiled, id)?)?;
            all.push(file);
        }
    }
    // Those of a version lie together.
    let version = |file: &DebugFile| file.name.rsplit('.').next().map(str::parse::<usize>);
    all.sort_by_key(|file| version(file).and_then(Result::ok));
    let versions: Vec<&[DebugFile]> = all.chunks(FRAMEWORKS).collect();
    let mut bytes = Vec::new();
    for number in 0..count {
        let version = versions[random.below(versions.len())];
        bytes.extend(report(version, number, &mut random)?);
        if (number + 1).is_multiple_of(PER_FILE) || number + 1 == count {
            let path = reports.join(format!("{:05}.wedjat", number / PER_FILE));
            std::fs::write(path, &bytes)?;
            bytes.clear();
        }
    }
    println!("{count} reports of {FRAMES} frames over {files} debug files");
    Ok(())
}

/// A framework with its debug information, and [`ID`] as its build id.
fn compile(folder: &Path, index: usize) -> Result<Vec<u8>, Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    let library = folder.join(format!("libframework{index}.so"));
    let mut sources = Vec::new();
    for source in 0..SOURCES {
        let path = folder.join(format!("framework{index}_{source}.c"));
        std::fs::write(&path, text(index, source))?;
        sources.push(path);
    }
    let digits: String = ID.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut compiler = Command::new("cc");
    compiler
        .args(["-g", "-O1", "-w", "-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(format!("-Wl,--build-id=0x{digits}"))
        .args(&sources);
    let output = compiler.output()?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{compiler:?}: {}\n{errors}", output.status).into());
    }
    Ok(std::fs::read(library)?)
}

fn text(index: usize, source: usize) -> String {
    let mut text = String::from(
        "struct order { long id, count; double price; struct order *next; };\nextern volatile long shelf;\n",
    );
    for at in 0..FUNCTIONS {
        let name = format!("{index}_{source}_{at}");
        let _ = writeln!(
            text,
            "static inline __attribute__((always_inline)) long sum_{name}(struct order *order) {{\n    \
             long all = {at};\n    for (; order; order = order->next) all += order->count * shelf;\n    return all;\n}}\n\
             long framework_{name}(struct order *order, long n) {{\n    shelf = n;\n    if (n > {at}) shelf += sum_{name}(order);\n    \
             while (order && order->price > n) order = order->next;\n    return shelf + sum_{name}(order);\n}}"
        );
    }
    if source == 0 {
        text.push_str("volatile long shelf;\n");
    }
    text
}

fn functions(bytes: &[u8]) -> Result<Vec<(u64, u64)>, Box<dyn Error>> {
    let file = object::File::parse(bytes)?;
    let functions = file.symbols().filter(|symbol| {
        symbol.kind() == SymbolKind::Text
            && symbol
                .name()
                .is_ok_and(|name| name.starts_with("framework_"))
    });
    Ok(functions
        .map(|symbol| (symbol.address(), symbol.size()))
        .collect())
}

fn with_id(bytes: &[u8], id: [u8; 20]) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut bytes = bytes.to_vec();
    let at = bytes.windows(ID.len()).position(|window| window == ID);
    let at = at.ok_or("no build id")?;
    bytes[at..at + id.len()].copy_from_slice(&id);
    Ok(bytes)
}

fn report(
    version: &[DebugFile],
    number: u64,
    random: &mut Random,
) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&random.next().to_be_bytes());
    id[8..].copy_from_slice(&number.to_be_bytes());
    let mut buffer = vec![0; 1 << 14];
    let mut writer = ReportWriter::new(&mut buffer, Vec::new());
    let failed = |error| format!("{error}");
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_790_000_000 + number);
    let head = HeadView {
        id,
        launch: id,
        time,
        app: AppView {
            name: "till",
            version: "1.0",
        },
        os: OsView {
            name: "Linux",
            version: "6.1.0",
            ..OsView::default()
        },
        arch: "x86_64",
        pid: 1000,
        ..HeadView::default()
    };
    writer.section(&head).map_err(failed)?;
    let event = EventView {
        kind: EventKind::Crash,
        fatal: true,
        reason: None,
        signal: None,
        name: None,
        message: None,
        location: None,
        class: None,
        thread: None,
        thresholds: None,
        watched: None,
    };
    writer.section(&event).map_err(failed)?;
    let base = |image: usize| 0x7f00_0000_0000 + image as u64 * STEP;
    let frames: Vec<RawFrame> = (0..FRAMES)
        .map(|at| {
            let image = random.below(version.len());
            let functions = &version[image].functions;
            let (start, size) = functions[random.below(functions.len())];
            let offset = random.below(size as usize) as u64;
            new!(RawFrame {
                pc: base(image) + start + offset,
                found: match at {
                    0 => Found::Context,
                    _ => Found::UnwindInfo,
                },
                image: image as u32,
            })
        })
        .collect();
    let thread = ThreadView {
        id: 1000,
        name: Some("main"),
        main: true,
        crashed: true,
        state: None,
        syscall: None,
        cpu: None,
        registers: &[],
        frames: &frames,
        tasks: Default::default(),
        end: Some(WalkEnd::Root),
        omitted: None,
    };
    writer.section(&thread).map_err(failed)?;
    for (index, file) in version.iter().enumerate() {
        let image = ImageView {
            name: &file.name,
            id: &file.id,
            base: base(index),
            base_svma: 0,
            size: file.size,
            arch: Some("x86_64"),
            text_hash: None,
        };
        writer.section(&image).map_err(failed)?;
    }
    Ok(writer.finish(ClosedBy::Writer).map_err(failed)?)
}
