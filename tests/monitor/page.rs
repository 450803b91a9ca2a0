//! The programs of `README.md` and `docs/install.md`: they do what the pages show, with a folder that can be made and
//! without one.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use super::child::{Folder, command, deadline};

/// Formatted as the page has it.
#[rustfmt::skip]
mod shown_first {
    include!("shown_first.rs");

    pub fn run() {
        main();
    }
}

mod shown {
    include!("shown.rs");

    pub fn run() {
        main();
    }
}

/// Plays the program, if the role is this one.
pub fn is_played(role: &str) -> bool {
    match role {
        "install_page" => shown::run(),
        "readme" => shown_first::run(),
        _ => return false,
    }
    true
}

/// It has no end of its own.
pub fn the_first_one_goes_on() {
    let program = include_str!("shown_first.rs");
    let page = include_str!("../../README.md");
    assert!(page.contains(program), "it shows another program");
    for can_be_made in [true, false] {
        let folder = Folder::new("readme");
        let state = folder.0.join("state");
        if !can_be_made {
            std::fs::write(&state, b"a file").unwrap();
        }
        let mut program = command("readme", &folder.0);
        let program = program.env("XDG_STATE_HOME", &state);
        let mut child = program.stderr(Stdio::piped()).spawn().unwrap();
        let reports = state.join("myapp/reports");
        let is_made = || std::fs::read_dir(&reports).is_ok_and(|mut all| all.next().is_some());
        if can_be_made {
            deadline::until(&mut child, "folder", is_made);
        } else {
            let mut line = String::new();
            let errors = child.stderr.as_mut().unwrap();
            BufReader::new(errors).read_line(&mut line).unwrap();
            assert!(line.starts_with("no reports: reports cannot"), "{line}");
        }
        std::thread::sleep(Duration::from_millis(200));
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

pub fn does_what_it_shows() {
    let page = include_str!("../../docs/install.md");
    let program = include_str!("shown.rs");
    assert!(page.contains(program), "it shows another program");
    let (_, rest) = page.split_once("```text\n").unwrap();
    let (shown, _) = rest.split_once("```").unwrap();
    for can_be_made in [true, false] {
        let folder = Folder::new("page");
        let state = folder.0.join("state");
        if !can_be_made {
            std::fs::write(&state, b"a file").unwrap();
        }
        let mut program = command("install_page", &folder.0);
        let output = deadline::output(program.env("XDG_STATE_HOME", &state));
        let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        assert!(output.status.success(), "{}: {err}", output.status);
        assert_eq!(out, shown);
        assert_eq!(err.is_empty(), can_be_made, "{err}");
        assert_eq!(state.join("myapp/reports").is_dir(), can_be_made);
        if !can_be_made {
            let expected = format!(
                "no reports: reports cannot be written to {}",
                state.display()
            );
            assert!(err.starts_with(&expected), "{err}");
        }
    }
}
