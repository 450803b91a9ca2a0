//! `symbolicate` takes nothing away from its user: whatever option names a folder full of other things,
//! they stay as they are; what it writes is there whole or not at all, and never in the place of an input.

use crate::deadline;
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::support::symbolicate::home::Home;

/// What a command that is refused, or that is interrupted, leaves behind.
const NOTHING: [PathBuf; 0] = [];

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_symbolicate"));
    command.args(args).stdin(Stdio::null());
    deadline::as_at_a_terminal(&mut command);
    command
}

fn run(args: &[&str]) -> Output {
    deadline::output(&mut command(args))
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Every option that takes a path, over a folder full of other people's files.
#[test]
fn no_option_takes_anything_from_a_folder_of_other_things() {
    let home = Home::new();
    let (root, report) = (home.path(""), home.path("a.wedjat"));
    let program = home.path("program");
    let page = home.path("page.html");
    let lines: [&[&str]; 11] = [
        &["--cache", &root, &report],
        &["--cache", &root, "--debug", &root, &report],
        &["--cache", &root, "--debug", &program, "--address", "0"],
        &["--debug", &root, "--strict", &report],
        &["--debug", &root, "--list-missing", &root],
        &["--source", &root, "--format", "html", &report],
        &[
            "--source", &root, "--output", &page, "--format", "html", &report,
        ],
        &["--output", &page, "--top", "3", &root],
        &["--inspect", &report],
        &["--inspect", &program],
        &["--generate", "man"],
    ];
    for line in lines {
        let output = run(line);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{line:?}: {}",
            printed(&output)
        );
        home.check(&format!("{line:?}"));
    }
    // The folders that the environment names, and the current one.
    for variable in ["XDG_CACHE_HOME", "HOME", "DEBUGINFOD_CACHE_PATH"] {
        let mut command = command(&["--cache", ".", "--debug", ".", "a.wedjat"]);
        command
            .current_dir(&root)
            .env_remove("XDG_CACHE_HOME")
            .env_remove("HOME");
        command
            .env("DEBUGINFOD_URLS", "http://127.0.0.1:9")
            .env("DEBUGINFOD_TIMEOUT", "1");
        let output = deadline::output(command.env(variable, &root));
        assert_eq!(output.status.code(), Some(0), "{}", printed(&output));
        home.check(variable);
    }
}

#[test]
fn an_output_that_is_an_input_is_refused() {
    let home = Home::new();
    let report = home.path("a.wedjat");
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("link").display().to_string();
    symlink(&report, &link).unwrap();
    let hard = elsewhere.path().join("hard").display().to_string();
    std::fs::hard_link(&report, &hard).unwrap();
    let (root, program) = (home.path(""), home.path("program"));
    let (below, source) = (home.path("reports/b.wedjat"), home.path("a.c"));
    let caches = tempfile::tempdir().unwrap();
    let cache = caches.path().join("dyld_shared_cache_arm64e");
    std::fs::write(&cache, b"dyld_v1  arm64e\0").unwrap();
    let (caches, cache) = (caches.path().to_str().unwrap(), cache.to_str().unwrap());
    let dotted = home.path("./reports/../a.wedjat");
    let lines: [&[&str]; 13] = [
        &["--output", &report, &report],
        &["--output", &dotted, &report],
        &["--output", &link, &report],
        &["--output", &report, &link],
        &["--output", &hard, &report],
        &["--output", &below, &root],
        &["--output", &hard, "--format", "json", &below, &root],
        &["--output", &program, "--debug", &program, &report],
        &["--output", &program, "--debug", &root, &report],
        &["--output", cache, "--debug", caches, &report],
        // It is the image's own file.
        &["--output", &program, &report],
        &["--output", &program, "--debug", &program, "--address", "0"],
        &[
            "--output", &source, "--source", &root, "--debug", &program, &report,
        ],
    ];
    for line in lines {
        let output = run(line);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{line:?}: {}",
            printed(&output)
        );
        assert_eq!(output.stdout, b"", "{line:?}");
        let printed = printed(&output);
        let message = ["the place of an input", "it stays as it is"];
        assert!(
            message.iter().any(|part| printed.contains(part)),
            "{line:?}: {printed}"
        );
        assert_eq!(home.check(&format!("{line:?}")), NOTHING);
        assert!(Path::new(&link).is_symlink());
        assert_eq!(std::fs::read(cache).unwrap(), b"dyld_v1  arm64e\0");
    }
    // Standard input that is the output, and standard output that is an input.
    let open = || std::fs::File::open(&report).unwrap();
    let output = deadline::output(command(&["--output", &report, "-"]).stdin(open()));
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
    home.check("standard input");
    let append = std::fs::File::options().append(true).open(&report).unwrap();
    let mut child = command(&[&report]);
    let status = child.stdout(append).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(2));
    home.check("standard output");
}

