//! The symbolicator as a library: shared between threads, lazy, and bounded in what it keeps open.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSymbol};
use wedjat::new;
use wedjat::report::{Found, Frame, Image, Report, Thread};
use wedjat::symbolicate::{Addresses, DebugFiles, Symbolicated, Symbolicator};

const SLIDE: u64 = 0x10_0000;

/// A program whose one function of its own has the given name, and its report with a frame in it.
fn program(folder: &Path, name: &str) -> Report {
    let source = folder.join(format!("{name}.c"));
    let text = format!(
        "int {name}(int n) {{\n  return n + 1;\n}}\nint main(void) {{ return {name}(1); }}\n"
    );
    std::fs::write(&source, text).unwrap();
    let path = folder.join(name);
    let mut gcc = Command::new("gcc");
    gcc.args(["-g", "-O0", "-Wl,--build-id=sha1", "-o"])
        .arg(&path)
        .arg(&source);
    assert!(gcc.status().expect("gcc is needed for this test").success());
    let data = std::fs::read(&path).unwrap();
    let file = object::File::parse(&*data).unwrap();
    let function = file.symbols().find(|s| s.name() == Ok(name)).unwrap();
    let mut report = Report::default();
    report.images.push(new!(Image {
        name: format!("/no/such/folder/{name}"),
        id: file.build_id().unwrap().unwrap().to_vec(),
        base: SLIDE,
        size: 0x10000,
    }));
    report.threads.push(new!(Thread {
        frames: vec![new!(Frame {
            pc: SLIDE + function.address(),
            found: Found::Context,
            image: Some(0),
        })],
    }));
    report
}

fn programs(folder: &Path, count: usize) -> Vec<(String, Report)> {
    let name = |i: usize| format!("function_of_program_{i}");
    (0..count)
        .map(|i| (name(i), program(folder, &name(i))))
        .collect()
}

/// The files below `folder` that this process has mapped.
fn mapped(folder: &Path) -> BTreeSet<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let paths = maps
        .lines()
        .filter_map(|line| Some(PathBuf::from(&line[line.find('/')?..])));
    paths.filter(|path| path.starts_with(folder)).collect()
}

fn name_of(symbolicator: &Symbolicator, report: &Report) -> Option<String> {
    let result = symbolicator.symbolicate(report.clone());
    let frame = result.threads[0].frames[0].frames.first()?.clone();
    assert_eq!(frame.line, Some(1));
    Some(frame.function?.to_string())
}

/// A compile-time promise of the documentation.
#[test]
fn a_symbolicator_is_send_and_sync() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<DebugFiles>();
    shared::<Symbolicator>();
    shared::<Addresses>();
}

#[test]
fn files_are_opened_when_needed_and_so_many_stay_open() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().canonicalize().unwrap();
    let programs = programs(&real, 6);
    let mut files = DebugFiles::new().no_search().limit(2);
    assert_eq!(files.add(&real).unwrap().objects, 6);
    let symbolicator = Symbolicator::new(files);
    assert_eq!(mapped(&real).len(), 0, "only headers were read, and let go");
    // Twice over, so that closed ones are opened again.
    for (name, report) in programs.iter().chain(&programs) {
        assert_eq!(name_of(&symbolicator, report).as_ref(), Some(name));
        let open = mapped(&real);
        assert!(
            open.contains(&real.join(name)) && open.len() <= 2,
            "{open:?}"
        );
    }
    // Of two that stay open, the one used last is kept.
    name_of(&symbolicator, &programs[0].1);
    name_of(&symbolicator, &programs[1].1);
    name_of(&symbolicator, &programs[0].1);
    name_of(&symbolicator, &programs[2].1);
    assert_eq!(
        mapped(&real),
        [real.join(&programs[0].0), real.join(&programs[2].0)].into()
    );
    drop(symbolicator);
    assert_eq!(mapped(&real).len(), 0);
}

