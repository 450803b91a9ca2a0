//! BCSymbolMaps: Xcode 14 and before could hide the names and paths of bitcode builds, and left in their place
//! `__hidden#NUMBER_`, in an archive's symbols and debug information alike. The map has the text of each number.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use symbolic::debuginfo::macho::BcSymbolMap;

use super::bytes::SharedBytes;
use crate::symbolicate::Error;
use crate::symbolicate::frame::id_text;

/// Largest map that is read.
const MOST_BYTES: u64 = 256 << 20;
/// Largest property list of a dSYM that is read.
const MOST_PLIST_BYTES: u64 = 1 << 20;

/// The texts of one image.
pub(crate) struct SymbolMap {
    texts: Vec<Box<str>>,
}

impl SymbolMap {
    /// Reads a map.
    ///
    /// # Errors
    /// If it cannot be read, or is not of version 2.0.
    pub(crate) fn open(path: &Path) -> Result<SymbolMap, Error> {
        let bytes = SharedBytes::read(path, MOST_BYTES)?;
        let map = BcSymbolMap::parse(&bytes).map_err(|e| Error::bad_file(path, e))?;
        Ok(SymbolMap {
            texts: map.iter().map(Into::into).collect(),
        })
    }

    /// Returns the text that `hidden` replaces; `None` if it has no number, or one that the map does not have.
    pub(crate) fn text(&self, hidden: &str) -> Option<&str> {
        let number = hidden.trim_start_matches('_').strip_prefix("hidden#")?;
        let number: usize = number.split('_').next()?.parse().ok()?;
        let text = self.texts.get(number)?;
        Some(&**text).filter(|text| !text.is_empty())
    }

    /// A path with the texts of its parts. A part that is an absolute path replaces those before it.
    pub(crate) fn path<'p>(&self, path: &'p str) -> Cow<'p, str> {
        if !path.contains("hidden#") {
            return Cow::Borrowed(path);
        }
        let mut whole = String::new();
        for (index, part) in path.split('/').enumerate() {
            let text = self.text(part).unwrap_or(part);
            if text.starts_with('/') {
                whole.clear();
            } else if index > 0 {
                whole.push('/');
            }
            whole.push_str(text);
        }
        Cow::Owned(whole)
    }
}

/// The UUID that a map's file is named by; `None` for files of another kind.
pub(crate) fn id_of(path: &Path) -> Option<Vec<u8>> {
    if path.extension()? != "bcsymbolmap" {
        return None;
    }
    uuid(path.file_stem()?.to_str()?)
}

/// Returns the reason why a file cannot be read as a map; `None` if it begins as one.
pub(crate) fn damage(path: &Path) -> Option<String> {
    let what = "it does not begin with `BCSymbolMap Version: 2.0`";
    match SharedBytes::map(path) {
        Ok(bytes) if BcSymbolMap::test(&bytes) => None,
        Ok(_) => Some(Error::bad_file(path, what).to_string()),
        Err(error) => Some(error.to_string()),
    }
}

/// The UUIDs by which the map of a debug file may be named: its own, and that of the build that Apple compiled anew, which a
/// dSYM from App Store Connect states.
pub(crate) fn ids(path: &Path, id: &[u8]) -> Vec<Vec<u8>> {
    let original = || {
        let resources = path.parent()?.parent()?;
        let plist = resources.join(format!("{}.plist", id_text(id)));
        let plist = SharedBytes::read(&plist, MOST_PLIST_BYTES).ok()?;
        let (_, after) = std::str::from_utf8(&plist)
            .ok()?
            .split_once("<key>DBGOriginalUUID</key>")?;
        uuid(after.split_once("<string>")?.1.split('<').next()?)
    };
    std::iter::once(id.to_owned()).chain(original()).collect()
}

/// The map of this UUID in the archive that contains a debug file.
pub(crate) fn in_archive(path: &Path, id: &[u8]) -> Option<PathBuf> {
    let is_archive = |folder: &&Path| folder.extension().is_some_and(|end| end == "xcarchive");
    let archive = path.ancestors().find(is_archive)?;
    let name = format!("{}.bcsymbolmap", id_text(id));
    Some(archive.join("BCSymbolMaps").join(name)).filter(|path| path.is_file())
}

fn uuid(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.trim().bytes().filter(|&byte| byte != b'-').collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
    bytes.filter(|bytes| bytes.len() == 16 && digits.len() == 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_the_lines_after_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder
            .path()
            .join("4C4C44E2-5555-3144-A15D-8DB1B87DBB83.bcsymbolmap");
        let lines =
            "BCSymbolMap Version: 2.0\n-[Shop pay]\n_$s4main3fooyyF\n/build/shop\nShop.m\n\n";
        std::fs::write(&path, lines).unwrap();
        assert_eq!(damage(&path), None);
        let map = SymbolMap::open(&path).unwrap();
        assert_eq!(map.text("__hidden#0_"), Some("-[Shop pay]"));
        assert_eq!(map.text("___hidden#1_"), Some("_$s4main3fooyyF"));
        for other in [
            "__hidden#4_",
            "__hidden#5_",
            "__hidden#_",
            "__hidden#99999999999999999999_",
            "pay",
        ] {
            assert_eq!(map.text(other), None, "{other}");
        }
        assert_eq!(map.path("__hidden#2_/__hidden#3_"), "/build/shop/Shop.m");
        assert_eq!(map.path("/a/__hidden#2_/b"), "/build/shop/b");
        assert_eq!(map.path("/a/__hidden#7_"), "/a/__hidden#7_");
        let id = b"\x4c\x4c\x44\xe2\x55\x55\x31\x44\xa1\x5d\x8d\xb1\xb8\x7d\xbb\x83";
        assert_eq!(id_of(&path).as_deref(), Some(&id[..]));
        assert_eq!(id_of(Path::new("4C4C.bcsymbolmap")), None);
        assert_eq!(id_of(&path.with_extension("dSYM")), None);
        std::fs::write(&path, "BCSymbolMap Version: 3.0\npay\n").unwrap();
        assert!(damage(&path).is_some() && SymbolMap::open(&path).is_err());
    }
}
