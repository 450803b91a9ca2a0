//! The command line, as `--help`, the man page and the shell completions have it.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use crate::report::Redact;
use crate::symbolicate::Cache;
use crate::symbolicate::error::plain_words;
use clap::{ColorChoice, CommandFactory, Parser, ValueEnum};

/// Turns crash and stall reports into functions, files and lines.
///
/// Reads reports (files, folders, or - for standard input), looks their addresses up in dSYMs and
/// ELF debug files with the same UUID or build id, and prints them. It prints only names that
/// are certain; any other address stays image + offset.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "symbolicate",
    version,
    arg_required_else_help = true,
    override_usage = "symbolicate [OPTIONS] REPORT...\n       \
                      symbolicate --debug PATH [--arch ARCH] [--load-address AVMA] --address ADDR...|-\n       \
                      symbolicate --inspect FILE\n       \
                      symbolicate --generate WHAT",
    after_long_help = AFTER_HELP
)]
pub struct Args {
    /// Reports: files, folders of them, or - for standard input; also packed (.gz, .zst)
    #[arg(value_name = "REPORT", required_unless_present_any = ["address", "inspect", "generate"])]
    pub reports: Vec<PathBuf>,

    /// Debug files: a dSYM, an .xcarchive, a Mach-O or ELF file, a dyld shared cache, or a folder of them
    ///
    /// Can be repeated. Xcode's DeviceSupport folder names Apple's own libraries. On Linux, symbolicate
    /// also reads the system's libraries (/usr/lib and the like) and /usr/lib/debug.
    #[arg(short, long, visible_alias = "dsym", value_name = "PATH")]
    pub debug: Vec<PathBuf>,

    /// Read only the files and folders that the command line names
    ///
    /// Without it, symbolicate also reads system libraries that a report names, programs and libraries at the paths in a
    /// report (if nobody but root or you could have put them there), /usr/lib/debug, files that a debug file
    /// refers to by their paths, a .dSYM beside a binary, Xcode's folders (Archives, DerivedData, DeviceSupport) and what
    /// Spotlight finds, and asks the servers in DEBUGINFOD_URLS. Use it for reports or debug files of strangers.
    #[arg(long)]
    pub no_search: bool,

    /// Follow links that lead out of the folders of debug files and reports
    #[arg(long)]
    pub follow_links: bool,

    /// The output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub format: FormatName,

    /// Print to a file instead of standard output
    ///
    /// The file appears once it is complete. It must not be an input.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// The folder for lookup tables of debug files; they make the next run faster [default: a folder in
    /// the user's cache folder]
    ///
    /// If the folder holds other files, the tables go to a folder wedjat-cache in it. symbolicate removes
    /// only its own tables.
    #[arg(long, value_name = "DIR", conflicts_with = "no_cache")]
    pub cache: Option<PathBuf>,

    /// Do not read lookup tables of earlier runs, nor keep those of this one
    #[arg(long)]
    pub no_cache: bool,

    /// Exit with 1 when a debug file is missing or not read in whole
    ///
    /// A library of the operating system counts as missing only if its own symbol table is missing too.
    #[arg(long)]
    pub strict: bool,

    /// The number of threads [default: one for each core]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,

    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: ColorChoice,

    /// Print names as the linker knows them
    #[arg(long)]
    pub no_demangle: bool,

    /// A folder with source code; text and html show the lines around each frame
    ///
    /// Can be repeated. symbolicate searches it by the paths in the debug files. It reads no hidden
    /// files (.env, .git) and follows no links out of the folder.
    #[arg(short, long, value_name = "DIR")]
    pub source: Vec<PathBuf>,

    /// Remove what identifies a user from the output
    ///
    /// This removes user names in paths, values of keys that often hold names or secrets, raw bytes, and the
    /// randomised part of addresses. Messages, breadcrumbs and other keys stay, without the user names in
    /// them.
    #[arg(long, conflicts_with_all = ["address", "inspect"])]
    pub scrub: bool,

    /// With --scrub, also remove the values of keys that match; * matches any characters
    #[arg(long, value_name = "PATTERN", requires = "scrub")]
    pub scrub_key: Vec<String>,

    #[command(flatten)]
    pub select: super::select::Select,

    /// Print the N groups of reports that hurt users most, such as --top 10; --top alone prints 10
    ///
    /// Groups that ended launches come first: crashes, and stalls without an end. Then time decides, then the number
    /// of reports. Two reports are in one group if the app's frames of their heaviest stacks are equal, in any build.
    /// The formats are text, json, ndjson and html.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with_all = ["address", "inspect", "list_missing"])]
    pub top: Option<u32>,

