//! A list, in the folder of reports, of the files that were begun there: so that the next launch finds
//! what was left unfinished without looking at every file of the folder.
//!
//! It is text: a first line with its kind, then a name a line. Each process that begins a file adds its name, by one
//! `write` at the end ([`Folder`](crate::platform::folder::Folder) does); only [`keep`] takes one off. It is a shortcut
//! and no truth: a name may be missing (the disk was full, or [`keep`] came between), most files that are named are
//! finished, and who can write in the folder can write anything there.

use std::io::{self, Read, Seek, SeekFrom, Write};

use super::read_all;
use crate::platform::descriptors::{self, Opened};
use crate::platform::directory::Directory;
use crate::report::limits;

const NAME: &str = ".unfinished";
const HEAD: &[u8] = b"wedjat: files that were begun here\n";
/// Most bytes at its end that are read: some 500 names.
const MOST: u64 = 32 << 10;

/// Opens the list, to be added to; makes it if it is missing, and anew if it is longer than one of ours can be. `None`
/// if that fails, or a file of that name is something else.
pub(crate) fn open(folder: &Directory) -> Option<Opened> {
    let mut file = match folder.open_own(NAME, libc::O_RDWR | libc::O_APPEND) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            folder.create(NAME, libc::O_APPEND).ok()?
        }
        opened => opened.ok()?,
    };
    match is_list(&mut file)? {
        true if super::is_within(&file, limits::LIST_BYTES) => Some(file),
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
pub(super) fn names(folder: &Directory) -> Vec<String> {
    let mut text = Vec::new();
    let _ = folder.open_own(NAME, libc::O_RDONLY).and_then(|mut file| {
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(MOST)))?;
        (&*file).take(MOST).read_to_end(&mut text)
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
pub(super) fn keep(folder: &Directory, mut is_left: impl FnMut(&str) -> bool) -> io::Result<()> {
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

    #[test]
    fn what_was_added_is_read_until_it_is_finished() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path();
        let folder = || {
            let directory = Directory::open(path).unwrap();
            let list = open(&directory);
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
        drop(open(one.directory()).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), HEAD);
    }

    #[test]
    fn a_file_of_that_name_that_is_something_else_stays() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join(NAME);
        let theirs = "letters to finish\nto Ann\n";
        std::fs::write(&path, theirs).unwrap();
        let folder = Directory::open(temporary.path()).unwrap();
        assert!(open(&folder).is_none());
        keep(&folder, |_| false).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), theirs);
    }
}
