//! Debug files from a debuginfod server: one on the loopback, that speaks the protocol and nothing else.
#![cfg(all(feature = "debuginfod", target_os = "linux"))]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use object::Object;
use wedjat::report::model::{End, Found, Frame, Image, Report, Thread};
use wedjat::symbolicate::{DebugFiles, Debuginfod, Symbolicator};

const SOURCE: &str = "volatile int sink;\n__attribute__((noinline)) static void hidden(int n) {\n  sink = n;\n}\nint main(int argc, char **argv) { hidden(argc); return 0; }\n";

fn run(folder: &Path, program: &str, args: &[&str]) -> String {
    let output = Command::new(program)
        .args(args)
        .current_dir(folder)
        .output();
    let output = output.unwrap_or_else(|e| panic!("{program} is needed for this test: {e}"));
    assert!(output.status.success(), "{program} {args:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Serves `body` at the path of this build id, and counts what is asked for.
fn server(id: &[u8], body: Vec<u8>) -> (String, Arc<Mutex<Vec<String>>>) {
    let hex: String = id.iter().map(|b| format!("{b:02x}")).collect();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = asked.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let request = lines.next().unwrap().unwrap();
            while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            let path = request.split(' ').nth(1).unwrap().to_owned();
            let found = path == format!("/buildid/{hex}/debuginfo");
            log.lock().unwrap().push(path);
            let (status, body) = if found {
                ("200 OK", &body[..])
            } else {
                ("404 Not Found", &b"not here"[..])
            };
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream
                .write_all(head.as_bytes())
                .and_then(|()| stream.write_all(body));
        }
    });
    (url, asked)
}

/// A stripped program, its debug file's bytes, its build id, and a report with one frame in `hidden`.
fn program(folder: &Path) -> (Vec<u8>, Vec<u8>, Report) {
    std::fs::write(folder.join("a.c"), SOURCE).unwrap();
    run(
        folder,
        "gcc",
        &["-g", "-O1", "-Wl,--build-id=sha1", "a.c", "-o", "program"],
    );
    let listing = run(folder, "nm", &["program"]);
    let line = listing
        .lines()
        .find(|line| line.ends_with(" hidden"))
        .unwrap();
    let address = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
    let id = object::File::parse(&*std::fs::read(folder.join("program")).unwrap())
        .unwrap()
        .build_id()
        .unwrap()
        .unwrap()
        .to_vec();
    run(
        folder,
        "objcopy",
        &["--only-keep-debug", "program", "debug"],
    );
    run(folder, "strip", &["program"]);
    let debug = std::fs::read(folder.join("debug")).unwrap();
    std::fs::remove_file(folder.join("debug")).unwrap();
    let mut report = Report::default();
    report.head.version = 1;
    report.end = Some(End {
        closed_by: "writer".into(),
        ..End::default()
    });
    let name = folder.join("program").display().to_string();
    report.images.push(Image {
        name,
        id: id.clone(),
        base: 0x10000,
        size: 0x10000,
        ..Image::default()
    });
    let frame = Frame {
        pc: 0x10000 + address,
        found: Found::Context,
        image: Some(0),
        ..Frame::default()
    };
    report.threads.push(Thread {
        main: true,
        frames: vec![frame],
        ..Thread::default()
    });
    (debug, id, report)
}

#[test]
fn a_stripped_program_is_named_by_what_the_server_gives_and_asked_for_once() {
    let folder = tempfile::tempdir().unwrap();
    let (debug, id, report) = program(folder.path());
    let (url, asked) = server(&id, debug);
    let (nobody, _) = server(b"another id", Vec::new());
    let cache = folder.path().join("cache");
    for _ in 0..2 {
        let debuginfod = Debuginfod::new(vec![nobody.clone(), url.clone()], &cache);
        let desk = Symbolicator::new(DebugFiles::new().debuginfod(Some(debuginfod)));
        let result = desk.symbolicate(report.clone());
        let frame = &result.threads[0].frames[0].frames[0];
        assert_eq!(frame.function.as_deref(), Some("hidden"));
        assert!(matches!(frame.line, Some(2 | 3)), "{frame:?}");
        assert!(result.missing.is_empty());
    }
    assert_eq!(asked.lock().unwrap().len(), 1);
}

#[test]
fn a_file_of_another_build_from_a_server_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let (_, id, report) = program(folder.path());
    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("b.c"), "int main(void) { return 7; }").unwrap();
    run(
        other.path(),
        "gcc",
        &["-g", "-Wl,--build-id=sha1", "b.c", "-o", "b"],
    );
    let (url, _) = server(&id, std::fs::read(other.path().join("b")).unwrap());
    let debuginfod = Debuginfod::new(vec![url], &folder.path().join("cache"));
    let result =
        Symbolicator::new(DebugFiles::new().debuginfod(Some(debuginfod))).symbolicate(report);
    assert!(result.threads[0].frames[0].frames.is_empty());
    assert_eq!(result.missing.len(), 1);
}

#[test]
fn the_command_asks_the_servers_of_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let (debug, id, report) = program(folder.path());
    let (url, _) = server(&id, debug);
    let path = folder.path().join("a.wedjat");
    std::fs::write(&path, wedjat::report::to_bytes(&report)).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_symbolicate"))
        .arg("--no-cache")
        .arg(&path)
        .env("DEBUGINFOD_URLS", &url)
        .env("DEBUGINFOD_CACHE_PATH", folder.path().join("cache"))
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("hidden + 0 (a.c:"), "{shown}");
}