/// `symbolicate . > all.txt` in a folder of reports, and the same again a day later.
#[test]
fn results_in_a_folder_of_reports_are_no_reports() {
    let home = Home::new();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    for at in 0..40 {
        std::fs::copy(home.path("a.wedjat"), path(&format!("{at:02}.wedjat"))).unwrap();
    }
    let (root, program) = (path(""), home.path("program"));
    let count = |what: &str| {
        let output = run(&["--format", "ndjson", "--debug", &program, &root]);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{what}: {}",
            printed(&output)
        );
        assert_eq!(printed(&output), "", "{what}");
        String::from_utf8_lossy(&output.stdout).lines().count()
    };
    for (format, name) in [
        ("text", "all.txt"),
        ("json", "all.json"),
        ("ndjson", "lines.json"),
        ("firefox", "profile.json"),
        ("folded", "stacks.txt"),
    ] {
        let line = ["--format", format, "--output", &path(name), &root];
        let first = run(&line);
        assert_eq!(
            first.status.code(),
            Some(0),
            "{format}: {}",
            printed(&first)
        );
        let written = std::fs::read(path(name)).unwrap();
        assert_eq!(count(format), 40, "{format}");
        let again = run(&line);
        assert_eq!(
            again.status.code(),
            Some(0),
            "{format}: {}",
            printed(&again)
        );
        assert!(std::fs::read(path(name)).unwrap() == written, "{format}");
    }
    // The shell has opened the file, and the first results are in it, before the folder is read to its end.
    let into = std::fs::File::create(path("15.txt")).unwrap();
    let mut child = command(&[&root]);
    let status = child.stdout(into).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(0));
    // One that is named is read: a report that was kept as text alone.
    let output = run(&["--format", "ndjson", &path("all.txt")]);
    assert_eq!(output.status.code(), Some(0), "{}", printed(&output));
    assert!(output.stdout.starts_with(b"{"));
}

#[test]
fn an_output_appears_once_it_is_whole() {
    let home = Home::new();
    let missing = home.path("none.wedjat");
    let page = home.path("page.html");
    let letter = home.path("letter.txt");
    let unreadable = home.path("photos/1.jpg");
    for (output, input) in [(&page, &missing), (&letter, &missing), (&page, &unreadable)] {
        let output = run(&["--format", "html", "--output", output, input]);
        assert_eq!(output.status.code(), Some(3), "{}", printed(&output));
        assert_eq!(home.check("no report"), NOTHING);
    }
    let report = home.path("a.wedjat");
    let html = |output: &str| run(&["--format", "html", "--output", output, &report]);
    let output = html(&page);
    assert_eq!(output.status.code(), Some(0), "{}", printed(&output));
    assert_eq!(home.check("a page"), [PathBuf::from(&page)]);
    let whole = std::fs::read_to_string(&page).unwrap();
    assert!(whole.trim_end().ends_with("</html>"));
    let mode = |path: &str| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&page), 0o600, "the user's alone");
    // One that is there keeps its mode, and a link stays one.
    std::fs::write(&page, "old").unwrap();
    std::fs::set_permissions(&page, std::fs::Permissions::from_mode(0o640)).unwrap();
    let link = home.path("link.html");
    symlink("page.html", &link).unwrap();
    assert_eq!(html(&link).status.code(), Some(0));
    assert!(Path::new(&link).is_symlink());
    assert_eq!(std::fs::read_to_string(&page).unwrap(), whole);
    assert_eq!(mode(&page), 0o640);
    // A place where nothing can be made, and a full one.
    let output = html(&home.path("no/such/folder/page.html"));
    assert_eq!(output.status.code(), Some(3));
    assert!(
        printed(&output).contains("can't write"),
        "{}",
        printed(&output)
    );
    assert_eq!(html(&home.path("photos")).status.code(), Some(3));
    assert_eq!(html("/dev/full").status.code(), Some(3));
    home.check("places that are none");
}

