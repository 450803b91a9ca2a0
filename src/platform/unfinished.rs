//! A list, in the folder of reports, of the files that were begun there: so that the next launch finds
//! what was left unfinished without looking at every file of the folder.
//!
//! It is text: a first line with its kind, then a name a line. Each process that begins a file adds its name, by one
//! `write` at the end; only [`keep`] takes one off. It is a shortcut and no truth: a name may be
//! missing (the disk was full, or [`keep`] came between), and most files that are named are finished.

use std::ffi::CStr;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::path::Path;

use super::descriptors::{self, Opened};
use super::kept::Kept;

const NAME: &CStr = c".unfinished";
const HEAD: &[u8] = b"wedjat: files that were begun here\n";
/// So many bytes at its end are looked at: some 500 names.
const MOST: u64 = 32 << 10;

/// The list of a folder, open to be added to.
#[derive(Debug)]
pub(super) struct Unfinished(Kept);

impl Unfinished {
    /// Opens it, making it where there is none. `None` where that fails, or a file of that name is
    /// something else.
    pub fn open(folder: RawFd) -> Option<Unfinished> {
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_APPEND | libc::O_NOFOLLOW;
        let fd = descriptors::open_at(folder, NAME, flags, 0o600);
        if fd < 0 {
            return None;
        }
        // SAFETY: just opened, and it has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut file = Opened::from(fd.try_clone().ok()?);
        if !is_list(&mut file)? {
            return None;
        }
        Kept::new(fd).ok().map(Unfinished)
    }

    /// Adds a name. Signal-safe.
    pub fn add(&self, name: &CStr) {
        let mut line = [b'\n'; 128];
        let name = name.to_bytes();
        let Some(room) = line.get_mut(..name.len()).filter(|room| room.len() < 127) else {
            return;
        };
        room.copy_from_slice(name);
        if let Ok(fd) = self.0.get() {
            // SAFETY: an open descriptor, and bytes of that length. One write, so that the lines of two
            // processes do not mix.
            unsafe { libc::write(fd, line.as_ptr().cast(), name.len() + 1) };
        }
    }
}

/// Whether it is a list of ours; one that is empty becomes one.
fn is_list(file: &mut std::fs::File) -> Option<bool> {
    if file.metadata().ok()?.len() == 0 {
        file.write_all(HEAD).ok()?;
    }
    let mut head = [0; HEAD.len()];
    file.seek(SeekFrom::Start(0)).ok()?;
    Some(file.read_exact(&mut head).is_ok() && head == *HEAD)
}

/// The names in the list of `folder`, as they were added; of a long list the last ones.
pub fn names(folder: &Path) -> Vec<String> {
    let mut text = Vec::new();
    let _ = open(folder, libc::O_RDONLY).and_then(|mut file| {
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
pub fn keep(folder: &Path, mut is_left: impl FnMut(&str) -> bool) -> io::Result<()> {
    let mut file = open(folder, libc::O_RDWR)?;
    if !descriptors::try_lock(&file) || is_list(&mut file) != Some(true) {
        return Ok(());
    }
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let mut left = HEAD.to_vec();
    for name in lines(&text) {
        if is_left(&name) {
            left.extend(name.as_bytes());
            left.push(b'\n');
        }
    }
    let before = (HEAD.len() + text.len()) as u64;
    // What is added between these two is lost to the list, and found by a look at all files.
    if left.len() as u64 == before || file.metadata()?.len() != before {
        return Ok(());
    }
    file.set_len(left.len() as u64)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&left)
}

fn open(folder: &Path, flags: i32) -> io::Result<Opened> {
    let name = NAME.to_str().unwrap_or_default();
    descriptors::open_file(&folder.join(name), flags | libc::O_NOFOLLOW)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn what_was_added_is_read_until_it_is_finished() {
        let folder = tempfile::tempdir().unwrap();
        let open = std::fs::File::open(folder.path()).unwrap();
        let [one, two] = [(); 2].map(|()| Unfinished::open(open.as_raw_fd()).unwrap());
        one.add(c"a.partial");
        two.add(c"b.launch");
        one.add(c"c.partial");
        assert_eq!(
            names(folder.path())[1..],
            ["a.partial", "b.launch", "c.partial"]
        );
        keep(folder.path(), |name| name == "b.launch").unwrap();
        two.add(c"d.partial");
        assert_eq!(names(folder.path())[1..], ["b.launch", "d.partial"]);
        for number in 0..5_000 {
            one.add(&std::ffi::CString::new(format!("{number:040}.partial")).unwrap());
        }
        let last = names(folder.path());
        assert!((500..1_000).contains(&last.len()), "{}", last.len());
        assert_eq!(last[last.len() - 1], format!("{:040}.partial", 4_999));
    }

    #[test]
    fn a_file_of_that_name_that_is_something_else_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME.to_str().unwrap());
        let theirs = "letters to finish\nto Ann\n";
        std::fs::write(&path, theirs).unwrap();
        let open = std::fs::File::open(folder.path()).unwrap();
        assert!(Unfinished::open(open.as_raw_fd()).is_none());
        keep(folder.path(), |_| false).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), theirs);
    }
}
