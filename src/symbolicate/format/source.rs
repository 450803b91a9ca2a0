//! Lines of source code around a place, from folders that the user names.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustc_hash::FxHashSet;

use crate::symbolicate::files::bytes::SharedBytes;
use crate::symbolicate::files::owner::{Identity, identity};
use crate::symbolicate::lock;
use crate::symbolicate::memo::Memo;

/// Larger files are no source code that anyone wrote.
const MAX_BYTES: u64 = 8 << 20;
/// Files held at a time.
const MAX_FILES: usize = 64;
/// Parts of the longest ending of a path that is looked for.
const MAX_PARTS: usize = 64;
/// Longer lines are cut.
const MAX_COLUMNS: usize = 300;

/// Folders of source code.
///
/// Debug information names files as they stood on the machine that built them. Such a path is looked
/// for by its ending: the longest one that exists below a folder wins, the folders in their order.
///
/// A report chooses the path, and the lines may be shown to others. So only a file whose real path lies in the folder is
/// read, and no hidden one: neither `.env`, nor what lies in `.git`, nor what a link leads to outside.
#[derive(Debug)]
pub struct Sources {
    /// Their real paths, in order.
    roots: Vec<PathBuf>,
    files: Mutex<Memo<String, Option<Arc<SourceFile>>, MAX_FILES>>,
    read: Mutex<FxHashSet<Identity>>,
    /// Files that end before a line that was asked for.
    short: Mutex<BTreeSet<PathBuf>>,
}

/// A file that was read.
#[derive(Debug)]
struct SourceFile {
    text: String,
    path: PathBuf,
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
            roots: folders.iter().flat_map(|of| of.canonicalize()).collect(),
            files: Mutex::default(),
            read: Mutex::default(),
            short: Mutex::default(),
        }
    }

    /// The lines from `around` before `line` of `file` to as many behind it; `None` where no such file
    /// or line is.
    pub fn excerpt(&self, file: &str, line: u32, around: u32) -> Option<Excerpt> {
        let source = self.file(file)?;
        let (text, line) = (&source.text, line.checked_sub(1)?);
        let first = line.saturating_sub(around);
        let count = (line - first).saturating_add(around).saturating_add(1);
        let lines = text.lines().skip(first as usize).take(count as usize);
        let lines = lines.map(|line| line.chars().take(MAX_COLUMNS).collect::<String>());
        let lines: Vec<String> = lines.map(|line| line.replace('\t', "    ")).collect();
        let has_line = lines.len() > (line - first) as usize;
        if !has_line {
            lock(&self.short).insert(source.path.clone());
        }
        has_line.then_some(Excerpt {
            first: first + 1,
            lines,
        })
    }

    /// The files that end before a line that was asked for: they are not those that were compiled.
    pub(crate) fn too_short(&self) -> Vec<PathBuf> {
        lock(&self.short).iter().cloned().collect()
    }

    fn file(&self, file: &str) -> Option<Arc<SourceFile>> {
        lock(&self.files).get_or_find(&file.to_owned(), || {
            let path = self.find(file);
            let identity = path.as_deref().and_then(identity);
            lock(&self.read).extend(identity);
            path.and_then(read)
        })
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
        (parts.len().saturating_sub(MAX_PARTS)..parts.len()).find_map(|from| {
            let ending: PathBuf = parts[from..].iter().collect();
            self.roots.iter().find_map(|root| real_path(root, &ending))
        })
    }
}

/// The real path of the file `ending` below `root`; `None` if it lies elsewhere or is hidden, by either path.
fn real_path(root: &Path, ending: &Path) -> Option<PathBuf> {
    (!is_hidden(ending)).then_some(())?;
    let path = root.join(ending).canonicalize().ok()?;
    let below = path.strip_prefix(root).ok()?;
    (!is_hidden(below) && path.is_file()).then_some(path)
}

/// Returns true if a part of the path begins with a dot.
fn is_hidden(path: &Path) -> bool {
    let parts = path.components();
    let mut parts = parts.into_iter();
    parts.any(|part| part.as_os_str().as_encoded_bytes().starts_with(b"."))
}

fn read(path: PathBuf) -> Option<Arc<SourceFile>> {
    let bytes = SharedBytes::read(&path, MAX_BYTES).ok()?;
    Some(Arc::new(SourceFile {
        text: String::from_utf8_lossy(&bytes).into_owned(),
        path,
    }))
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

    /// A report that asks for what is no source code of the folder's.
    #[test]
    fn hidden_files_and_links_that_lead_out_are_not_read() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let (inside, outside) = (folder.path().join("in"), folder.path().join("out"));
        for below in ["src", ".git", "a/.ssh", "..b"] {
            std::fs::create_dir_all(inside.join(below)).unwrap();
        }
        std::fs::create_dir_all(&outside).unwrap();
        let write = |path: PathBuf| std::fs::write(path, "1\n2\n").unwrap();
        for hidden in [
            ".env",
            "src/.env.local",
            ".git/config",
            "a/.ssh/id",
            "..b/c",
        ] {
            write(inside.join(hidden));
        }
        write(outside.join("secret.c"));
        write(inside.join("src/main.c"));
        symlink(&outside, inside.join("linked")).unwrap();
        symlink(outside.join("secret.c"), inside.join("src/secret.c")).unwrap();
        symlink("../.env", inside.join("src/env.c")).unwrap();
        symlink("main.c", inside.join("src/same.c")).unwrap();
        // A folder that is itself named by a link, or is hidden, is the user's choice.
        let (named, hidden) = (folder.path().join("named"), folder.path().join(".hidden"));
        symlink(&inside, &named).unwrap();
        std::fs::create_dir(&hidden).unwrap();
        write(hidden.join("own.c"));
        let sources = Sources::new(vec![named, hidden]);
        for refused in [
            ".env",
            "/build/.env",
            "src/.env.local",
            "/x/.git/config",
            "a/.ssh/id",
            "C:\\a\\.ssh\\id",
            "..b/c",
            "linked/secret.c",
            "src/secret.c",
            "src/env.c",
            "src/./../.env",
        ] {
            assert_eq!(sources.excerpt(refused, 1, 0), None, "{refused}");
        }
        for read in ["src/main.c", "/build/src/same.c", "/build/own.c"] {
            assert!(sources.excerpt(read, 1, 0).is_some(), "{read}");
        }
    }
}
