//! Lines of source code around a place, from folders that the user names.

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::symbolicate::files::bytes::SharedBytes;
use crate::symbolicate::files::own::{Identity, identity};
use crate::symbolicate::lock;

/// Larger files are no source code that anyone wrote.
const BYTES: u64 = 8 << 20;
/// Files held at a time.
const FILES: usize = 64;
/// Parts of the longest ending of a path that is looked for.
const PARTS: usize = 64;
/// Longer lines are cut.
const COLUMNS: usize = 300;

/// Folders of source code.
///
/// Debug information names files as they stood on the machine that built them. Such a path is looked
/// for by its ending: the longest one that exists below a folder wins, the folders in their order.
pub struct Sources {
    folders: Vec<PathBuf>,
    files: Mutex<FxHashMap<String, Option<Arc<str>>>>,
    read: Mutex<FxHashSet<Identity>>,
}

/// Some lines of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Excerpt {
    /// Number of the first of them, from 1.
    pub first: u32,
    /// Without their ends, and with four spaces for each tab.
    pub lines: Vec<String>,
}

impl Sources {
    /// Source code below these folders.
    pub fn new(folders: Vec<PathBuf>) -> Sources {
        Sources {
            folders,
            files: Mutex::default(),
            read: Mutex::default(),
        }
    }

    /// The lines from `around` before `line` of `file` to as many behind it; `None` where no such file
    /// or line is.
    pub fn excerpt(&self, file: &str, line: u32, around: u32) -> Option<Excerpt> {
        let text = self.text(file)?;
        let line = line.checked_sub(1)?;
        let first = line.saturating_sub(around);
        let count = (line - first).saturating_add(around).saturating_add(1);
        let lines = text.lines().skip(first as usize).take(count as usize);
        let lines = lines.map(|line| line.chars().take(COLUMNS).collect::<String>());
        let lines: Vec<String> = lines.map(|line| line.replace('\t', "    ")).collect();
        (lines.len() > (line - first) as usize).then_some(Excerpt {
            first: first + 1,
            lines,
        })
    }

    fn text(&self, file: &str) -> Option<Arc<str>> {
        let mut files = lock(&self.files);
        if let Some(known) = files.get(file) {
            return known.clone();
        }
        if files.len() >= FILES {
            files.clear();
        }
        let path = self.find(file);
        let identity = path.as_deref().and_then(identity);
        lock(&self.read).extend(identity);
        let text = path.and_then(|path| read(&path));
        files.insert(file.to_owned(), text.clone());
        text
    }

    /// The files that were read.
    pub(crate) fn files_read(&self) -> Vec<Identity> {
        lock(&self.read).iter().cloned().collect()
    }

    fn find(&self, file: &str) -> Option<PathBuf> {
        let file = file.replace('\\', "/");
        // `..` must not lead out of the folders: what precedes it is dropped.
        let mut parts: Vec<&str> = Vec::new();
        for part in Path::new(&file).components() {
            match part {
                Component::Normal(part) => parts.extend(part.to_str()),
                Component::ParentDir => drop(parts.pop()),
                _ => {}
            }
        }
        (parts.len().saturating_sub(PARTS)..parts.len()).find_map(|from| {
            let ending: PathBuf = parts[from..].iter().collect();
            let paths = self.folders.iter().map(|folder| folder.join(&ending));
            paths.into_iter().find(|path| path.is_file())
        })
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sources").field(&self.folders).finish()
    }
}

fn read(path: &Path) -> Option<Arc<str>> {
    let bytes = SharedBytes::read(path, BYTES).ok()?;
    Some(String::from_utf8_lossy(&bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_ending_wins_and_nothing_outside_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("in");
        std::fs::create_dir_all(inside.join("src/draw")).unwrap();
        std::fs::write(inside.join("mod.rs"), "short\n").unwrap();
        std::fs::write(inside.join("src/draw/mod.rs"), "1\n2\n3\n4\n5").unwrap();
        std::fs::write(folder.path().join("secret"), "secret\n").unwrap();
        let sources = Sources::new(vec![inside]);
        let lines = |file, line| sources.excerpt(file, line, 1).map(|e| (e.first, e.lines));
        let strings = |lines: &[&str]| lines.iter().map(|l| (*l).to_owned()).collect();
        let draw = "/build/7/app/src/draw/mod.rs";
        assert_eq!(lines(draw, 3), Some((2, strings(&["2", "3", "4"]))));
        assert_eq!(lines(draw, 1), Some((1, strings(&["1", "2"]))));
        assert_eq!(lines(draw, 5), Some((4, strings(&["4", "5"]))));
        assert_eq!(lines(draw, 6), None);
        assert_eq!(lines(draw, 0), None);
        assert_eq!(
            lines("C:\\build\\src\\draw\\mod.rs", 5),
            Some((4, strings(&["4", "5"])))
        );
        assert_eq!(lines("other/mod.rs", 1), Some((1, strings(&["short"]))));
        assert_eq!(lines("../secret", 1), None);
        assert_eq!(lines("a/../../secret", 1), None);
    }
}
