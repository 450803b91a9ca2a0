//! Names of source files as people see them: the last part of the path, and as much more as tells two files apart.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use crate::symbolicate::frame::{Symbolicated, image_file_name};

/// Parts of a path that are shown at most.
const PARTS: usize = 6;

/// The base names that several files of a report have, with the count of the parts that tell them apart.
#[derive(Debug, Default)]
pub(super) struct FileNames(BTreeMap<String, usize>);

impl FileNames {
    pub fn of(report: &Symbolicated) -> FileNames {
        let stacks = report.threads.iter().chain(&report.samples);
        let frames = stacks.flat_map(|stack| &stack.frames);
        let frames = frames.flat_map(|physical| &*physical.frames);
        FileNames::told_apart(frames.filter_map(|frame| frame.file.as_deref()))
    }

    fn told_apart<'a>(files: impl Iterator<Item = &'a str>) -> FileNames {
        let all: FxHashSet<&str> = files.collect();
        let mut by_name: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for file in all {
            by_name.entry(image_file_name(file)).or_default().push(file);
        }
        let clashing = by_name.into_iter().filter(|(_, files)| files.len() > 1);
        let parts = clashing.map(|(name, files)| {
            let are_apart = |parts: &usize| {
                let shown: FxHashSet<&str> =
                    files.iter().map(|file| ending(file, *parts)).collect();
                shown.len() == files.len()
            };
            (name.to_owned(), (2..PARTS).find(are_apart).unwrap_or(PARTS))
        });
        FileNames(parts.collect())
    }

    /// The part of a path that people see.
    pub fn visible_part<'a>(&self, file: &'a str) -> &'a str {
        let name = image_file_name(file);
        self.0.get(name).map_or(name, |parts| ending(file, *parts))
    }
}

/// The last parts of a path.
fn ending(path: &str, parts: usize) -> &str {
    let mut slashes = path.rmatch_indices(['/', '\\']);
    slashes
        .nth(parts - 1)
        .map_or(path, |(at, _)| &path[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_name_have_the_folders_that_tell_them_apart() {
        let files = [
            "/a/till/src/mod.rs",
            "/a/shop/src/mod.rs",
            "/a/till/src/main.rs",
        ];
        let names = FileNames::told_apart(files.into_iter());
        let shown = files.map(|file| names.visible_part(file));
        assert_eq!(shown, ["till/src/mod.rs", "shop/src/mod.rs", "main.rs"]);
        let names = FileNames::told_apart(["x.rs", "a/x.rs", "C:\\b\\x.rs"].into_iter());
        assert_eq!(names.visible_part("C:\\b\\x.rs"), "b\\x.rs");
        assert_eq!(names.visible_part("x.rs"), "x.rs");
    }
}
