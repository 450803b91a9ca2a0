//! Debug files from a debuginfod server: one on the loopback, that speaks the protocol and nothing else.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use object::Object;
use wedjat::new;
use wedjat::report::{End, Found, Frame, Image, Report, Thread};
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

/// Serves `body` at the path of this build id, and counts the requests.
fn server(id: &[u8], body: Vec<u8>) -> (String, Arc<Mutex<Vec<String>>>) {
    let hex: String = id.iter().map(|b| format!("{b:02x}")).collect();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = requests.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let request = lines.next().unwrap().unwrap();
            while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            let path = request.split(' ').nth(1).unwrap().to_owned();
            let found = [
                format!("/buildid/{hex}/debuginfo"),
                format!("/unified/{}/{}/debuginfo", &hex[..2], &hex[2..]),
                format!("/symsrv/_.debug/elf-buildid-sym-{hex}/_.debug"),
            ]
            .contains(&path);
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
    (url, requests)
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
    report.end = Some(new!(End {
        closed_by: "writer".into(),
    }));
    let name = folder.join("program").display().to_string();
    report.images.push(new!(Image {
        name,
        id: id.clone(),
        base: 0x10000,
        size: 0x10000,
    }));
    let frame = new!(Frame {
        pc: 0x10000 + address,
        found: Found::Context,
        image: Some(0),
    });
    report.threads.push(new!(Thread {
        main: true,
        frames: vec![frame],
    }));
    (debug, id, report)
}

#[test]
fn a_stripped_program_is_named_by_what_the_server_gives_in_one_request() {
    let folder = tempfile::tempdir().unwrap();
    let (debug, id, report) = program(folder.path());
    let (url, requests) = server(&id, debug);
    let (empty, _) = server(b"another id", Vec::new());
    let cache = folder.path().join("cache");
    for _ in 0..2 {
        let debuginfod = Debuginfod::new(vec![empty.clone(), url.clone()], &cache);
        let symbolicator = Symbolicator::new(DebugFiles::new().debuginfod(Some(debuginfod)));
        let result = symbolicator.symbolicate(report.clone());
        let frame = &result.threads[0].frames[0].frames[0];
        assert_eq!(frame.function.as_deref(), Some("hidden"));
        assert!(matches!(frame.line, Some(2 | 3)), "{frame:?}");
        assert!(result.missing.is_empty());
    }
    assert_eq!(requests.lock().unwrap().len(), 1);
}

