//! Pipes, sockets, devices, endless files, loops of links, and paths that lead elsewhere.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

use wedjat::new;
use wedjat::report::Image;

use super::{CODE, DSYM, fifo, report_of};
use crate::deadline::{finish, most_memory, symbolicate};

#[test]
fn what_is_no_file_is_an_error_and_never_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.wedjat");
    fifo(&pipe);
    let socket = folder.path().join("socket.wedjat");
    let _socket = UnixListener::bind(&socket).unwrap();
    let whole = folder.path().join("whole.wedjat");
    fs::write(&whole, report_of(vec![])).unwrap();
    let device = Path::new("/dev/zero");
    for (path, what) in [
        (&*pipe, "a named pipe"),
        (&*socket, "a socket"),
        (device, "a device"),
    ] {
        let ran = symbolicate([path]);
        assert_eq!(ran.code, Some(3), "{}", ran.err);
        assert!(ran.err.contains(what), "{}", ran.err);
        let ran = symbolicate([Path::new("--inspect"), path]);
        assert_eq!(ran.code, Some(3), "{}", ran.err);
        assert!(ran.err.contains(what), "{}", ran.err);
        // The report is read all the same.
        let ran = symbolicate([Path::new("--debug"), path, &whole]);
        assert!(ran.err.contains(what), "{}", ran.err);
        assert!(ran.out.contains("Report Version:"), "{}", ran.out);
        let ran = symbolicate(["--debug", path.to_str().unwrap(), "--address", "0x10"]);
        assert_eq!(ran.code, Some(3), "{}", ran.err);
    }
    // In a folder: the others are read.
    let ran = symbolicate([folder.path()]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("a named pipe") && ran.err.contains("a socket"));
    assert!(ran.out.contains("Report Version:"));
    // A folder as a stream.
    let child = Command::new(env!("CARGO_BIN_EXE_symbolicate"))
        .arg("-")
        .stdin(File::open(folder.path()).unwrap())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let ran = finish(child.unwrap());
    assert_eq!(ran.code, Some(3), "{}", ran.err);
    assert!(ran.err.contains("standard input"), "{}", ran.err);
}

