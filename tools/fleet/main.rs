//! The reports of a simulated fleet, with the truth beside them, and how well `--top` groups them.
//!
//! ```text
//! cargo run --release --example fleet -- write DIR REPORTS [SEED] [REPORTS-PER-FILE]
//! symbolicate --debug DIR/debug --top 10 DIR/reports
//! cargo run --release --example fleet -- score DIR
//! cargo run --release --example fleet -- measure REPORTS SEED...
//! cargo run --release --example fleet -- frameworks DIR REPORTS FILES [SEED]
//! ```
//!
//! `--language plain|async|async-lines|cpp` says what the app is written in: Rust of plain functions (the default), of
//! async ones (with `debug = "limited"`, and with `"line-tables-only"`), or C++ (`g++` is needed).
//!
//! `write` compiles an app in several builds, which differ by added closures, moved lines, renamed files, manglings, other
//! compilers' suffixes, and tail calls, which leave no frame (`rustc` is needed), and writes reports of its stalls by the writer
//! that the recorder uses: a few hundred distinct stalls by Zipf's law, durations, devices, samples of which some show something
//! else, some reports cut or damaged. `truth.tsv` says which report is of which stall. `score` reads them back through the
//! symbolicator, and prints precision and
//! recall over all pairs of reports. `measure` does both for each seed, in a folder that it removes; its exit status says
//! whether both are 0.97 or more for all of them. `frameworks` writes reports of 100 frames over 20 frameworks, which have so
//! many debug files in all their versions (`cc` is needed): for measurements of time and memory.

mod app;
mod cpp;
mod frameworks;
mod random;
mod rust;
mod score;
mod stalls;
mod write;

use std::error::Error;
use std::path::Path;

use app::Language;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut language = Language::Plain;
    if let Some(at) = args.iter().position(|arg| *arg == "--language") {
        let name = args.get(at + 1).copied().unwrap_or_default();
        let known = LANGUAGES.iter().find(|(known, _)| *known == name);
        language = known.ok_or(format!("no such language: {name}"))?.1;
        args.drain(at..at + 2);
    }
    let number = |at: usize, default: u64| args.get(at).map_or(Ok(default), |text| text.parse());
    match args[..] {
        ["write", folder, count, ..] => {
            let fleet = write::Fleet {
                language,
                stalls: STALLS,
                versions: app::VERSIONS.len(),
                count: count.parse()?,
                seed: number(3, 1)?,
                per_file: number(4, 1)?.max(1),
            };
            fleet.write(Path::new(folder))
        }
        ["frameworks", folder, count, files, ..] => frameworks::write(
            Path::new(folder),
            count.parse()?,
            files.parse::<usize>()?.max(1),
            number(4, 1)?,
        ),
        ["score", folder] => score::score(Path::new(folder)).map(drop),
        ["measure", count, ref seeds @ ..] if !seeds.is_empty() => {
            let seeds: Vec<u64> = seeds
                .iter()
                .map(|seed| seed.parse())
                .collect::<Result<_, _>>()?;
            measure(language, count.parse()?, &seeds)
        }
        _ => Err(
            "fleet [--language NAME] write DIR REPORTS [SEED] [REPORTS-PER-FILE], or fleet score DIR, \
                  or fleet measure REPORTS SEED..., or fleet frameworks DIR REPORTS FILES [SEED]"
                .into(),
        ),
    }
}

const LANGUAGES: [(&str, Language); 4] = [
    ("plain", Language::Plain),
    ("async", Language::Async("limited")),
    ("async-lines", Language::Async("line-tables-only")),
    ("cpp", Language::Cpp),
];

/// How many stalls the app has.
const STALLS: usize = 300;

/// What precision and recall must not be below.
const ENOUGH: f64 = 0.97;

/// A fleet for each seed, written, scored, and removed.
fn measure(language: Language, count: u64, seeds: &[u64]) -> Result<(), Box<dyn Error>> {
    let mut short = Vec::new();
    for &seed in seeds {
        println!("seed {seed}");
        let folder = tempfile::tempdir()?;
        let fleet = write::Fleet {
            language,
            stalls: STALLS,
            versions: app::VERSIONS.len(),
            count,
            seed,
            per_file: 100,
        };
        fleet.write(folder.path())?;
        let score = score::score(folder.path())?;
        if score.precision < ENOUGH || score.recall < ENOUGH {
            short.push(seed);
        }
    }
    if short.is_empty() {
        Ok(())
    } else {
        Err(format!("below {ENOUGH}: seeds {short:?}").into())
    }
}
