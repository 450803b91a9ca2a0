//! The owner of a file or folder, and who else may change it or what its path leads to.
//!
//! Root may change everything, and counts as no other user. [`FileStat`] is signal-safe, but for [`From`].

use std::ffi::CStr;
use std::fs::{self, Metadata};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::{errno, user};

/// Those beside this process' user who may put files into a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherWriters {
    /// Another user, who has it.
    Own,
    /// Another user, who has made the link that leads to it.
    Link,
    /// All, who may rename a folder above it: see [`open_above`].
    Above,
    /// Those of its group, or all, by its mode.
    Write,
}

impl OtherWriters {
    /// The shell command after which the folder at `path` is this user's alone.
    pub fn repair(self, path: &Path) -> String {
        let quoted = |path: &Path| path.to_string_lossy().replace('\'', r"'\''");
        let path_text = quoted(path);
        match self {
            OtherWriters::Write => format!("chmod go-w '{path_text}'"),
            OtherWriters::Own => format!("sudo chown {} '{path_text}'", user()),
            // To own a stranger's link would be to go where it leads.
            OtherWriters::Link => format!("sudo rm '{path_text}'"),
            OtherWriters::Above => {
                let above = open_above(path).unwrap_or_default();
                format!("chmod o-w '{}'", quoted(&above))
            }
        }
    }
}

/// Returns who else may write in `folder`, which is open or was looked at, or may change what its `path` leads to.
///
/// # Errors
/// The path has no file any more.
pub fn other_writers(path: &Path, folder: &FileStat) -> io::Result<Option<OtherWriters>> {
    let named = FileStat::from(&fs::symlink_metadata(path)?);
    let by_name = || named.is_strangers().then_some(OtherWriters::Link);
    let writers = folder.other_writers().or_else(by_name);
    Ok(writers.or_else(|| open_above(path).map(|_| OtherWriters::Above)))
}

/// Most folders above another one that are checked.
const MAX_ABOVE: usize = 128;

/// Returns a folder on the way to `path` in which all users may rename others' files, or a link there that another
/// user made. Whoever changes one of these changes what the path leads to.
pub fn open_above(path: &Path) -> Option<PathBuf> {
    const STICKY: u32 = 0o1000;
    let is_open = |above: &Path| {
        let is_wide = |meta: Metadata| meta.mode() & (STICKY | 0o002) == 0o002;
        let is_link = |named: Metadata| named.is_symlink() && FileStat::from(&named).is_strangers();
        fs::metadata(above).is_ok_and(is_wide) || fs::symlink_metadata(above).is_ok_and(is_link)
    };
    let identity = |path: &Path| path.metadata().ok().map(|meta| (meta.dev(), meta.ino()));
    // The folders that contain it by `..`, wherever links lead, up to the root, which is its own parent.
    let parents = std::iter::successors(Some(path.join("..")), |above| {
        let next = above.join("..");
        (identity(above)? != identity(&next)?).then_some(next)
    });
    let named = std::path::absolute(path).ok();
    let named = named.iter().flat_map(|path| path.ancestors().skip(1));
    let mut above = named.map(Path::to_owned).chain(parents.take(MAX_ABOVE));
    above.find(|above| is_open(above))
}

/// Makes a folder, and its parents where they are missing, for this user alone (mode 0700).
///
/// # Errors
/// `NotADirectory` for a file or for a link to nothing.
pub fn make_folder(path: &Path) -> io::Result<()> {
    let mut maker = fs::DirBuilder::new();
    let made = maker.recursive(true).mode(0o700).create(path);
    made.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => io::Error::from_raw_os_error(libc::ENOTDIR),
        _ => error,
    })
}

/// The system's facts of a file.
#[derive(Debug, Clone, Copy)]
pub struct FileStat {
    pub(super) device: u64,
    pub(super) inode: u64,
    /// Bytes.
    pub(super) length: u64,
    /// Names that it has.
    pub(super) links: u64,
    /// True for a regular file.
    pub(super) is_file: bool,
    /// True if its group or all may write in it.
    is_wide: bool,
    /// The user that it belongs to.
    pub(super) owner: u32,
}

impl FileStat {
    /// Of what a descriptor is open on. The error is an `errno`.
    pub(super) fn of(number: RawFd) -> Result<FileStat, i32> {
        // SAFETY: the call is given room for its answer.
        FileStat::stat(|facts| unsafe { libc::fstat(number, facts) })
    }

    /// Of a name in an open folder; a link's own. The error is an `errno`.
    pub(super) fn at(folder: RawFd, name: &CStr) -> Result<FileStat, i32> {
        let flags = libc::AT_SYMLINK_NOFOLLOW;
        // SAFETY: a C string, and room for the answer.
        FileStat::stat(|facts| unsafe { libc::fstatat(folder, name.as_ptr(), facts, flags) })
    }