#[test]
fn endless_and_sparse_files_take_neither_time_nor_memory() {
    const HUGE: u64 = 10 << 30;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let sparse = |name: &str, start: &[u8]| {
        let mut file = File::create(path(name)).unwrap();
        file.write_all(start).unwrap();
        file.set_len(HUGE).unwrap();
        path(name)
    };
    for name in ["a.wedjat", "a.json", "a.ips", "a.crash", "a.plcrash"] {
        let ran = symbolicate([sparse(name, b"")]);
        assert_eq!(ran.code, Some(3), "{name}: {}", ran.err);
        assert!(ran.err.contains("error"), "{name}: {}", ran.err);
    }
    // A report with ten gigabytes of nothing behind it is read.
    let ran = symbolicate([sparse("b.wedjat", &report_of(vec![]))]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.out.contains("Report Version:"), "{}", ran.err);
    let ran = symbolicate([folder.path().as_os_str(), "--top".as_ref()]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    // As debug files: nothing, a header alone, and a whole one.
    let zeros = sparse("zeros", b"");
    let ran = symbolicate([
        "--debug".as_ref(),
        zeros.as_os_str(),
        "--address".as_ref(),
        "1".as_ref(),
    ]);
    assert_eq!(ran.code, Some(3), "{}", ran.err);
    assert!(ran.err.contains("neither Mach-O nor ELF"), "{}", ran.err);
    let whole = fs::read(DSYM).unwrap();
    for start in [&whole[..64], &whole[..4000]] {
        let cut = sparse("cut", start);
        let ran = symbolicate([
            "--debug".as_ref(),
            cut.as_os_str(),
            "--address".as_ref(),
            "1".as_ref(),
        ]);
        assert!(matches!(ran.code, Some(0 | 3)), "{}", ran.err);
        let ran = symbolicate(["--inspect".as_ref(), cut.as_os_str()]);
        assert!(matches!(ran.code, Some(0 | 3)), "{}", ran.err);
    }
    let long = sparse("long", &whole);
    let ran = symbolicate([
        "--debug".as_ref(),
        long.as_os_str(),
        "--address".as_ref(),
        "1".as_ref(),
    ]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(
        ran.out.contains("kiosk") || ran.out.contains("long"),
        "{}",
        ran.out
    );
    // An endless stream that is no report.
    let child = Command::new(env!("CARGO_BIN_EXE_symbolicate"))
        .arg("-")
        .stdin(File::open("/dev/zero").unwrap())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let ran = finish(child.unwrap());
    assert_eq!(ran.code, Some(3), "{}", ran.err);
    assert!(most_memory() < 700 << 20, "{} bytes", most_memory());
}

#[test]
fn loops_of_links_and_dots_in_paths_lead_nowhere_twice() {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("MyApp.xcarchive/dSYMs/deep");
    fs::create_dir_all(&below).unwrap();
    fs::copy(DSYM, below.join("kiosk")).unwrap();
    symlink("..", below.join("up")).unwrap();
    symlink(folder.path(), below.join("top")).unwrap();
    symlink("self", below.join("self")).unwrap();
    symlink("nowhere", below.join("dangling")).unwrap();
    symlink("/dev/zero", below.join("zero")).unwrap();
    fifo(&below.join("pipe"));
    fs::write(below.join("one.wedjat"), report_of(vec![])).unwrap();
    let dotted = folder
        .path()
        .join("MyApp.xcarchive/../MyApp.xcarchive/./dSYMs");
    let plain = answers(Path::new(DSYM));
    assert!(plain.contains("main"), "{plain}");
    for given in [folder.path(), &dotted] {
        assert_eq!(answers(given), plain);
        // Each report once, however many ways lead to it.
        let ran = symbolicate([given.as_os_str(), "--format".as_ref(), "ndjson".as_ref()]);
        assert_eq!(ran.out.lines().count(), 1, "{}", ran.out);
        let ran = symbolicate(["--inspect".as_ref(), given.as_os_str()]);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
    }
}

/// What `--address` says of every place in the fixture.
fn answers(debug: &Path) -> String {
    let mut args = vec![
        "--debug".into(),
        debug.as_os_str().to_owned(),
        "--address".into(),
    ];
    args.extend(
        CODE.step_by(64)
            .map(|address| format!("{address:x}").into()),
    );
    let ran = symbolicate(args);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    ran.out
}

#[test]
fn a_report_s_paths_are_never_shown_what_lies_there() {
    let folder = tempfile::tempdir().unwrap();
    fifo(&folder.path().join("pipe"));
    let up = "../".repeat(40);
    let names = [
        "/etc/passwd".to_owned(),
        format!("/usr/lib/{up}etc/passwd"),
        format!("{up}etc/passwd"),
        folder.path().join("pipe").display().to_string(),
        "/dev/zero".to_owned(),
        "/proc/self/mem".to_owned(),
        "/proc/kcore".to_owned(),
        "/proc/kmsg".to_owned(),
        "/".to_owned(),
        "\0/etc/passwd".to_owned(),
        "/".repeat(5000),
    ];
    let images = names.iter().enumerate().flat_map(|(index, name)| {
        let image = |id: &[u8]| {
            new!(Image {
                name: name.clone(),
                id: id.to_vec(),
                base: 0x10_0000 * (index as u64 + 1),
                size: 0x1000,
            })
        };
        [image(b""), image(b"..\0/\xff"), image(&[b'.'; 64])]
    });
    let path = folder.path().join("1.wedjat");
    fs::write(&path, report_of(images.collect())).unwrap();
    let ran = symbolicate([&path]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(!ran.out.contains("root:"), "{}", ran.out);
}