#[test]
fn a_limit_of_the_file_size_is_an_error_and_leaves_nothing() {
    let home = Home::new();
    let report = home.path("a.wedjat");
    let mut command = Command::new("bash");
    command
        .args(["-c", "ulimit -f 1; exec \"$@\"", "bash"])
        .arg(env!("CARGO_BIN_EXE_symbolicate"))
        .args(["--no-cache", "--format", "html", "--output"])
        .args([&home.path("out.html"), &report]);
    let output = deadline::output(&mut command);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(printed(&output).contains("File too large"), "{output:?}");
    home.check("a limit of the file size");
}

#[test]
fn what_is_no_file_is_written_into() {
    let home = Home::new();
    let report = home.path("a.wedjat");
    let expected = run(&[&report]).stdout;
    assert!(!expected.is_empty());
    assert_eq!(
        run(&["--output", "/dev/null", &report]).status.code(),
        Some(0)
    );
    let null = std::fs::metadata("/dev/null").unwrap();
    assert!(null.file_type().is_char_device());
    for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        let output = run(&["--output", name, &report]);
        assert_eq!(output.stdout, expected, "{name}: {}", printed(&output));
        // A file that the shell opened is gone on with.
        let kept = home.path("kept");
        std::fs::write(&kept, "before\n").unwrap();
        let file = std::fs::File::options().append(true).open(&kept).unwrap();
        let status = command(&["--output", name, &report]).stdout(file).status();
        assert!(status.unwrap().success());
        let bytes = std::fs::read(&kept).unwrap();
        assert_eq!(bytes, [b"before\n", &expected[..]].concat(), "{name}");
    }
    let pipe = home.path("pipe");
    home.shop.run(&format!("mkfifo {pipe}"));
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || {
            let mut bytes = Vec::new();
            std::fs::File::open(pipe)
                .unwrap()
                .read_to_end(&mut bytes)
                .unwrap();
            bytes
        }
    });
    assert_eq!(run(&["--output", &pipe, &report]).status.code(), Some(0));
    assert_eq!(reader.join().unwrap(), expected);
    assert!(std::fs::metadata(&pipe).unwrap().file_type().is_fifo());
}

