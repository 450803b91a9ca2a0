//! The programs: sources in `testdata/exactness`, and how each is built.

use std::ffi::OsString;
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
    /// A library that it calls: its source, and how that is built.
    library: Option<(&'static str, &'static [&'static str])>,
    options: &'static [&'static [&'static str]],
}

pub struct Build {
    pub what: String,
    pub program: PathBuf,
}

pub fn all() -> Vec<Corpus> {
    const KEEP: &str = "-fno-omit-frame-pointer";
    const OMIT: &str = "-fomit-frame-pointer";
    const MARKED: &str = "-fswift-async-fp=always";
    vec![
        Corpus {
            name: "assembly",
            checked: 1,
            in_table: true,
            compiler: "gcc",
            source: "hand.s",
            library: None,
            options: &[&[]],
        },
        Corpus {
            name: "C",
            checked: 0,
            in_table: true,
            compiler: "gcc",
            source: "plain.c",
            library: None,
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
            library: None,
            options: &[&["-O2"]],
        },
        Corpus {
            name: "Rust",
            checked: 0,
            in_table: true,
            compiler: "rustc",
            source: "plain.rs",
            library: None,
            options: &[&["-O"], &["-Copt-level=0"], &["-Copt-level=s"]],
        },
        Corpus {
            name: "signal handlers",
            checked: 1,
            in_table: true,
            compiler: "gcc",
            source: "signals.c",
            library: None,
            options: &[&["-O2"]],
        },
        Corpus {
            name: "C++, linked in",
            checked: 1,
            in_table: true,
            compiler: "g++",
            source: "plain.cpp",
            library: None,
            options: &[
                &["-O2", OMIT, "-static-libstdc++", "-static-libgcc"],
                &["-O0", KEEP, "-static-libstdc++", "-static-libgcc"],
                &["-Os", OMIT, "-static-libstdc++", "-static-libgcc"],
                &["-O3", OMIT, "-static-libstdc++", "-static-libgcc"],
            ],
        },
        Corpus {
            name: "Fortran",
            checked: 1,
            in_table: true,
            compiler: "gfortran",
            source: "plain.f90",
            library: None,
            options: &[
                &["-O2", OMIT],
                &["-O0", KEEP],
                &["-O3", OMIT, "-fstack-arrays"],
                &["-Os", OMIT, "-fmax-stack-var-size=1000000"],
            ],
        },
        Corpus {
            name: "library entries",
            checked: 2,
            in_table: true,
            compiler: "gcc",
            source: "enters.c",
            library: Some((
                "entry.c",
                &[
                    "-O2",
                    "-shared",
                    "-fPIC",
                    "-fno-toplevel-reorder",
                    "-fno-asynchronous-unwind-tables",
                    "-nostartfiles",
                    "-Wl,-e,first",
                ],
            )),
            options: &[&["-O2", OMIT], &["-O0", KEEP]],
        },
        Corpus {
            name: "async frames",
            checked: 2,
            in_table: true,
            compiler: "clang",
            source: "async.c",
            library: None,
            options: &[
                &["-O1", KEEP, MARKED],
                &["-O0", KEEP, MARKED],
                &["-O2", KEEP, MARKED],
                &["-Os", KEEP, MARKED],
            ],
        },
        Corpus {
            name: "Swift",
            checked: 2,
            in_table: true,
            compiler: "clang",
            source: "../swift/run.c",
            library: None,
            options: &[
                &["-O1", KEEP, MARKED, "-DMAIN", "frames-O.o"],
                &["-O1", KEEP, MARKED, "-DMAIN", "frames-Onone.o"],
            ],
        },
        Corpus {
            name: "contexts",
            checked: 1,
            in_table: true,
            compiler: "gcc",
            source: "contexts.c",
            library: None,
            options: &[&["-O2", OMIT], &["-O0", KEEP]],
        },
        Corpus {
            name: "kept stack pointers",
            checked: 1,
            in_table: true,
            compiler: "gcc",
            source: "kept.s",
            library: None,
            options: &[&[]],
        },
        Corpus {
            name: "compilers' jumps",
            checked: 2,
            in_table: true,
            compiler: "gcc",
            source: "jumps.c",
            library: None,
            options: &[
                &["-O2", OMIT],
                &["-O2", OMIT, "-mfunction-return=thunk"],
                &["-O0", KEEP],
                &["-O0", KEEP, "-mfunction-return=thunk"],
                &["-Os", OMIT],
            ],
        },
        Corpus {
            name: "shapes",
            checked: 1,
            in_table: false,
            compiler: "gcc",
            source: "shapes.c",
            library: None,
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
            library: None,
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
                self.name.replace([' ', ',', '\''], ""),
                self.source.replace('/', "")
            ));
            let mut command = Command::new(self.compiler);
            // Objects by a compiler that is not at hand lie beside the source.
            let beside = source.join(self.source).with_file_name("");
            let option = |option: &&str| {
                if option.ends_with(".o") {
                    beside.join(option).into_os_string()
                } else {
                    OsString::from(option)
                }
            };
            command
                .args(options.iter().map(option))
                .arg(source.join(self.source))
                .arg("-o")
                .arg(&program);
            // gfortran writes its modules where it runs.
            command.current_dir(folder);
            if self.compiler != "rustc" {
                command.args(["-g", "-lm", "-pthread"]);
            }
            if let Some((source_of, options)) = self.library {
                let library = program.with_extension("so");
                let mut first = Command::new(self.compiler);
                first.args(options).arg(source.join(source_of));
                succeeds(first.arg("-o").arg(&library))?;
                let folder = format!("-Wl,-rpath,{}", folder.display());
                command.arg(library).arg(folder);
            }
            succeeds(&mut command)?;
            let what = format!("{} {} {}", self.compiler, options.join(" "), self.source);
            builds.push(Build { what, program });
        }
        Ok(builds)
    }
}

fn succeeds(command: &mut Command) -> Result<(), Error> {
    if command.status()?.success() {
        Ok(())
    } else {
        Err(format!("{command:?} failed").into())
    }
}