#[test]
fn a_store_of_files_has_them_by_its_own_layout() {
    for layout in ["unified", "symsrv"] {
        let folder = tempfile::tempdir().unwrap();
        let (debug, id, report) = program(folder.path());
        let (url, requests) = server(&id, debug);
        let store = format!("{layout}+{url}/{layout}");
        let cache = folder.path().join("cache");
        for _ in 0..2 {
            let found = find(&[&store], &cache, &report);
            assert_eq!(found.as_deref(), Some("hidden"), "{layout}");
        }
        assert_eq!(requests.lock().unwrap().len(), 1, "{layout}");
    }
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
fn the_command_queries_the_servers_of_the_environment() {
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

fn find(servers: &[&str], cache: &Path, report: &Report) -> Option<String> {
    let servers = servers.iter().map(|&url| url.to_owned()).collect();
    let debuginfod = Debuginfod::new(servers, cache).timeout(std::time::Duration::from_secs(2));
    let symbolicator = Symbolicator::new(DebugFiles::new().debuginfod(Some(debuginfod)));
    let result = symbolicator.symbolicate(report.clone());
    let frame = result.threads[0].frames[0].frames.first()?;
    frame.function.as_deref().map(str::to_owned)
}

/// That no server has a file is remembered for a while, across processes, as elfutils does it: by an
/// empty file.
#[test]
fn that_no_server_has_a_file_is_remembered_for_a_while() {
    let folder = tempfile::tempdir().unwrap();
    let (debug, id, report) = program(folder.path());
    let (empty, requests) = server(b"another id", Vec::new());
    let cache = folder.path().join("cache");
    for _ in 0..3 {
        assert_eq!(find(&[&empty], &cache, &report), None);
    }
    assert_eq!(requests.lock().unwrap().len(), 1);
    let hex: String = id.iter().map(|b| format!("{b:02x}")).collect();
    let miss = cache.join(hex).join("debuginfo");
    assert_eq!(miss.metadata().unwrap().len(), 0);
    // After that while, servers get requests again.
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    std::fs::File::options()
        .append(true)
        .open(&miss)
        .unwrap()
        .set_modified(long_ago)
        .unwrap();
    let (url, _) = server(&id, debug);
    assert_eq!(find(&[&url], &cache, &report).as_deref(), Some("hidden"));
}

/// A server that never answers is given up on, gets no second request, and takes no other server's place;
/// and nothing is remembered of what it might have.
#[test]
fn a_silent_server_is_given_up_on() {
    let folder = tempfile::tempdir().unwrap();
    let (debug, id, report) = program(folder.path());
    // Takes connections (the backlog does), and never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_url = format!("http://{}", silent.local_addr().unwrap());
    let refusing = {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", closed.local_addr().unwrap())
    };
    let cache = folder.path().join("cache");
    assert_eq!(find(&[&refusing, &silent_url], &cache, &report), None);
    assert!(
        !cache.exists(),
        "nothing is known, so nothing is remembered"
    );
    let (url, _) = server(&id, debug);
    let found = find(&[&refusing, &silent_url, &url], &cache, &report);
    assert_eq!(found.as_deref(), Some("hidden"));
}

/// How downloads go, and that a server cannot be reached, stands on standard error alone.
#[test]
fn progress_and_failures_stand_on_standard_error() {
    let folder = tempfile::tempdir().unwrap();
    let (debug, id, report) = program(folder.path());
    let (url, _) = server(&id, debug);
    let refusing = {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", closed.local_addr().unwrap())
    };
    let path = folder.path().join("a.wedjat");
    std::fs::write(&path, wedjat::report::to_bytes(&report)).unwrap();
    let run = |urls: &str, cache: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_symbolicate"))
            .args(["--no-cache", "--format", "ndjson"])
            .arg(&path)
            .env("DEBUGINFOD_URLS", urls)
            .env("DEBUGINFOD_PROGRESS", "1")
            .env("DEBUGINFOD_CACHE_PATH", folder.path().join(cache))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0));
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr))
    };
    let (out, errors) = run(&format!("ima:permissive {refusing} {url}/"), "one");
    assert!(out.contains("\"hidden\""), "{out}");
    assert!(
        errors.contains(&format!("warning: {refusing}/buildid/")),
        "{errors}"
    );
    assert!(
        errors.contains(&format!("fetching {url}/buildid/")) && errors.contains("MiB"),
        "{errors}"
    );
    assert!(!out.contains("MiB"));
    // No server has it: the report is printed all the same, with what is missing.
    let (out, errors) = run(&refusing, "two");
    assert_eq!(out.lines().count(), 1);
    assert!(errors.contains("missing"), "{errors}");
}

/// A real server, for Debian's C library: the one at `WEDJAT_LIBC`, or else this machine's. Needs the
/// network; `suites/debuginfod/run` has it all set up.
#[test]
#[ignore = "needs the network, and an unmodified Debian's C library"]
fn debians_own_server_has_the_c_library() {
    let url = std::env::var("DEBUGINFOD_URLS").unwrap_or("https://debuginfod.debian.net".into());
    let folder = tempfile::tempdir().unwrap();
    let path = std::env::var("WEDJAT_LIBC").unwrap_or_else(|_| {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mut lines = maps.lines();
        let line = lines.find(|line| line.ends_with("/libc.so.6"));
        let line = line.expect("a C library");
        line[line.find('/').unwrap()..].to_owned()
    });
    let data = std::fs::read(&path).unwrap();
    let file = object::File::parse(&*data).unwrap();
    use object::ObjectSymbol;
    let qsort = file
        .dynamic_symbols()
        .find(|s| s.name() == Ok("qsort_r"))
        .unwrap();
    let mut report = Report::default();
    report.images.push(new!(Image {
        name: "/no/such/folder/libc.so.6".into(),
        id: file.build_id().unwrap().unwrap().to_vec(),
        base: 0x10000,
        size: 0x100_0000,
    }));
    report.threads.push(new!(Thread {
        frames: vec![new!(Frame {
            pc: 0x10000 + qsort.address(),
            found: Found::Context,
            image: Some(0),
        })],
    }));
    let failures: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = failures.clone();
    let debuginfod = Debuginfod::new(vec![url], folder.path()).watch(move |what| {
        if let wedjat::symbolicate::Fetching::Failed { url, why } = what {
            log.lock().unwrap().push(format!("{url}: {why}"));
        }
    });
    let symbolicator =
        Symbolicator::new(DebugFiles::new().no_search().debuginfod(Some(debuginfod)));
    let result = symbolicator.symbolicate(report);
    let frames = &result.threads[0].frames[0].frames;
    let frame = frames
        .first()
        .unwrap_or_else(|| panic!("{:?}", failures.lock().unwrap()));
    assert!(
        frame
            .file
            .as_deref()
            .is_some_and(|file| file.ends_with("msort.c")),
        "{frame:?}"
    );
    assert!(frame.line.is_some());
}
