//! Debug files from servers that do what servers do on bad days, and what they do when they are not
//! meant well: redirects, errors, answers cut short, of another build, without an end, or of no sense.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use object::Object;
use wedjat::new;
use wedjat::report::{Found, Frame, Image, Report, Thread};
use wedjat::symbolicate::{DebugFiles, Debuginfod, Fetching, Symbolicator};

/// Answers each request with whatever `answer` writes; gives its own URL, and the paths of the requests.
fn server(
    answer: impl Fn(&str, &mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static,
) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests: Arc<Mutex<Vec<String>>> = Arc::default();
    let (log, answer) = (requests.clone(), Arc::new(answer));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, log, answer) = (stream.unwrap(), log.clone(), answer.clone());
            std::thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let request = lines.next().unwrap().unwrap();
                while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
                let path = request.split(' ').nth(1).unwrap();
                log.lock().unwrap().push(path.to_owned());
                let _ = answer(path, &mut stream);
            });
        }
    });
    (url, requests)
}

fn ok(stream: &mut TcpStream, body: &[u8]) -> std::io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    stream.write_all(body)
}

fn status(stream: &mut TcpStream, line: &str) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 {line}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
}

fn run(folder: &Path, program: &str, args: &[&str]) {
    let output = Command::new(program)
        .args(args)
        .current_dir(folder)
        .output()
        .unwrap_or_else(|e| panic!("{program} is needed for this test: {e}"));
    assert!(output.status.success(), "{program} {args:?}: {output:?}");
}

/// The bytes of a program with debug information, and a report with one frame in its `hidden`.
fn program(folder: &Path, result: u32) -> (Vec<u8>, Report) {
    let source = format!(
        "volatile int sink;\n__attribute__((noinline)) void hidden(int n) {{\n  sink = n;\n}}\nint main(int argc, char **argv) {{ hidden(argc); return {result}; }}\n"
    );
    std::fs::write(folder.join("a.c"), source).unwrap();
    run(
        folder,
        "gcc",
        &["-g", "-O1", "-Wl,--build-id=sha1", "a.c", "-o", "program"],
    );
    let bytes = std::fs::read(folder.join("program")).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    use object::ObjectSymbol;
    let hidden = file.symbols().find(|s| s.name() == Ok("hidden")).unwrap();
    let mut report = Report::default();
    report.images.push(new!(Image {
        name: "/no/such/folder/program".into(),
        id: file.build_id().unwrap().unwrap().to_vec(),
        base: 0x10000,
        size: 0x10000,
    }));
    report.threads.push(new!(Thread {
        frames: vec![new!(Frame {
            pc: 0x10000 + hidden.address(),
            found: Found::Context,
            image: Some(0),
        })],
    }));
    (bytes, report)
}

struct Outcome {
    /// What the frame is called.
    name: Option<String>,
    /// What is reported of servers that failed.
    failures: Vec<String>,
}

fn ask(servers: &[&str], cache: &Path, report: &Report) -> Outcome {
    ask_with(servers, cache, report, |debuginfod| debuginfod)
}

fn ask_with(
    servers: &[&str],
    cache: &Path,
    report: &Report,
    set: impl FnOnce(Debuginfod) -> Debuginfod,
) -> Outcome {
    let failures: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = failures.clone();
    let servers = servers.iter().map(|&url| url.to_owned()).collect();
    let debuginfod = Debuginfod::new(servers, cache).watch(move |what| {
        if let Fetching::Failed { why, .. } = what {
            log.lock().unwrap().push((*why).to_owned());
        }
    });
    let files = DebugFiles::new().no_search();
    let symbolicator = Symbolicator::new(files.debuginfod(Some(set(debuginfod))));
    let result = symbolicator.symbolicate(report.clone());
    let frame = result.threads[0].frames[0].frames.first();
    let name = frame.and_then(|frame| frame.function.clone());
    let failures = failures.lock().unwrap().clone();
    Outcome {
        name: name.map(|name| name.to_string()),
        failures,
    }
}

/// Files below the cache folder.
fn kept(cache: &Path) -> Vec<String> {
    let mut kept = Vec::new();
    let mut folders = vec![cache.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path)
            } else {
                kept.push(path.display().to_string())
            }
        }
    }
    kept
}

