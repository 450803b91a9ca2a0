//! Packed debug files, as CI and stores hand them out: they are not read, and the message names the command that unpacks
//! them.

use std::path::Path;

/// Endings of a name that unpacking takes away.
const ENDINGS: [&str; 11] = [
    ".zip", ".tgz", ".tar.gz", ".tar.zst", ".tar.xz", ".tar.bz2", ".tar", ".gz", ".zst", ".xz",
    ".bz2",
];

/// Words in the names of packed debug files.
const WORDS: [&str; 6] = ["dsym", "xcarchive", "symbol", "debug", ".so", ".app"];

/// The command that unpacks an archive, by its first bytes; `None` for another file.
pub(crate) fn unpacking(path: &Path, head: &[u8]) -> Option<String> {
    let text = path.display().to_string();
    let lower = text.to_lowercase();
    let ending = ENDINGS.iter().find(|ending| lower.ends_with(**ending));
    let front = ending.map_or(&*text, |ending| &text[..text.len() - ending.len()]);
    // A file that has no such ending is unpacked beside itself.
    let to = match ending {
        Some(_) => quoted(front),
        None => quoted(&format!("{text}.unpacked")),
    };
    let from = quoted(&text);
    let is_tar = ending.is_some_and(|ending| ending.starts_with(".t"));
    let single = |tool: &str| {
        if is_tar {
            format!("mkdir -p {to} && tar -xf {from} -C {to}")
        } else {
            format!("{tool} -dc {from} > {to}")
        }
    };
    match head {
        [b'P', b'K', 3, 4, ..] => Some(format!("unzip {from} -d {to}")),
        [0x1f, 0x8b, ..] => Some(single("gzip")),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(single("zstd")),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => Some(single("xz")),
        [b'B', b'Z', b'h', ..] => Some(single("bzip2")),
        _ => None,
    }
}

/// Returns true for names under which debug files are handed out: other archives in a folder are nobody's concern.
pub(crate) fn is_of_debug_files(path: &Path) -> bool {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .to_lowercase();
    WORDS.iter().any(|word| name.contains(word))
}

/// A path as a shell takes it.
pub(super) fn quoted(path: &str) -> String {
    format!("'{}'", path.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_that_of_the_archive() {
        let command = |path: &str, head: &[u8]| unpacking(Path::new(path), head);
        let unzip = "unzip 'a/Kiosk.app.dSYM.zip' -d 'a/Kiosk.app.dSYM'";
        assert_eq!(
            command("a/Kiosk.app.dSYM.zip", b"PK\x03\x04").as_deref(),
            Some(unzip)
        );
        let tar = "mkdir -p 'symbols' && tar -xf 'symbols.tar.gz' -C 'symbols'";
        assert_eq!(
            command("symbols.tar.gz", b"\x1f\x8b\x08").as_deref(),
            Some(tar)
        );
        let gzip = r"gzip -dc 'it'\''s.debug.gz' > 'it'\''s.debug'";
        assert_eq!(
            command("it's.debug.gz", b"\x1f\x8b\x08").as_deref(),
            Some(gzip)
        );
        let zstd = "zstd -dc 'ab/cdef/debuginfo' > 'ab/cdef/debuginfo.unpacked'";
        assert_eq!(
            command("ab/cdef/debuginfo", b"\x28\xb5\x2f\xfd").as_deref(),
            Some(zstd)
        );
        assert_eq!(command("a.zip", b"\x7fELF"), None);
    }
}