#[test]
fn many_threads_share_one_symbolicator_that_keeps_fewer_files_than_they_use() {
    let folder = tempfile::tempdir().unwrap();
    let programs = programs(folder.path(), 5);
    let mut files = DebugFiles::new().no_search().limit(2);
    files.add(folder.path()).unwrap();
    let symbolicator = Symbolicator::new(files);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (symbolicator, programs) = (&symbolicator, &programs);
            scope.spawn(move || {
                for turn in 0..100 {
                    let (name, report) = &programs[(thread + turn * 3) % programs.len()];
                    assert_eq!(name_of(symbolicator, report).as_ref(), Some(name));
                }
            });
        }
    });
}

/// Hundreds of files in folders of folders: found on one thread and on several; and a file that was replaced since is
/// never believed to be the old one.
#[test]
fn a_folder_of_many_is_found_on_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let made = tempfile::tempdir().unwrap();
    let programs = programs(made.path(), 3);
    for i in 0..120 {
        let below = folder.path().join(format!("{}/{i}", i % 40));
        std::fs::create_dir_all(&below).unwrap();
        let (name, _) = &programs[i % 3];
        std::fs::copy(made.path().join(name), below.join(name)).unwrap();
    }
    let cache = tempfile::tempdir().unwrap();
    let symbolicator = |jobs| {
        let cache = wedjat::symbolicate::Cache::new(cache.path());
        let mut files = DebugFiles::new().no_search().cache(Some(cache)).jobs(jobs);
        let added = files.add(folder.path()).unwrap();
        assert!(added.damaged.is_empty(), "{added:?}");
        (added.objects, Symbolicator::new(files))
    };
    for jobs in [1, 2, 4] {
        let (objects, symbolicator) = symbolicator(jobs);
        assert_eq!(objects, 120);
        for (name, report) in &programs {
            assert_eq!(name_of(&symbolicator, report).as_ref(), Some(name));
        }
    }
    // Program 0 is replaced everywhere, with size and time of change as they were. What is there now has another id, so
    // it is not used.
    for i in (0..120).step_by(3) {
        let path = folder
            .path()
            .join(format!("{}/{i}/{}", i % 40, programs[0].0));
        let changed = path.metadata().unwrap().modified().unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let id = &programs[0].1.images[0].id;
        let at = bytes
            .windows(id.len())
            .position(|window| window == id)
            .unwrap();
        bytes[at] ^= 0xff;
        std::fs::write(&path, &bytes).unwrap();
        std::fs::File::options()
            .append(true)
            .open(&path)
            .unwrap()
            .set_modified(changed)
            .unwrap();
    }
    let (_, symbolicator) = symbolicator(2);
    assert_eq!(name_of(&symbolicator, &programs[0].1), None);
    assert_eq!(
        name_of(&symbolicator, &programs[1].1).as_ref(),
        Some(&programs[1].0)
    );
}

/// A back end bounds what a stranger's report and files may take.
#[test]
fn a_report_has_as_much_time_as_it_is_given_and_a_file_as_much_room() {
    let dsym = "testdata/macho/arm64/kiosk.dSYM";
    let named = |limit, bytes| {
        let mut files = DebugFiles::new().no_search().max_size(bytes);
        files.add(dsym.as_ref()).unwrap();
        let id = files.ids().next().unwrap().to_vec();
        let mut report = Report::default();
        report.images.push(new!(Image {
            id,
            base: 0x1_04c3_c000,
            base_svma: 0x1_0000_0000,
        }));
        let frame = new!(Frame {
            pc: 0x1_04c3_c548,
            found: Found::Context,
            image: Some(0),
        });
        report.threads.push(new!(Thread {
            frames: vec![frame; 3],
        }));
        Symbolicator::new(files)
            .time_limit(limit)
            .symbolicate(report)
    };
    let frames = |of: &Symbolicated| {
        of.threads[0]
            .frames
            .iter()
            .filter(|f| !f.frames.is_empty())
            .count()
    };
    let hour = std::time::Duration::from_secs(3600);
    let free = named(hour, u64::MAX);
    assert_eq!((frames(&free), free.damage.len()), (3, 0));
    let late = named(std::time::Duration::ZERO, u64::MAX);
    assert_eq!(frames(&late), 0);
    assert!(
        late.damage[0].contains("3 frames were not looked up"),
        "{:?}",
        late.damage
    );
    let narrow = named(hour, 1000);
    assert_eq!((frames(&narrow), narrow.missing.len()), (0, 1));
}
