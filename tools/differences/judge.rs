//! Who is right where two differ: what `llvm-dwarfdump --lookup` shows of an address.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::Frame;

/// So many addresses of each kind of difference are judged, evenly over all that were seen.
const JUDGED: usize = 40;

/// Differences of one kind, and what the debug information itself says of them.
#[derive(Default)]
pub struct Case {
    pub seen: usize,
    kept: Vec<(u64, Vec<Frame>, Vec<Frame>)>,
}

/// How many of the judged addresses came out how.
#[derive(Default)]
pub struct Verdict {
    pub judged: usize,
    pub wedjat: usize,
    pub llvm: usize,
    pub both: usize,
    pub neither: usize,
    pub silent: usize,
}

impl Case {
    pub fn add(&mut self, address: u64, ours: &[Frame], llvm: &[Frame]) {
        self.seen += 1;
        // Every one at first, then ever fewer: the sample stays spread over the run.
        if self.kept.len() >= 2 * JUDGED {
            let mut index = 0;
            self.kept.retain(|_| {
                index += 1;
                index % 2 == 0
            });
        }
        let stride = (self.seen / JUDGED).max(1).next_power_of_two();
        if self.seen.is_multiple_of(stride) {
            self.kept.push((address, ours.to_vec(), llvm.to_vec()));
        }
    }

    pub fn judge(&self, path: &Path, arch: Option<&str>) -> Verdict {
        let mut verdict = Verdict::default();
        for (address, ours, llvm) in self.kept.iter().take(JUDGED) {
            verdict.judged += 1;
            let Some(truth) = look_up(path, arch, *address) else {
                verdict.silent += 1;
                continue;
            };
            match (truth.fits(ours), truth.fits(llvm)) {
                (true, true) => verdict.both += 1,
                (true, false) => verdict.wedjat += 1,
                (false, true) => verdict.llvm += 1,
                (false, false) => verdict.neither += 1,
            }
        }
        verdict
    }
}

/// What llvm-dwarfdump shows of an address.
struct Truth {
    /// All names of the subprogram, its specification and its abstract origin.
    names: Vec<String>,
    line: u32,
}

impl Truth {
    fn fits(&self, frames: &[Frame]) -> bool {
        let (Some(outer), Some(inner)) = (frames.last(), frames.first()) else {
            return false;
        };
        // A bitcode build has a number in place of a name: no name at all is right, too.
        let is_hidden = self.names.iter().any(|name| name.starts_with("__hidden#"));
        // What compilers add to a name (`pay.constprop.0`) is in the symbol table alone.
        let is_own = |name: &String| {
            let rest = outer.0.strip_prefix(name.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let name = self.names.iter().any(is_own) || (is_hidden && outer.0.is_empty());
        name && (self.line == inner.2)
    }
}

fn look_up(path: &Path, arch: Option<&str>, address: u64) -> Option<Truth> {
    let mut command = Command::new("llvm-dwarfdump");
    // The lookup shows the innermost DIE; the function is among those around it.
    command.arg(format!("--lookup={address:#x}"));
    command.arg("--show-parents").arg(path);
    if let Some(arch) = arch {
        command.arg(format!("--arch={arch}"));
    }
    let output = command.output().expect("llvm-dwarfdump");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut names = Vec::new();
    let mut line = 0;
    let mut inside = false;
    for row in text.lines() {
        let row = row.trim();
        if let Some((_, tag)) = row
            .split_once(": DW_TAG_")
            .or_else(|| row.split_once("DW_TAG_"))
        {
            inside = tag == "subprogram";
            if inside {
                names.clear(); // a function within another: the inner one counts
            }
        } else if let Some(info) = row.strip_prefix("Line info: ") {
            let number = info
                .split("line ")
                .nth(1)
                .and_then(|rest| rest.split(',').next());
            line = number.and_then(|number| number.parse().ok()).unwrap_or(0);
        } else if inside
            && [
                "DW_AT_name",
                "DW_AT_linkage_name",
                "DW_AT_abstract_origin",
                "DW_AT_specification",
            ]
            .iter()
            .any(|attribute| row.starts_with(attribute))
            && let Some((_, quoted)) = row.split_once('"')
        {
            names.push(quoted.trim_end_matches("\")").to_owned());
        }
    }
    (!names.is_empty()).then_some(Truth { names, line })
}

/// The table of verdicts.
pub fn print(verdicts: &BTreeMap<(String, &'static str), (usize, Verdict)>) {
    println!();
    println!(
        "| file | difference | seen | judged | wedjat is right | llvm-symbolizer is right | both | neither | no function's DIE |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for ((file, kind), (seen, v)) in verdicts {
        let Verdict {
            judged,
            wedjat,
            llvm,
            both,
            neither,
            silent,
        } = v;
        println!(
            "| {file} | {kind} | {seen} | {judged} | {wedjat} | {llvm} | {both} | {neither} | {silent} |"
        );
    }
}
