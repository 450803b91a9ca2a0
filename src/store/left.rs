//! Unfinished files of earlier launches, found at install without a look at the whole folder.
//!
//! Their names stand in a list in the folder, `.unfinished`. Beside those, the first entries of the folder are examined:
//! all of them in a folder of usual size. A file that is in neither, or beyond `MOST`, is left to the helper thread, which
//! looks at the whole folder.
//!
//! The list is text: a first line with its kind, then a name a line. Each process that begins a file adds its name, by one
//! `write` at the end ([`Folder`](crate::platform::folder::Folder) does); only [`keep`] takes one off. It is a shortcut
//! and no truth: a name may be missing (the disk was full, or [`keep`] came between), most files that are named are
//! finished, and who can write in the folder can write anything there.

use std::collections::BTreeSet;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::time::Instant;

use super::{PARTIAL, close_partial, ending, is_within, launch, read_all};
use crate::platform::descriptors::{self, Opened};
use crate::platform::directory::Directory;
use crate::report::limits;

/// Most entries of the folder that are read.
const MOST_ENTRIES: usize = 1_000;
/// Reports that are closed, and records of launches that are read, the last ones first.
const MOST: usize = 32;

/// Bounds on the work that is done at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Files.
    most: usize,
    /// Bytes of a file.
    pub(super) bytes: u64,
    until: Option<Instant>,
}

impl Effort {
    /// The work for which an app that is about to start may wait: bounded in files, bytes and time.
    pub fn at_install() -> Effort {
        Effort {
            most: MOST,
            bytes: limits::INSTALL_BYTES,
            until: Some(Instant::now() + limits::INSTALL_TIME),
        }
    }

    /// All that there is.
    pub fn all() -> Effort {
        Effort {
            most: usize::MAX,
            bytes: limits::REPORT_BYTES as u64,
            until: None,
        }
    }

    /// Returns true if no more is to be done, after `done` files.
    pub(super) fn is_spent(&self, done: usize) -> bool {
        let is_late = || self.until.is_some_and(|until| Instant::now() > until);
        done >= self.most || done > 0 && is_late()
    }
}

/// Names of files that an earlier launch may have left unfinished, in order, that is by time.
pub(crate) fn left(folder: &Directory) -> io::Result<Vec<String>> {
    let mut found = BTreeSet::new();
    let mut take = |name: &str| {
        if is_unfinished(name) {
            found.insert(name.to_owned());
        }
    };
    folder.list(MOST_ENTRIES, &mut take)?;
    names(folder).iter().for_each(|name| take(name));
    Ok(found.into_iter().collect())
}

/// Returns true if it is a name that we give an unfinished file; a path is not.
fn is_unfinished(name: &str) -> bool {
    matches!(ending(name), Some(PARTIAL | launch::ENDING))
}

/// Closes the reports among these files that are not being written, the last ones first.
pub(crate) fn close(folder: &Directory, left: &[String], effort: Effort) {
    for (done, name) in left.iter().rev().enumerate() {
        if effort.is_spent(done) {
            break;
        }
        // One that cannot be closed now (gone, or not ours to write) stays for a later launch.
        let _ = match ending(name) {
            Some(PARTIAL) => close_partial(folder, name, effort.bytes).map(drop),
            Some(launch::ENDING) => launch::part(folder, name, effort.bytes),
            _ => Ok(()),
        };
    }
}

/// Takes off the list what is finished.
pub(super) fn shorten_list(folder: &Directory) {
    // A list that cannot be shortened now can be later.
    let _ = keep(folder, |name| {
        is_unfinished(name) && folder.own_length(name).is_some()
    });
}

const NAME: &str = ".unfinished";
const HEAD: &[u8] = b"wedjat: files that were begun here\n";
/// Most bytes at its end that are read: some 500 names.
const LIST_END: u64 = 32 << 10;

/// Opens the list, to be added to; makes it if it is missing, and anew if it is longer than one of ours can be. `None`
/// if that fails, or a file of that name is something else.
pub(crate) fn open_list(folder: &Directory) -> Option<Opened> {
    let mut file = match folder.open_own(NAME, libc::O_RDWR | libc::O_APPEND) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            folder.create(NAME, libc::O_APPEND).ok()?
        }
        opened => opened.ok()?,
    };
    match is_list(&mut file)? {
        true if is_within(&file, limits::LIST_BYTES) => Some(file),
        true if descriptors::try_lock(&file) => {
            folder.remove(NAME).ok()?;
            let mut fresh = folder.create(NAME, libc::O_APPEND).ok()?;
            is_list(&mut fresh)?.then_some(fresh)
        }
        _ => None,
    }
}