    /// Print one group: what --top says of it, its history by version and day, its reports, and a stack
    ///
    /// KEY is the group's key, or its first 8 digits. The formats are text, json, ndjson and html.
    #[arg(long, value_name = "KEY", value_parser = parse_key, conflicts_with_all = ["address", "inspect", "list_missing", "top"])]
    pub group: Option<String>,

    /// Print every message about reports, and every frame
    ///
    /// Without it, symbolicate counts messages after the first ones, and text omits the frames of a panic's own
    /// handling. It names the places that were searched for debug files, and debug files of which no lookup table can be
    /// made. With --address, it prints the number of
    /// addresses and the debug file.
    #[arg(short, long, conflicts_with = "inspect")]
    pub verbose: bool,

    /// Print only the debug files that are missing
    #[arg(long, conflicts_with_all = ["address", "inspect"])]
    pub list_missing: bool,

    /// Addresses to look up in the one image that --debug holds; - reads one per line
    ///
    /// Addresses are hexadecimal and are not adjusted: for a return address, pass the address before it.
    /// Text has one line per frame, innermost first, as atos prints it: function (in image) (file.c:42).
    /// A blank line separates addresses. ndjson has one line per address. An unknown address is not a failure.
    #[arg(long, value_name = "ADDR", num_args = 1.., requires = "debug", conflicts_with = "reports")]
    pub address: Vec<String>,

    /// The image of a universal file, such as arm64 or x86_64
    #[arg(long, value_name = "ARCH", requires = "address")]
    pub arch: Option<String>,

    /// The address at which the image was loaded; without it, addresses are those of the file (svmas)
    #[arg(long, value_name = "AVMA", value_parser = parse_address, requires = "address")]
    pub load_address: Option<u64>,

    /// Print what a debug file or a report holds, also a packed one (.gz, .zst); - reads a report from standard input
    #[arg(long, value_name = "FILE", exclusive = true)]
    pub inspect: Option<PathBuf>,

    /// Print the man page or shell completions
    #[arg(long, value_name = "WHAT", exclusive = true)]
    pub generate: Option<Generate>,
}

const AFTER_HELP: &str = "\
Exit status:
  0    done
  1    a report is damaged (its readable part is printed), or with --strict a debug file is missing
       or was not read in whole
  2    the command line is wrong, or the output is one of the inputs
  3    nothing could be read, an input could not be opened (the others are printed), or the output
       could not be written
  130  interrupted by Ctrl-C: the reports up to then are printed

Environment:
  DEBUGINFOD_URLS        servers to ask for debug files that are missing on this machine; unified+URL and
                         symsrv+URL are stores of files by these layouts; without it symbolicate does not
                         use the network
  DEBUGINFOD_TIMEOUT     seconds to wait for an answer [default: 90]
  DEBUGINFOD_MAXSIZE     the largest file to download, in bytes [default: 8 GiB]
  DEBUGINFOD_CACHE_PATH  the folder for downloaded files
  DEBUGINFOD_PROGRESS    report downloads even if standard error is not a terminal
  XDG_CACHE_HOME, HOME   the user's cache folder lies there

Examples:
  symbolicate report.wedjat
  symbolicate --debug MyApp.xcarchive crash.wedjat
  symbolicate --debug symbols/ --format json reports/ > reports.json
  symbolicate --debug MyApp.dSYM --arch arm64 --load-address 0x104c3c000 --address 0x104c4a1b8
  llvm-nm app | cut -d' ' -f1 | symbolicate --debug app --address - --format ndjson";

/// The formats of `--format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[non_exhaustive]
pub enum FormatName {
    /// The layout of Apple's crash reports
    Text,
    /// One JSON document
    Json,
    /// One JSON object per line
    Ndjson,
    /// Stacks with their counts, for flame graph tools
    Folded,
    /// For profiler.firefox.com
    Firefox,
    /// An envelope for Sentry or GlitchTip, one event per report
    Sentry,
    /// A page for browsers
    Html,
    /// A table for data warehouses, one row per report (in builds with the feature parquet)
    Parquet,
    /// The table of the frames of these reports' stacks, one row per frame (in such builds)
    ParquetFrames,
}

/// The choices of `--generate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Generate {
    /// The man page
    Man,
    /// Completions for bash
    Bash,
    /// Completions for zsh
    Zsh,
    /// Completions for fish
    Fish,
}

impl Args {
    pub(super) fn cache(&self) -> Option<Cache> {
        match &self.cache {
            _ if self.no_cache => None,
            Some(folder) => Some(Cache::new(folder)),
            None => Cache::of_user(),
        }
    }