    fn stat(call: impl FnOnce(*mut libc::stat) -> libc::c_int) -> Result<FileStat, i32> {
        let mut facts = MaybeUninit::<libc::stat>::uninit();
        if call(facts.as_mut_ptr()) != 0 {
            return Err(errno());
        }
        // SAFETY: the call has filled it in.
        let facts = unsafe { facts.assume_init() };
        #[allow(
            clippy::unnecessary_cast,
            reason = "of another width on other platforms"
        )]
        Ok(FileStat {
            device: facts.st_dev as u64,
            inode: facts.st_ino as u64,
            length: u64::try_from(facts.st_size).unwrap_or(0),
            links: facts.st_nlink as u64,
            is_file: facts.st_mode & libc::S_IFMT == libc::S_IFREG,
            is_wide: facts.st_mode & 0o022 != 0,
            owner: facts.st_uid,
        })
    }

    /// Returns true for a regular file of this process' user with one name.
    pub fn is_own(&self) -> bool {
        self.is_file && self.links == 1 && self.owner == user()
    }

    /// Returns who beside this process' user may change this folder.
    pub(super) fn other_writers(&self) -> Option<OtherWriters> {
        if self.is_strangers() {
            Some(OtherWriters::Own)
        } else {
            self.is_wide.then_some(OtherWriters::Write)
        }
    }

    /// Returns true if another user than root or this process' has it.
    pub fn is_strangers(&self) -> bool {
        ![0, user()].contains(&self.owner)
    }

    /// Returns true if both are of one file.
    pub(super) fn is_same(&self, other: &FileStat) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

impl From<&Metadata> for FileStat {
    fn from(meta: &Metadata) -> FileStat {
        FileStat {
            device: meta.dev(),
            inode: meta.ino(),
            length: meta.len(),
            links: meta.nlink(),
            is_file: meta.is_file(),
            is_wide: meta.mode() & 0o022 != 0,
            owner: meta.uid(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    /// Another user.
    const STRANGER: u32 = 65_534;

    fn of_path(path: &Path) -> Option<OtherWriters> {
        other_writers(path, &FileStat::from(&fs::metadata(path).unwrap())).unwrap()
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn runs(command: &str) -> bool {
        let status = std::process::Command::new("sh")
            .args(["-c", command])
            .status();
        status.unwrap().success()
    }

    #[test]
    fn a_folder_that_is_made_is_this_users_alone() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("state/it's here");
        make_folder(&folder).unwrap();
        assert_eq!(of_path(&folder), None);
        let mode = fs::metadata(folder.parent().unwrap()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
        fs::write(folder.join("file"), "").unwrap();
        symlink("nowhere", folder.join("link")).unwrap();
        for name in ["file", "link"] {
            let error = make_folder(&folder.join(name)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotADirectory, "{name}");
        }
    }

    #[test]
    fn the_command_that_is_named_shuts_others_out() {
        let outer = tempfile::tempdir().unwrap();
        let above = outer.path().join("it's above");
        let folder = above.join("between/folder");
        make_folder(&folder).unwrap();
        for wide in [0o770, 0o702, 0o1777] {
            set_mode(&folder, wide);
            assert_eq!(of_path(&folder), Some(OtherWriters::Write), "{wide:o}");
            assert!(runs(&OtherWriters::Write.repair(&folder)));
            assert_eq!(of_path(&folder), None, "{wide:o}");
        }
        // In one with the sticky bit nobody may rename what is another's.
        for (mode, found) in [(0o1777, None), (0o777, Some(OtherWriters::Above))] {
            set_mode(&above, mode);
            assert_eq!(of_path(&folder), found, "{mode:o}");
        }
        // By a link, too, whose own path goes round that folder.
        let link = outer.path().join("link");
        symlink(&folder, &link).unwrap();
        assert_eq!(of_path(&link), Some(OtherWriters::Above));
        assert!(runs(&OtherWriters::Above.repair(&link)));
        assert_eq!((of_path(&link), of_path(&folder)), (None, None));
    }

    #[test]
    fn what_another_user_has_is_not_ours() {
        let outer = tempfile::tempdir().unwrap();
        let (folder, link) = (outer.path().join("folder"), outer.path().join("link"));
        make_folder(&folder).unwrap();
        symlink(&folder, &link).unwrap();
        let within = link.join("within");
        make_folder(&within).unwrap();
        if chown(&folder, Some(STRANGER), None).is_err() {
            eprintln!("NOT TESTED: only root can give a folder away");
            return;
        }
        // Whatever its mode: this user could not change that.
        set_mode(&folder, 0o777);
        assert_eq!(of_path(&folder), Some(OtherWriters::Own));
        assert!(
            OtherWriters::Own
                .repair(&folder)
                .starts_with("sudo chown 0 '")
        );
        set_mode(&folder, 0o700);
        chown(&folder, Some(0), None).unwrap();
        lchown(&link, Some(STRANGER), None).unwrap();
        assert_eq!(of_path(&link), Some(OtherWriters::Link));
        assert_eq!(of_path(&within), Some(OtherWriters::Above));
        assert!(OtherWriters::Link.repair(&link).starts_with("sudo rm '"));
        let file = folder.join("file");
        fs::write(&file, "").unwrap();
        let facts = || FileStat::from(&fs::symlink_metadata(&file).unwrap());
        assert!(facts().is_own());
        fs::hard_link(&file, folder.join("second name")).unwrap();
        assert!(!facts().is_own());
        fs::remove_file(folder.join("second name")).unwrap();
        chown(&file, Some(STRANGER), None).unwrap();
        assert!(!facts().is_own() && facts().is_strangers());
    }
}
