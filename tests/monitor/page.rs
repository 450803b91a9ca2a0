//! The program of `README.md`: it does what the page shows, with a folder that can be made and without one.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use super::child::{Folder, command, deadline};

/// Formatted as the page has it.
#[rustfmt::skip]
mod shown {
    include!("shown.rs");

    pub fn run() {
        main();
    }
}

/// Plays the program, if the role is this one.
pub fn is_played(role: &str) -> bool {
    let is_ours = role == "readme";
    if is_ours {
        shown::run();
    }
    is_ours
}

/// It has no end of its own.
pub fn goes_on() {
    let program = include_str!("shown.rs");
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