/// Returns true if it is a list of ours; an empty file becomes one.
fn is_list(file: &mut std::fs::File) -> Option<bool> {
    if file.metadata().ok()?.len() == 0 {
        file.write_all(HEAD).ok()?;
    }
    let mut head = [0; HEAD.len()];
    file.seek(SeekFrom::Start(0)).ok()?;
    Some(file.read_exact(&mut head).is_ok() && head == *HEAD)
}

/// The names in the list of `folder`, as they were added; of a long list the last ones.
fn names(folder: &Directory) -> Vec<String> {
    let mut text = Vec::new();
    let _ = folder.open_own(NAME, libc::O_RDONLY).and_then(|mut file| {
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LIST_END)))?;
        (&*file).take(LIST_END).read_to_end(&mut text)
    });
    lines(&text)
}

fn lines(text: &[u8]) -> Vec<String> {
    let lines = text.split(|&byte| byte == b'\n');
    let names = lines.filter_map(|line| std::str::from_utf8(line).ok());
    names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Takes the names off the list of `folder` for which `is_left` does not hold.
fn keep(folder: &Directory, mut is_left: impl FnMut(&str) -> bool) -> io::Result<()> {
    let mut file = folder.open_own(NAME, libc::O_RDWR)?;
    if !descriptors::try_lock(&file) || is_list(&mut file) != Some(true) {
        return Ok(());
    }
    let text = read_all(&mut file, limits::LIST_BYTES)?;
    let mut left = HEAD.to_vec();
    for name in lines(text.get(HEAD.len()..).unwrap_or_default()) {
        if is_left(&name) {
            left.extend(name.as_bytes());
            left.push(b'\n');
        }
    }
    let before = text.len() as u64;
    // A name that is added between these two is lost to the list, and found by a look at all files.
    if left.len() as u64 == before || file.metadata()?.len() != before {
        return Ok(());
    }
    file.set_len(left.len() as u64)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::folder::Folder;

    /// In a folder of many files, few entries are looked at, and what this launch began is found.
    #[test]
    fn a_large_folder_is_not_read_for_what_was_begun() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path();
        for number in 0..5 * MOST_ENTRIES {
            std::fs::write(path.join(format!("{number}.wedjat")), "").unwrap();
        }
        let directory = Directory::open(path).unwrap();
        let list = open_list(&directory);
        let folder = Folder::new(directory, path).unwrap().with_list(list);
        let names = [
            c"1700000000123456789-0a1b2c3d.launch",
            c"2024-02-29T23-59-59.987Z-crash-0a1b2c3d.partial",
            c"2024-02-29T23-59-59.987Z-stall-0a1b2c3d.partial",
        ];
        for name in names {
            folder.create(name).unwrap();
        }
        let before = descriptors::ENTRIES.get();
        let directory = folder.directory();
        let found = left(directory).unwrap();
        assert!(descriptors::ENTRIES.get() - before <= MOST_ENTRIES);
        let expected = names.map(|name| name.to_str().unwrap());
        assert_eq!(found, expected);
        // A finished file is no longer on the list.
        std::fs::remove_file(path.join(expected[2])).unwrap();
        shorten_list(directory);
        assert_eq!(left(directory).unwrap(), &expected[..2]);
    }

    #[test]
    fn what_was_added_is_read_until_it_is_finished() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path();
        let folder = || {
            let directory = Directory::open(path).unwrap();
            let list = open_list(&directory);
            Folder::new(directory, path).unwrap().with_list(list)
        };
        let (one, two) = (folder(), folder());
        one.note(c"a.partial");
        two.note(c"b.launch");
        one.note(c"c.partial");
        let names = || names(one.directory());
        assert_eq!(names()[1..], ["a.partial", "b.launch", "c.partial"]);
        keep(one.directory(), |name| name == "b.launch").unwrap();
        two.note(c"d.partial");
        assert_eq!(names()[1..], ["b.launch", "d.partial"]);
        for number in 0..5_000 {
            one.note(&std::ffi::CString::new(format!("{number:040}.partial")).unwrap());
        }
        let last = names();
        assert!((500..1_000).contains(&last.len()), "{}", last.len());
        assert_eq!(last[last.len() - 1], format!("{:040}.partial", 4_999));
        // One that is longer than any of ours is begun anew, once no other process is at it.
        let path = path.join(NAME);
        std::fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(8 << 30)
            .unwrap();
        drop(open_list(one.directory()).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), HEAD);
    }

    #[test]
    fn a_file_of_that_name_that_is_something_else_stays() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join(NAME);
        let theirs = "letters to finish\nto Ann\n";
        std::fs::write(&path, theirs).unwrap();
        let folder = Directory::open(temporary.path()).unwrap();
        assert!(open_list(&folder).is_none());
        keep(&folder, |_| false).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), theirs);
    }
}
