//! The `symbolicate` command: its arguments, what it does with them, and its exit code.

mod address;
mod args;
mod batches;
mod cut;
mod faults;
mod inputs;
mod inspect;
mod interrupt;
mod output;
mod parsed;
mod printing;
mod progress;
mod reports;
mod select;
mod tally;
mod unpack;

use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;

pub use address::answer;
pub use args::{Args, FormatName, command, parse};

use output::{Output, Target};

use super::error::plain_words;
use super::format::facts::count;
use super::format::plain;
use super::{DebugFiles, Symbolicator};

/// 0: done.
const DONE: u8 = 0;
/// 1: some report was damaged, or under `--strict` a debug file is missing or not read in whole.
const DAMAGED: u8 = 1;
/// 2: usage.
const USAGE: u8 = 2;
/// 3: nothing could be read, an input could not be opened, or the output not written.
const UNREADABLE: u8 = 3;
/// 130: someone pressed Ctrl-C; what was done until then is there.
const INTERRUPTED: u8 = 130;

/// Runs the command with the process's own arguments and standard streams.
pub fn main() -> ExitCode {
    let args = match args::parse(std::env::args_os()) {
        Ok(args) => args,
        Err(error) => {
            // Help and version go to standard output, with exit code 0.
            print(&error);
            return ExitCode::from(if error.use_stderr() { USAGE } else { DONE });
        }
    };
    interrupt::explain_lost_file();
    interrupt::report_size_limit();
    faults::note_panics();
    ExitCode::from(run(&args, Box::new(io::stdin()), &mut io::stderr()))
}

/// Prints help, or what is wrong with the command line: that may repeat a stranger's words.
fn print(error: &clap::Error) {
    let text = error.render().to_string();
    let is_plain = |line| matches!(plain(line), Cow::Borrowed(_));
    if text.lines().all(is_plain) {
        let _ = error.print();
        return;
    }
    let lines: Vec<_> = text.lines().map(plain).collect();
    let _ = writeln!(io::stderr(), "{}", lines.join("\n"));
}

/// Runs the command; output goes to `--output` or standard output.
fn run(args: &Args, mut input: Box<dyn Read + Send>, errors: &mut dyn Write) -> u8 {
    let mut messages = Messages { errors };
    if let Some(what) = args.generate {
        let generated = args::generate(what, &mut io::stdout().lock());
        return exit_code(generated, &mut messages);
    }
    let mut files = DebugFiles::new()
        .cache(args.cache())
        .jobs(args.jobs())
        .follow_links(args.follow_links);
    if args.no_search {
        files = files.no_search();
    }
    files.reads_named = true;
    if let Some(path) = &args.inspect {
        return match inspect::inspect(path, &mut input) {
            Ok(found) => {
                let written = Output::open(args).and_then(|mut out| {
                    out.write_all(found.text.as_bytes())?;
                    out.finish()
                });
                match exit_code(written, &mut messages) {
                    DONE if found.damaged => DAMAGED,
                    code => code,
                }
            }
            Err(error) => {
                messages.error(&error.to_string());
                UNREADABLE
            }
        };
    }
    let target = Target::of(args);
    if let Some(refusal) = args.wrong_folder().or_else(|| target.refusal(args)) {
        messages.error(&refusal);
        return USAGE;
    }
    // Answers come without it, only later.
    if let Some(useless) = args.useless_cache() {
        messages.warning(&useless);
    }
    for path in &args.debug {
        match files.add(path) {
            Ok(added) => {
                for damaged in &added.damaged {
                    messages.warning(damaged);
                }
                if added.links_out > 0 {
                    messages.warning(&links_out(path, added.links_out as u64));
                }
                if added.objects == 0 {
                    messages.warning(&nothing_in(path));
                }
            }
            // A path that is not there is a mistake in the command; one that holds something else
            // still leaves the other debug files to use.
            Err(error @ super::Error::Io { .. }) => {
                messages.error(&format!("--debug {error}"));
                return USAGE;
            }
            Err(error) if args.address.is_empty() => messages.warning(&error.to_string()),
            Err(error) => {
                messages.error(&error.to_string());
                return UNREADABLE;
            }
        }
    }
    if !args.address.is_empty() {
        let code = faults::run(|| address::run(args, &files, &mut input, &mut messages));
        return code.unwrap_or_else(|fault| {
            messages.error(&fault);
            DAMAGED
        });
    }
    #[cfg(feature = "debuginfod")]
    let files = {
        let servers = super::Debuginfod::from_environment().filter(|_| !args.no_search);
        files.debuginfod(servers.map(|servers| servers.watch(progress::watch_downloads())))
    };
    #[cfg(not(feature = "debuginfod"))]
    if !args.no_search && std::env::var_os("DEBUGINFOD_URLS").is_some_and(|urls| !urls.is_empty()) {
        messages.warning(
            "DEBUGINFOD_URLS is set, but this build has no feature debuginfod: no server is asked",
        );
    }
    let symbolicator = Symbolicator::new(files);
    reports::run(args, &symbolicator, input, &target, &mut messages)
}

/// The warning for a path of `--debug` that names nothing.
fn nothing_in(path: &Path) -> String {
    let mut files = walkdir::WalkDir::new(path).into_iter().flatten();
    let package = files.find(|file| file.path().extension() == Some("dwp".as_ref()));
    let Some(package) = package else {
        return format!("{}: no debug files in it", path.display());
    };
    let package = package.path().display();
    format!("{package} needs the unstripped program beside it")
}

/// Says that links were not followed.
fn links_out(folder: &Path, links: u64) -> String {
    let (folder, links) = (folder.display(), count(links, "link"));
    format!("{folder}: {links} to places outside of it not followed; --follow-links follows them")
}

/// Messages to people, on standard error.
struct Messages<'a> {
    errors: &'a mut dyn Write,
}

impl Messages<'_> {
    fn error(&mut self, text: &str) {
        self.print_lines("error", text);
    }

    fn warning(&mut self, text: &str) {
        self.print_lines("warning", text);
    }

    fn print_lines(&mut self, what: &str, text: &str) {
        // Lines are ours; everything in them may be a stranger's.
        let lines: Vec<_> = text.lines().map(plain).collect();
        let _ = writeln!(self.errors, "symbolicate: {what}: {}", lines.join("\n"));
    }

    /// Says in which places debug files were looked for.
    fn searched(&mut self, files: &DebugFiles) {
        let places = Some(files.searched()).filter(|places| !places.is_empty());
        let places = places.map_or("nothing".to_owned(), |places| places.join(", "));
        self.note(&format!("searched for debug files: {places}"));
    }

    /// Names the debug files of which no lookup table can be made.
    fn without_table(&mut self, files: &DebugFiles) {
        for (file, reason) in files.without_table() {
            let file = file.display();
            self.note(&format!("{file}: no lookup table can be made: {reason}"));
        }
    }

    fn note(&mut self, text: &str) {
        let _ = writeln!(self.errors, "{}", plain(text));
    }
}

/// The exit code for a result of writing. A closed pipe is no error.
fn exit_code(result: io::Result<()>, messages: &mut Messages<'_>) -> u8 {
    match result {
        Ok(()) => DONE,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => DONE,
        Err(error) => {
            messages.error(&format!("can't write: {}", plain_words(&error)));
            UNREADABLE
        }
    }
}