/// A first Ctrl-C, two of them, a request to terminate, and a terminal that is closed: nothing of the output stays.
#[test]
fn ctrl_c_leaves_nothing_of_an_output() {
    let home = Home::new();
    let report = std::fs::read(home.path("a.wedjat")).unwrap();
    let (page, program) = (home.path("page.html"), home.path("program"));
    let letter = home.path("letter.txt");
    let many: &[&str] = &["--format", "html", "--output", &page, "-"];
    let over: &[&str] = &["--format", "json", "--output", &letter, "-"];
    let answers: &[&str] = &["--debug", &program, "--address", "-", "--output", &page];
    let signals = [
        &[libc::SIGINT][..],
        &[libc::SIGTERM],
        &[libc::SIGHUP],
        &[libc::SIGINT; 2],
    ];
    for args in [many, over, answers] {
        for signals in signals {
            let mut child = command(args);
            let mut child = child
                .stdin(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut input = child.stdin.take().unwrap();
            let line = if args == answers {
                b"0x1000\n"
            } else {
                &report[..]
            };
            input.write_all(line).unwrap();
            // It is at work once its file is there.
            while home.check("at work").is_empty() {
                std::thread::sleep(Duration::from_millis(2));
                assert!(child.try_wait().unwrap().is_none(), "{args:?} has ended");
            }
            for &signal in signals {
                // SAFETY: a process of ours that was not waited for yet.
                unsafe { libc::kill(child.id() as libc::pid_t, signal) };
            }
            let ended = deadline::end(child, deadline::PATIENCE);
            assert_ne!(ended.status.code(), Some(0), "{args:?} {signals:?}");
            let left = home.check("Ctrl-C");
            assert_eq!(left, NOTHING, "{args:?} {signals:?}");
        }
    }
}

/// A pipe that nobody reads: the command waits, and a request to terminate ends it.
#[test]
fn a_pipe_without_a_reader_is_left_at_the_first_signal() {
    let home = Home::new();
    let pipe = home.path("pipe");
    home.shop.run(&format!("mkfifo {pipe}"));
    let report = home.path("a.wedjat");
    let child = command(&["--output", &pipe, &report]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    // SAFETY: a process of ours that was not waited for yet.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
    let ended = deadline::end(child, Duration::from_secs(60));
    assert_eq!(ended.status.signal(), Some(libc::SIGTERM));
}

/// As nohup(1) starts it.
#[test]
fn a_command_that_ignores_the_end_of_its_terminal_goes_on() {
    use std::os::unix::process::CommandExt;
    let home = Home::new();
    let report = std::fs::read(home.path("a.wedjat")).unwrap();
    let page = home.path("page.html");
    let mut child = command(&["--format", "html", "--output", &page, "-"]);
    // SAFETY: signal(2) alone is called after `fork`.
    unsafe {
        child.pre_exec(|| {
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
            Ok(())
        });
    }
    let child = child.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&report).unwrap();
    while home.check("at work").is_empty() {
        std::thread::sleep(Duration::from_millis(2));
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
    }
    // SAFETY: a process of ours that was not waited for yet.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGHUP) };
    drop(input);
    let ended = deadline::end(child, deadline::PATIENCE);
    assert_eq!(ended.status.code(), Some(0));
    assert!(std::fs::metadata(&page).unwrap().len() > 1000);
}

/// A link, a pipe or a file of another user's where the output is to be is refused, and stays.
#[test]
fn an_output_of_another_user_is_refused() {
    use std::os::unix::fs::{MetadataExt, lchown};
    let home = Home::new();
    let report = home.path("a.wedjat");
    let folder = tempfile::tempdir().unwrap();
    let [file, link, pipe, mine] =
        ["file", "link", "pipe", "mine"].map(|name| folder.path().join(name));
    std::fs::write(&file, "theirs").unwrap();
    std::fs::write(&mine, "mine").unwrap();
    symlink(&mine, &link).unwrap();
    home.shop.run(&format!("mkfifo {}", pipe.display()));
    for path in [&file, &link, &pipe] {
        if lchown(path, Some(65_534), None).is_err() {
            eprintln!("NOT TESTED: only root can give a file away");
            return;
        }
        let before = std::fs::symlink_metadata(path).unwrap();
        let output = run(&["--no-cache", "--output", path.to_str().unwrap(), &report]);
        assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
        assert!(
            printed(&output).contains("another user"),
            "{}",
            printed(&output)
        );
        assert_eq!(std::fs::symlink_metadata(path).unwrap().ino(), before.ino());
    }
    assert_eq!(std::fs::read(&mine).unwrap(), b"mine");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4);
}