/// A server that fails in this way is reported, keeps nothing in the cache, and the next one gets the request.
#[track_caller]
fn passed_over(
    reason: &str,
    answer: impl Fn(&str, &mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static,
) {
    let folder = tempfile::tempdir().unwrap();
    let (bytes, report) = program(folder.path(), 0);
    let (bad, _) = server(answer);
    let cache = folder.path().join("cache");
    let alone = ask(&[&bad], &cache, &report);
    assert_eq!(alone.name, None);
    assert_eq!(alone.failures.len(), 1, "{:?}", alone.failures);
    assert!(alone.failures[0].contains(reason), "{:?}", alone.failures);
    assert_eq!(
        kept(&cache),
        Vec::<String>::new(),
        "nor is a miss remembered"
    );
    let (good, _) = server(move |_, stream| ok(stream, &bytes));
    let both = ask(&[&bad, &good], &cache, &report);
    assert_eq!(both.name.as_deref(), Some("hidden"), "{:?}", both.failures);
    assert_eq!(kept(&cache).len(), 1);
}

#[test]
fn a_redirect_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (bytes, report) = program(folder.path(), 0);
    let (good, requests) = server(move |_, stream| ok(stream, &bytes));
    let (first, _) = server(move |path, stream| {
        write!(
            stream,
            "HTTP/1.1 302 Found\r\nLocation: {good}/mirror{path}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
    });
    let found = ask(&[&first], &folder.path().join("cache"), &report);
    assert_eq!(
        found.name.as_deref(),
        Some("hidden"),
        "{:?}",
        found.failures
    );
    assert!(requests.lock().unwrap()[0].starts_with("/mirror/buildid/"));
}

#[test]
fn redirects_in_a_circle_and_out_of_the_web() {
    passed_over("redirect", |path, stream| {
        write!(
            stream,
            "HTTP/1.1 302 Found\r\nLocation: {path}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
    });
    passed_over("", |_, stream| {
        stream.write_all(b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    });
}

#[test]
fn errors_of_servers() {
    passed_over("it answered 500", |_, s| {
        status(s, "500 Internal Server Error")
    });
    passed_over("it answered 503", |_, s| {
        status(s, "503 Service Unavailable")
    });
    passed_over("it answered 403", |_, s| status(s, "403 Forbidden"));
}

#[test]
fn answers_cut_short() {
    passed_over("", |_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n\x7fELF and no more")
    });
    passed_over("", |_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n0123456789abcdef\r\n400\r\ncut")
    });
    // Without a length nothing shows that this is not all; but it is no debug file.
    passed_over("not a debug file", |_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n\x7fELF and no more")
    });
}

#[test]
fn answers_that_are_something_else() {
    passed_over("not a debug file", |_, stream| {
        ok(stream, b"<html>Please log in</html>")
    });
    passed_over("not a debug file", |_, stream| ok(stream, b""));
    let other = tempfile::tempdir().unwrap();
    let (bytes, _) = program(other.path(), 7);
    passed_over("another build", move |_, stream| ok(stream, &bytes));
}

#[test]
fn what_is_not_http() {
    passed_over("", |_, stream| stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n"));
    passed_over("", |_, _| Ok(()));
    passed_over("", |_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\n")?;
        loop {
            stream.write_all(&[b'x'; 1 << 12])?;
            stream.write_all(b": y\r\n")?;
        }
    });
}

#[test]
fn more_than_is_taken() {
    passed_over("is not taken", |_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n\x7fELF")
    });
    // One that never ends.
    let folder = tempfile::tempdir().unwrap();
    let (_, report) = program(folder.path(), 0);
    let (endless, _) = server(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        let mut chunk = [b'x'; 1 << 16];
        chunk[..6].copy_from_slice(b"\x7fELF\x02\x01");
        loop {
            stream.write_all(b"10000\r\n")?;
            stream.write_all(&chunk)?;
            stream.write_all(b"\r\n")?;
        }
    });
    let cache = folder.path().join("cache");
    let outcome = ask_with(&[&endless], &cache, &report, |d| d.max_size(1 << 20));
    assert_eq!(outcome.name, None);
    assert!(
        outcome.failures[0].contains("1048576 bytes is not taken"),
        "{:?}",
        outcome.failures
    );
    assert_eq!(kept(&cache), Vec::<String>::new());
}

type Answer = fn(&str, &mut TcpStream) -> std::io::Result<()>;

/// Servers that take long, or send much.
const HOSTILE: [(&str, Answer); 6] = [
    ("a flood of headers", |_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\n")?;
        loop {
            write!(stream, "X-A: {}\r\n", "x".repeat(1 << 10))?;
        }
    }),
    ("a byte at a time of the head", |_, stream| {
        drip(stream, b"HTTP/1.1 200 OK\r\nX-A: ")
    }),
    ("a byte at a time of the file", |_, stream| {
        drip(
            stream,
            b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n",
        )
    }),
    ("a bomb", |_, stream| {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(&elf(1 << 12))?;
        for _ in 0..256 {
            packer.write_all(&[0; 1 << 20])?;
        }
        let body = packer.finish()?;
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {length}\r\n\r\n"
        )?;
        stream.write_all(&body)
    }),
    ("a file without an end", |_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
        stream.write_all(&elf(1 << 12))?;
        loop {
            stream.write_all(&[0; 1 << 16])?;
        }
    }),
    ("no file, each time late", |_, stream| {
        std::thread::sleep(Duration::from_millis(300));
        status(stream, "404 Not Found")
    }),
];

