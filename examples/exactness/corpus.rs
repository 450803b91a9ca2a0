//! The programs: sources in `testdata/exactness`, and how each is built.

use std::path::{Path, PathBuf};
use std::process::Command;

type Error = Box<dyn std::error::Error>;

/// One row of the table.
pub struct Corpus {
    pub name: &'static str,
    /// How many of its builds `--check` runs: the first ones.
    pub checked: usize,
    /// Whether it has a row in the document; one that has none is run by its name alone.
    pub in_table: bool,
    compiler: &'static str,
    source: &'static str,
    options: &'static [&'static [&'static str]],
}

pub struct Build {
    pub what: String,
    pub program: PathBuf,
}

pub fn all() -> Vec<Corpus> {
    const KEEP: &str = "-fno-omit-frame-pointer";
    const OMIT: &str = "-fomit-frame-pointer";
    vec![
        Corpus {
            name: "assembly",
            checked: 1,
            in_table: true,
            compiler: "gcc",
            source: "hand.s",
            options: &[&[]],
        },
        Corpus {
            name: "C",
            checked: 0,
            in_table: true,
            compiler: "gcc",
            source: "plain.c",
            options: &[
                &["-O0", KEEP],
                &["-O0", OMIT],
                &["-O1", OMIT],
                &["-O2", KEEP],
                &["-O2", OMIT],
                &["-O3", OMIT],
                &["-Os", KEEP],
                &["-Os", OMIT],
            ],
        },
        Corpus {
            name: "C++",
            checked: 0,
            in_table: true,
            compiler: "g++",
            source: "plain.cpp",
            options: &[&["-O2"]],
        },
        Corpus {
            name: "Rust",
            checked: 0,
            in_table: true,
            compiler: "rustc",
            source: "plain.rs",
            options: &[&["-O"], &["-Copt-level=0"], &["-Copt-level=s"]],
        },
        Corpus {
            name: "signal handlers",
            checked: 1,
            in_table: true,
            compiler: "gcc",
            source: "signals.c",
            options: &[&["-O2"]],
        },
        Corpus {
            name: "C++, linked in",
            checked: 1,
            in_table: true,
            compiler: "g++",
            source: "plain.cpp",
            options: &[
                &["-O2", OMIT, "-static-libstdc++", "-static-libgcc"],
                &["-O0", KEEP, "-static-libstdc++", "-static-libgcc"],
                &["-Os", OMIT, "-static-libstdc++", "-static-libgcc"],
                &["-O3", OMIT, "-static-libstdc++", "-static-libgcc"],
            ],
        },
        Corpus {
            name: "shapes",
            checked: 1,
            in_table: false,
            compiler: "gcc",
            source: "shapes.c",
            options: &[
                &["-O2", OMIT],
                &["-O0", KEEP],
                &[
                    "-O3",
                    OMIT,
                    "-funroll-loops",
                    "-fcf-protection=full",
                    "-mno-red-zone",
                ],
                &[
                    "-O2",
                    OMIT,
                    "-fstack-clash-protection",
                    "-fstack-protector-all",
                ],
                &["-O2", OMIT, "-static-pie"],
                &["-O2", OMIT, "-Wl,--no-eh-frame-hdr"],
                &[
                    "-O2",
                    KEEP,
                    "-fno-asynchronous-unwind-tables",
                    "-fno-unwind-tables",
                ],
                &[
                    "-O2",
                    OMIT,
                    "-fno-asynchronous-unwind-tables",
                    "-fno-unwind-tables",
                ],
                &[
                    "-Os",
                    OMIT,
                    "-fsanitize=undefined",
                    "-fsanitize-undefined-trap-on-error",
                ],
            ],
        },
        Corpus {
            name: "C library",
            checked: 0,
            in_table: true,
            compiler: "gcc",
            source: "libc.c",
            options: &[&["-O2", "-Wl,-z,lazy"], &["-O2", "-Wl,-z,now", "-fno-plt"]],
        },
    ]
}

impl Corpus {
    /// Builds the first so many of its programs.
    pub fn builds(&self, folder: &Path, count: usize) -> Result<Vec<Build>, Error> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/exactness");
        let mut builds = Vec::new();
        for (options, number) in self.options.iter().zip(0..count) {
            let program = folder.join(format!(
                "{}-{}-{number}",
                self.name.replace([' ', ','], ""),
                self.source
            ));
            let mut command = Command::new(self.compiler);
            command
                .args(*options)
                .arg(source.join(self.source))
                .arg("-o")
                .arg(&program);
            if self.compiler != "rustc" {
                command.args(["-g", "-lm", "-pthread"]);
            }
            if !command.status()?.success() {
                return Err(format!("{command:?} failed").into());
            }
            let what = format!("{} {} {}", self.compiler, options.join(" "), self.source);
            builds.push(Build { what, program });
        }
        Ok(builds)
    }
}
