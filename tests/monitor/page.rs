//! The program of `docs/install.md`: it does what the page shows, with a folder that can be made and without one.

use super::child::{Folder, command, deadline};

mod shown {
    include!("shown.rs");

    pub fn run() {
        main();
    }
}

/// Plays the program, if the role is this one.
pub fn is_played(role: &str) -> bool {
    let plays = role == "install_page";
    if plays {
        shown::run();
    }
    plays
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