/// Ends once nobody reads on.
fn drip(stream: &mut TcpStream, front: &[u8]) -> std::io::Result<()> {
    stream.write_all(front)?;
    loop {
        stream.write_all(b"x")?;
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The header of an ELF file with its section headers at this offset.
fn elf(sections: u64) -> [u8; 64] {
    let mut header = [0; 64];
    header[..6].copy_from_slice(b"\x7fELF\x02\x01");
    header[40..48].copy_from_slice(&sections.to_le_bytes());
    header
}

/// A report with a frame in each of as many images.
fn report_of(images: u8) -> Report {
    let mut report = Report::default();
    report.threads.push(Thread::default());
    for at in 0..images {
        report.images.push(new!(Image {
            name: format!("/no/such/folder/{at}"),
            id: vec![at; 16],
            base: 0x10000 * (1 + u64::from(at)),
            size: 0x10000,
        }));
        report.threads[0].frames.push(new!(Frame {
            pc: 0x10000 * (1 + u64::from(at)) + 1,
            found: Found::Context,
            image: Some(at.into()),
        }));
    }
    report
}

/// The time and the requests are those of the server, however many images a run asks it for; so are they where another server
/// leads to it.
#[test]
fn a_hostile_server_costs_a_run_little_and_is_left() {
    let report = report_of(16);
    let wait = Duration::from_millis(500);
    for layout in ["", "unified+", "symsrv+"] {
        for (what, answer) in HOSTILE {
            for is_elsewhere in [false, true] {
                let folder = tempfile::tempdir().unwrap();
                let (mut url, requests) = server(answer);
                if is_elsewhere {
                    url = server(move |path, stream| {
                        write!(
                            stream,
                            "HTTP/1.1 302 Found\r\nLocation: {url}{path}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                        )
                    })
                    .0;
                }
                let cache = folder.path().join("cache");
                let began = Instant::now();
                let server = format!("{layout}{url}");
                let outcome = ask_with(&[&server], &cache, &report, |d| d.timeout(wait));
                let (took, what) = (began.elapsed(), format!("{layout} {what} {is_elsewhere}"));
                // A bomb and a file without an end cost no time that counts.
                let is_quick = what.contains("bomb") || what.contains("end ");
                assert!(
                    took < wait * if is_quick { 20 } else { 6 },
                    "{what}: {took:?}"
                );
                let requests = requests.lock().unwrap().len();
                assert!(
                    requests <= if is_quick { 32 } else { 3 },
                    "{what}: {requests}"
                );
                assert!(!outcome.failures.is_empty(), "{what}");
                let is_empty = |file: &String| std::fs::metadata(file).unwrap().len() == 0;
                assert!(kept(&cache).iter().all(is_empty), "{what}");
            }
        }
    }
}

/// Neither waits for the server.
#[test]
fn a_signal_ends_a_run_that_waits_for_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.wedjat");
    std::fs::write(&path, wedjat::report::to_bytes(&report_of(2))).unwrap();
    for (_, answer) in &HOSTILE[1..3] {
        for signal in [libc::SIGTERM, libc::SIGINT] {
            let (url, requests) = server(answer);
            let cache = folder.path().join("cache");
            let mut command = Command::new(env!("CARGO_BIN_EXE_symbolicate"));
            command.arg("--no-cache").arg(&path);
            command
                .env("HOME", folder.path())
                .env("DEBUGINFOD_URLS", url);
            command.env("DEBUGINFOD_CACHE_PATH", &cache);
            let mut child = command.spawn().unwrap();
            while requests.lock().unwrap().is_empty() {
                std::thread::sleep(Duration::from_millis(10));
            }
            std::thread::sleep(Duration::from_millis(200));
            // SAFETY: a signal to a child that nobody has waited for.
            unsafe { libc::kill(child.id().cast_signed(), signal) };
            let began = Instant::now();
            assert_eq!(child.wait().unwrap().code(), Some(130));
            assert!(
                began.elapsed() < Duration::from_secs(1),
                "{:?}",
                began.elapsed()
            );
            assert_eq!(kept(&cache), Vec::<String>::new());
        }
    }
}

/// A byte now and then holds no run up for ever.
#[test]
fn a_trickle_is_given_up_on() {
    let folder = tempfile::tempdir().unwrap();
    let (_, report) = program(folder.path(), 0);
    let (trickle, _) = server(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")?;
        loop {
            stream.write_all(b"x")?;
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let cache = folder.path().join("cache");
    let short = Duration::from_millis(200);
    let outcome = ask_with(&[&trickle], &cache, &report, |d| d.timeout(short));
    assert_eq!(outcome.name, None);
    assert_eq!(outcome.failures.len(), 1);
    assert_eq!(kept(&cache), Vec::<String>::new());
}

/// Of a file in the cache that is cut or of another build, whoever left it there, a whole one is fetched.
#[test]
fn a_damaged_file_in_the_cache_is_fetched_again() {
    let folder = tempfile::tempdir().unwrap();
    let (bytes, report) = program(folder.path(), 0);
    let whole = bytes.clone();
    let (good, _) = server(move |_, stream| ok(stream, &bytes));
    let cache = folder.path().join("cache");
    assert_eq!(
        ask(&[&good], &cache, &report).name.as_deref(),
        Some("hidden")
    );
    let file = kept(&cache).remove(0);
    std::fs::write(&file, &whole[..40]).unwrap();
    assert_eq!(
        ask(&[&good], &cache, &report).name.as_deref(),
        Some("hidden")
    );
    assert_eq!(std::fs::read(&file).unwrap(), whole);
}

/// No server gets a request unless the environment names one: whatever goes to the web goes through this proxy.
#[test]
fn a_folder_that_others_may_write_in_is_not_used() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    let folder = tempfile::tempdir().unwrap();
    let (bytes, report) = program(folder.path(), 0);
    let id: String = report.images[0]
        .id
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let served = bytes.clone();
    let (url, requests) = server(move |_, stream| ok(stream, &served));
    let cache = folder.path().join("it's shared");
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    for inner in [false, true] {
        let kept = cache.join(&id);
        std::fs::create_dir_all(&kept).unwrap();
        // What others have put there would name the frame.
        std::fs::write(kept.join("debuginfo"), &bytes).unwrap();
        let wide = if inner { &kept } else { &cache };
        mode(wide, 0o777);
        let before = requests.lock().unwrap().len();
        let outcome = ask(&[&url], &cache, &report);
        assert_eq!(outcome.name, None);
        let [why] = &outcome.failures[..] else {
            panic!("{:?}", outcome.failures)
        };
        assert!(
            why.contains("may be written by others (chmod go-w"),
            "{why}"
        );
        assert_eq!(requests.lock().unwrap().len(), before, "nobody is queried");
        mode(wide, 0o755);
        assert!(ask(&[&url], &cache, &report).name.is_some());
        std::fs::remove_dir_all(&cache).unwrap();
    }
    // It is made for this user alone; another user's file in it is fetched anew.
    assert!(ask(&[&url], &cache, &report).name.is_some());
    assert_eq!(std::fs::metadata(&cache).unwrap().mode() & 0o777, 0o700);
    let path = cache.join(&id).join("debuginfo");
    if chown(&path, Some(65_534), None).is_ok() {
        let before = requests.lock().unwrap().len();
        assert!(ask(&[&url], &cache, &report).name.is_some());
        assert_eq!(requests.lock().unwrap().len(), before + 1);
        assert_ne!(std::fs::metadata(&path).unwrap().uid(), 65_534);
    }
}

#[test]
fn no_request_is_made_unless_the_environment_names_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let (_, report) = program(folder.path(), 0);
    let path = folder.path().join("a.wedjat");
    std::fs::write(&path, wedjat::report::to_bytes(&report)).unwrap();
    let (proxy, requests) = server(|_, stream| status(stream, "502 Bad Gateway"));
    let run = |urls: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_symbolicate"));
        command
            .arg("--no-cache")
            .arg(&path)
            .env("HOME", folder.path());
        command
            .env_remove("DEBUGINFOD_URLS")
            .env("ALL_PROXY", &proxy);
        command.env_remove("NO_PROXY").env_remove("no_proxy");
        command.envs(urls.map(|urls| ("DEBUGINFOD_URLS", urls)));
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("missing"), "{errors}");
        std::mem::take(&mut *requests.lock().unwrap()).len()
    };
    for urls in [None, Some(""), Some("  "), Some("ima:enforcing")] {
        assert_eq!(run(urls), 0, "{urls:?}");
    }
    assert_eq!(run(Some("http://debuginfod.invalid")), 1);
}
