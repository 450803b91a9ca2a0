//! Links in a folder that was given: a stranger may have put them there, to have files read that are not his.

use std::path::{Component, Path, PathBuf};

/// A folder that was given, by its path and by its real one.
#[derive(Debug, Clone)]
pub(crate) struct GivenFolder {
    given: PathBuf,
    real: PathBuf,
}

impl GivenFolder {
    pub(crate) fn new(folder: &Path) -> GivenFolder {
        GivenFolder {
            given: std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()),
            real: folder.canonicalize().unwrap_or_else(|_| folder.to_owned()),
        }
    }

    /// Returns true if the link, which is in the folder, leads out of it. A target outside by its text alone is not looked at:
    /// the system might mount it at the look.
    pub(crate) fn is_left_by(&self, link: &Path) -> bool {
        let target = std::fs::read_link(link).ok();
        let folder = link.parent().and_then(|folder| folder.canonicalize().ok());
        let Some((target, folder)) = target.zip(folder) else {
            return true;
        };
        let target = without_dots(&folder.join(target));
        if !target.starts_with(&self.given) && !target.starts_with(&self.real) {
            return true;
        }
        // Nothing is there, or it leads on.
        link.canonicalize()
            .is_ok_and(|target| !target.starts_with(&self.real))
    }
}

/// The path without `.` and `..`, by its words alone.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// Folders in which the system keeps its libraries.
const SYSTEM_LIBRARIES: [&str; 13] = [
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libx32",
    "/usr/libexec",
    "/nix/store",
    "/gnu/store",
    "/System/Library",
    "/Library/Apple",
];

/// Returns true if the path, which a report names, is that of a file in one of the system's folders of libraries. No other
/// path is looked at: it may be a stranger's choice.
pub(crate) fn is_system_library(path: &Path) -> bool {
    let is_within = |path: &Path| {
        let mut folders = SYSTEM_LIBRARIES.iter();
        folders.any(|folder| path.starts_with(folder)) && without_dots(path) == path
    };
    is_within(path) && path.canonicalize().is_ok_and(|real| is_within(&real)) && path.is_file()
}

/// Returns true if the name by which one file refers to another is relative and has only plain parts, no `..`.
pub(crate) fn is_below(name: &Path) -> bool {
    let mut parts = name.components();
    !name.as_os_str().is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_that_stay_and_links_that_leave() {
        let all = tempfile::tempdir().unwrap();
        let (root, out) = (all.path().join("root"), all.path().join("out"));
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::create_dir_all(&out).unwrap();
        std::fs::write(root.join("file"), "x").unwrap();
        let link = |target: &Path, name: &str| {
            symlink(target, root.join(name)).unwrap();
            root.join(name)
        };
        let given = GivenFolder::new(&root);
        let links = [
            link(Path::new("file"), "same"),
            link(Path::new("../../file"), "a/b/up"),
            link(&root.join("a"), "absolute"),
            link(Path::new("nothing"), "dangling"),
            link(Path::new("same"), "twice"),
        ];
        for stays in links {
            assert!(!given.is_left_by(&stays), "{}", stays.display());
        }
        let links = [
            link(Path::new(".."), "parent"),
            link(&out, "out"),
            link(Path::new("a/../../out"), "around"),
            link(Path::new("out/x"), "through"),
            link(Path::new("out"), "on"),
            link(Path::new("/proc"), "proc"),
            link(Path::new("self"), "self"),
        ];
        std::fs::write(out.join("x"), "x").unwrap();
        for (at, leaves) in links.iter().enumerate().take(6) {
            assert!(given.is_left_by(leaves), "{at}: {}", leaves.display());
        }
        assert!(!given.is_left_by(&links[6]), "it leads nowhere");
        // The folder's own name may be a link.
        symlink(&root, all.path().join("named")).unwrap();
        let named = GivenFolder::new(&all.path().join("named"));
        assert!(!named.is_left_by(&all.path().join("named/absolute")));
        assert!(named.is_left_by(&all.path().join("named/out")));
    }

    #[test]
    fn paths_of_system_libraries() {
        let library = |path: &str| is_system_library(Path::new(path));
        for path in [
            "/etc/passwd",
            "/usr/lib/../../etc/passwd",
            "/usr/library/x",
            "/proc/self/exe",
            "usr/lib/x",
            "/usr/lib",
            "/usr/lib/no-such-file",
        ] {
            assert!(!library(path), "{path}");
        }
    }

    #[test]
    fn names_of_files_below() {
        for name in ["a", "a/b.dwo", "./a"] {
            assert!(is_below(Path::new(name.trim_start_matches("./"))), "{name}");
        }
        for name in ["", "/a", "../a", "a/../../b", ".."] {
            assert!(!is_below(Path::new(name)), "{name}");
        }
    }
}
