//! Kinds of damage to a report, and the messages about them.

use std::fmt;

use super::limits;

/// One thing that is wrong with a report of which something could be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// Offset in bytes from the start of the file or stream.
    pub offset: u64,
    /// The kind of damage.
    pub kind: DamageKind,
    /// A message for people: the damage and what to do about it; holds no control characters.
    pub message: String,
}

/// The sorts of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DamageKind {
    /// The file ends within a section.
    Cut,
    /// The file ends without the section `end`.
    NoEnd,
    /// There is no `head`, or it can't be trusted.
    Head,
    /// The CRC-32 of the section `end` is not that of the bytes before it.
    Crc,
    /// The section `end` counts other sections than the file has.
    Count,
    /// A section was skipped.
    Section,
    /// Bytes that are no section were skipped.
    Garbage,
    /// A key was skipped, or its value is not all that it was.
    Field,
    /// A frame names an image that the report does not hold.
    Image,
    /// Bytes after `end`.
    Trailing,
    /// A limit of [`limits`](super::limits) was passed.
    Limit,
    /// Damages were found that are not listed one by one.
    More,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.message)
    }
}

/// The reason why nothing could be read. Its text has the stream's error, which is no `source` besides.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// There are no bytes.
    Empty,
    /// The bytes are something else, or nothing known.
    NotAReport {
        /// Offset of these bytes from the start of the file or stream.
        offset: u64,
        /// A name for the file type they resemble, as `a JPEG image`; `None` if it is not known.
        looks_like: Option<&'static str>,
    },
    /// The file ends within its first section.
    CutInHead {
        /// Length of the file in bytes.
        bytes: u64,
    },
    /// A version of the format that this crate can't read.
    Version {
        /// The version.
        version: u64,
    },
    /// The stream could not be read on.
    Io {
        /// Count of bytes read before the error.
        offset: u64,
        /// The error of the stream.
        source: std::io::Error,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Empty => write!(
                f,
                "not a wedjat report: it is empty (0 bytes); its process died before it wrote a byte, \
                 or the copy failed: fetch it again or delete it"
            ),
            ReadError::NotAReport { offset, looks_like } => write!(
                f,
                "not a report: at byte {offset} it looks like {}, and has no layout that is read; docs/symbolicate.md \
                 lists those of other recorders",
                looks_like.unwrap_or("nothing known")
            ),
            ReadError::CutInHead { bytes } => write!(
                f,
                "the report ends at byte {bytes}, within its first section `head`: nothing of it can be \
                 read; fetch it again, or delete it"
            ),
            ReadError::Version { version } => write!(
                f,
                "the report is of format version {version}, and this program reads version 1: update it"
            ),
            ReadError::Io { offset, source } => {
                write!(f, "reading failed after byte {offset}: {source}")
            }
        }
    }
}

impl std::error::Error for ReadError {}

/// Names the file type that `bytes`, which are no report, begin with; `None` if it is not known.
pub(crate) fn looks_like(bytes: &[u8]) -> Option<&'static str> {
    const MACH_O: &str = "a Mach-O file: debug files go after --debug";
    const MAGICS: &[(&[u8], &str)] = &[
        (b"\xff\xd8\xff", "a JPEG image"),
        (b"\x89PNG", "a PNG image"),
        (b"GIF8", "a GIF image"),
        (b"%PDF", "a PDF document"),
        (b"PK\x03\x04", "a ZIP archive: unpack it first"),
        (b"\x1f\x8b", "gzip data: unpack it first"),
        (b"\x28\xb5\x2f\xfd", "zstd data: unpack it first"),
        (b"\xfd7zXZ", "xz data: unpack it first"),
        (b"BZh", "bzip2 data: unpack it first"),
        (b"\x7fELF", "an ELF file: debug files go after --debug"),
        (b"\xcf\xfa\xed\xfe", MACH_O),
        (b"\xce\xfa\xed\xfe", MACH_O),
        (b"\xca\xfe\xba\xbe", MACH_O),
        (b"MZ", "a Windows program"),
        (b"MDMP", "a minidump"),
        (b"bplist00", "a binary property list"),
        (b"<?xml", "XML"),
        (b"#!", "a script"),
    ];
    if let Some((_, what)) = MAGICS.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return Some(what);
    }
    let start = bytes.get(..bytes.len().min(512)).unwrap_or_default();
    if start.iter().all(|&byte| byte == 0) {
        return Some("nothing but zeros");
    }
    let plain = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7e | 0x80..);
    let error = std::str::from_utf8(start).err();
    let text = error.is_none_or(|error| error.error_len().is_none());
    if text && start.iter().all(plain) {
        return match start.trim_ascii_start().first() {
            Some(b'{' | b'[') => Some("JSON"),
            _ => Some("plain text"),
        };
    }
    None
}

/// `text` as it may be shown to people: short, and without control characters.
pub(crate) fn printable(text: &str) -> String {
    const MAX_SHOWN: usize = 64;
    let start = text.chars().take(MAX_SHOWN);
    let mut shown: String = start.flat_map(char::escape_debug).collect();
    if text.chars().nth(MAX_SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

/// Damages found so far, as many as are listed one by one.
#[derive(Debug, Default)]
pub(crate) struct Damages {
    list: Vec<Damage>,
    more: u64,
    /// Position of the bytes in their stream, which is added to each offset.
    pub(crate) base: u64,
}

impl Damages {
    pub(crate) fn add(
        &mut self,
        offset: usize,
        kind: DamageKind,
        message: impl FnOnce() -> String,
    ) {
        if self.list.len() >= limits::DAMAGES {
            self.more = self.more.saturating_add(1);
            return;
        }
        let offset = self.base.saturating_add(offset as u64);
        self.list.push(Damage {
            offset,
            kind,
            message: message(),
        });
    }

    pub(crate) fn into_list(mut self) -> Vec<Damage> {
        self.list.sort_by_key(|damage| damage.offset);
        if self.more > 0 {
            let offset = self.list.last().map_or(0, |last| last.offset);
            let message = format!("{} more damages behind it are not listed", self.more);
            self.list.push(Damage {
                offset,
                kind: DamageKind::More,
                message,
            });
        }
        self.list
    }
}
