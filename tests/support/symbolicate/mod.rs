//! Programs made on the spot, and what others say of them.
#![allow(dead_code)]

pub mod home;

use std::path::{Path, PathBuf};
use std::process::Command;

use wedjat::new;
use wedjat::report::{Event, EventKind, Found, Frame, Image, Report, Signal, Thread};
use wedjat::symbolicate::{Addresses, DebugFiles, Stack, Symbolicator};

/// `.debug_line` in assembly: a program of DWARF 4 with these entries of files and these instructions.
pub fn line_program(files: &str, instructions: &str) -> String {
    format!(
        "
        .section .debug_line,\"\",@progbits
        .long .Lline_end - .Lline_version
        .Lline_version: .value 4
        .long .Lprogram - .Lprologue
        .Lprologue: .byte 1, 1, 1, -5, 14, 13
        .byte 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1
        .byte 0
        {files}
        .byte 0
        .Lprogram:
        {instructions}
        .Lline_end:
        "
    )
}

/// A folder with sources and what was made of them.
pub struct Workshop {
    folder: tempfile::TempDir,
}

impl Workshop {
    /// A folder with these files in it.
    pub fn new(files: &[(&str, &str)]) -> Workshop {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Workshop { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a tool in the folder; words are separated by spaces. What it printed.
    pub fn run(&self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        let output = Command::new(words[0])
            .args(&words[1..])
            .current_dir(self.folder.path())
            .output();
        let output = output.unwrap_or_else(|e| panic!("{} is needed for this test: {e}", words[0]));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The address of a symbol, by `nm`.
    pub fn address(&self, file: &str, symbol: &str) -> u64 {
        let listing = self.run(&format!("nm {file}"));
        let line = listing
            .lines()
            .find(|line| line.split(' ').nth(2) == Some(symbol));
        let line = line.unwrap_or_else(|| panic!("no {symbol} in {file}:\n{listing}"));
        u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
    }

    /// Start and size of a section, by `readelf`.
    pub fn section(&self, file: &str, name: &str) -> (u64, u64) {
        let listing = self.run(&format!("readelf -SW {file}"));
        let line = listing
            .lines()
            .find(|line| line.contains(&format!(" {name} ")));
        let line = line.unwrap_or_else(|| panic!("no {name} in {file}:\n{listing}"));
        let words: Vec<&str> = line.split(']').nth(1).unwrap().split_whitespace().collect();
        let number = |at: usize| u64::from_str_radix(words[at], 16).unwrap();
        (number(2), number(4))
    }

    /// The build id, by `readelf`; empty where there is none.
    pub fn id(&self, file: &str) -> Vec<u8> {
        let notes = self.run(&format!("readelf -n {file}"));
        let hex = notes
            .lines()
            .find_map(|line| line.trim().strip_prefix("Build ID: "))
            .unwrap_or("");
        (0..hex.len() / 2)
            .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
            .collect()
    }

    /// The symbolicator over these files and folders alone, for single addresses.
    pub fn symbolicator(&self, paths: &[&str]) -> Addresses {
        let mut files = DebugFiles::new().no_search();
        for path in paths {
            files.add(&self.path(path)).unwrap();
        }
        Addresses::new(&files, None, None).unwrap()
    }

    /// `function:line` at an address of `file`, innermost first; line 0 where there is none.
    pub fn chain(&self, paths: &[&str], address: u64) -> Vec<String> {
        chain(&self.symbolicator(paths).frames(address))
    }

    /// A report that `file` was loaded and has these frames, as stated in it.
    pub fn report(&self, file: &str, frames: &[(u64, Found)]) -> Report {
        let mut report = Report::default();
        report.head.arch = "x86_64".into();
        report.images.push(new!(Image {
            name: self.path(file).display().to_string(),
            id: self.id(file),
            base: SLIDE,
            size: 0x100_0000,
        }));
        let frames = frames.iter().map(|&(svma, found)| {
            new!(Frame {
                pc: SLIDE + svma,
                found,
                image: Some(0),
            })
        });
        report.threads.push(new!(Thread {
            main: true,
            crashed: true,
            frames: frames.collect(),
        }));
        report
    }
}

const SLIDE: u64 = 0x5555_0000_0000;

pub fn chain(frames: &[wedjat::symbolicate::SourceFrame]) -> Vec<String> {
    let text = |f: &wedjat::symbolicate::SourceFrame| {
        format!(
            "{}:{}",
            f.function.as_deref().unwrap_or("?"),
            f.line.unwrap_or(0)
        )
    };
    frames.iter().map(text).collect()
}

/// The frames of the report's one thread, each as [`chain`] has it.
pub fn chains(files: DebugFiles, report: Report) -> Vec<Vec<String>> {
    let result = Symbolicator::new(files).symbolicate(report);
    let Stack { frames, .. } = &result.threads[0];
    frames.iter().map(|frame| chain(&frame.frames)).collect()
}

pub fn crash(mut report: Report, signal: &str) -> Report {
    report.event = Some(new!(Event {
        kind: EventKind::Crash,
        fatal: true,
        signal: Some(new!(Signal {
            name: signal.into(),
        })),
    }));
    report
}

/// The line of a source that ends with `// @mark`.
pub fn line_of(source: &str, mark: &str) -> u32 {
    let end = format!("@{mark}");
    let at = source.lines().position(|line| line.ends_with(&end));
    at.unwrap_or_else(|| panic!("no {mark}")) as u32 + 1
}

pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::fs::copy(from, to).unwrap();
}
