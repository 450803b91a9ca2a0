//! Tools of other projects that tests compare with, the Debian packages that bring them, and tests that need them.
#![allow(dead_code)]

use std::path::PathBuf;

use libtest_mimic::{Arguments, Trial};

/// A program, and what brings it.
#[derive(Debug, Clone, Copy)]
pub struct Tool {
    pub program: &'static str,
    pub package: &'static str,
}

pub const DWZ: Tool = Tool {
    program: "dwz",
    package: "dwz",
};
pub const GCC: Tool = Tool {
    program: "gcc",
    package: "gcc",
};
pub const GIT: Tool = Tool {
    program: "git",
    package: "git",
};
pub const LLD: Tool = Tool {
    program: "ld.lld-14",
    package: "lld-14",
};
pub const LLVM_SYMBOLIZER: Tool = Tool {
    program: "llvm-symbolizer-14",
    package: "llvm-14",
};

impl Tool {
    fn is_there(&self) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
        std::env::split_paths(&path)
            .chain(system)
            .any(|folder| folder.join(self.program).is_file())
    }
}

/// Whether a missing tool is a failure.
pub fn required() -> bool {
    std::env::var_os("WEDJAT_REQUIRE_TOOLS").is_some_and(|value| value == "1")
}

/// Tests that are ignored where their tool is missing.
pub struct Tests {
    trials: Vec<Trial>,
    left_out: Vec<String>,
}

impl Tests {
    pub fn new() -> Tests {
        Tests {
            trials: Vec::new(),
            left_out: Vec::new(),
        }
    }

    pub fn add(mut self, name: &str, tool: Tool, test: fn()) -> Tests {
        let missing = !tool.is_there();
        let why = format!(
            "{name} needs {}: apt-get install {}",
            tool.program, tool.package
        );
        let fails = missing && required();
        let reason = why.clone();
        let trial = Trial::test(name, move || {
            if fails {
                return Err(reason.into());
            }
            test();
            Ok(())
        });
        if missing && !fails {
            self.left_out.push(why);
        }
        self.trials.push(trial.with_ignored_flag(missing && !fails));
        self
    }

    /// Runs them; the last lines name what was left out.
    pub fn run(self) -> ! {
        let conclusion = libtest_mimic::run(&Arguments::from_args(), self.trials);
        for why in &self.left_out {
            println!("left out: {why}");
        }
        conclusion.exit()
    }
}