    /// Returns what is wrong with a folder that must be there.
    pub(super) fn wrong_folder(&self) -> Option<String> {
        self.source.iter().find_map(|folder| {
            let error = std::fs::read_dir(folder).err()?;
            let (folder, error) = (folder.display(), plain_words(&error));
            Some(format!("--source {folder}: {error}"))
        })
    }

    /// Why the folder that was named for tables is of no use.
    pub(super) fn useless_cache(&self) -> Option<String> {
        let folder = self.cache.as_ref()?;
        let error = self.cache()?.prepare().err()?;
        let (folder, error) = (folder.display(), plain_words(&error));
        Some(format!("--cache {folder}: {error}; going on without"))
    }

    pub(super) fn redaction(&self) -> Option<Redact> {
        let mut rules = self.scrub.then(Redact::default)?;
        rules.keys.extend(self.scrub_key.iter().cloned());
        Some(rules)
    }

    /// Returns true if nothing is printed before all reports were read.
    pub(super) fn prints_at_end(&self) -> bool {
        use FormatName::{Json, Ndjson, Sentry, Text};
        let is_stream = [Text, Json, Ndjson, Sentry].contains(&self.format);
        self.is_grouped() || self.output.is_some() || !is_stream
    }

    /// Returns true if groups are printed, and not reports.
    pub(super) fn is_grouped(&self) -> bool {
        self.top.is_some() || self.group.is_some()
    }

    pub(super) fn jobs(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or_else(cores, usize::from)
    }
}

/// The command as clap knows it.
pub fn command() -> clap::Command {
    Args::command()
}

/// The arguments as the command takes them; the first is its own name.
///
/// # Errors
/// What is wrong with them; help and version are errors, too.
pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Args, clap::Error> {
    let mut command = command();
    let mut matches = command.clone().try_get_matches_from(with_top(args))?;
    let parsed = <Args as clap::FromArgMatches>::from_arg_matches_mut(&mut matches)?;
    use FormatName::{Html, Json, Ndjson, Parquet, ParquetFrames, Text};
    let is_parquet = [Parquet, ParquetFrames].contains(&parsed.format);
    let prints_groups = [Text, Json, Ndjson, Html].contains(&parsed.format);
    let message = match () {
        () if is_parquet && !cfg!(feature = "parquet") => {
            "--format parquet: this build does not have it; build symbolicate with `--features parquet`"
        }
        () if parsed.is_grouped() && !prints_groups => {
            "--top and --group print groups as text, json, ndjson or html"
        }
        () if parsed.list_missing && parsed.format != Text => "--list-missing prints text",
        () => return Ok(parsed),
    };
    Err(command.error(clap::error::ErrorKind::ArgumentConflict, message))
}

/// `--top 5` as `--top=5`, and a bare `--top` as `--top=10`: what follows it and is no number is a report.
fn with_top(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut result: Vec<OsString> = Vec::new();
    let mut args = args.peekable();
    let mut options = true;
    while let Some(mut arg) = args.next() {
        options &= arg != "--";
        if options && arg == "--top" {
            let is_number = |next: &OsString| {
                let next = next.to_str();
                next.is_some_and(|next| next.parse::<i64>().is_ok())
            };
            arg.push("=");
            arg.push(args.next_if(is_number).unwrap_or_else(|| "10".into()));
        }
        result.push(arg);
    }
    result
}

/// A hexadecimal address, with or without `0x`.
pub(super) fn parse_address(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let digits = digits.unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err("not a hexadecimal address".into());
    }
    u64::from_str_radix(digits, 16)
        .map_err(|_| "an address has at most 16 hexadecimal digits".into())
}

/// The first digits of a group's key.
fn parse_key(text: &str) -> Result<String, &'static str> {
    let is_key = text.len() >= 8 && text.bytes().all(|c| c.is_ascii_hexdigit());
    is_key
        .then(|| text.to_owned())
        .ok_or("not 8 hexadecimal digits or more")
}

pub(super) fn generate(what: Generate, out: &mut dyn io::Write) -> io::Result<()> {
    use clap_complete::Shell;
    let mut command = command();
    let shell = match what {
        Generate::Man => return clap_mangen::Man::new(command).render(out),
        Generate::Bash => Shell::Bash,
        Generate::Zsh => Shell::Zsh,
        Generate::Fish => Shell::Fish,
    };
    clap_complete::generate(shell, &mut command, "symbolicate", out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn addresses_are_hexadecimal_with_or_without_their_mark() {
        assert_eq!(parse_address("0x1F"), Ok(0x1f));
        assert_eq!(parse_address(" 1f "), Ok(0x1f));
        assert_eq!(parse_address("ffffffffffffffff"), Ok(u64::MAX));
        assert!(parse_address("").is_err());
        assert!(parse_address("+1f").is_err());
        assert!(parse_address("10000000000000000").is_err());
    }
}
