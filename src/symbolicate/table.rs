//! The lookup table of one image: a block of bytes that serves from memory and from a mapped cache
//! file alike. Every index in it is checked when it is followed.
//!
//! All integers are little-endian `u32`. Addresses are relative to the image's stated base; code past
//! 4 GiB is left out. After a header of [`HEADER`] bytes come, each at a multiple of four:
//!
//! | part | one entry |
//! | --- | --- |
//! | starts | address at which a range starts; sorted |
//! | values | index of the range's chain, or `NONE` for a range that nothing is known about |
//! | chains | function, file, line (0: none), index of the caller's chain |
//! | functions | name, demangled name, entry address, flags |
//! | files | path |
//! | strings | length, then so many bytes of UTF-8; the others refer to the offset of the length |

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use rustc_hash::FxHashMap;

use super::bytes::Bytes;
use super::dwarf::{Chain, NONE};
use super::overlay::Segment;

pub(super) const MAGIC: &[u8; 8] = b"wdjtable";
/// Counts up with every change of layout or of what the tables say.
pub(crate) const VERSION: u32 = 2;
/// Magic, version, counts of the six parts, CRC-32 of all these.
const HEADER: usize = 8 + 4 + 6 * 4 + 4;

/// The symbol at the function's entry says its name better, if there is one that agrees.
pub(crate) const WANTS_SYMBOL: u32 = 1;
/// The name comes from the symbol table.
pub(crate) const FROM_SYMBOLS: u32 = 2;

/// A table to look things up in.
#[derive(Debug)]
pub(crate) struct Table {
    bytes: Bytes,
    /// For tables that come from disk.
    checks: Option<Checks>,
    counts: [usize; 6],
    offsets: [usize; 6],
    lookups: AtomicU32,
    /// Every so manieth start, once that many lookups are asked for that it is worth reading them all.
    samples: OnceLock<Vec<u32>>,
}

/// Starts between two samples: those of a few cache lines.
const STRIDE: usize = 64;
/// So many lookups are done without samples.
const FEW_LOOKUPS: u32 = 512;

/// Tables from disk are checked in blocks of so many bytes, each when it is first read.
pub(crate) const BLOCK: usize = 1 << 14;

#[derive(Debug)]
struct Checks {
    crcs: Vec<u32>,
    /// A bit for each block found whole.
    whole: Vec<AtomicU64>,
    damaged: AtomicBool,
}

const STARTS: usize = 0;
const VALUES: usize = 1;
const CHAINS: usize = 2;
const FUNCTIONS: usize = 3;
const FILES: usize = 4;
const STRINGS: usize = 5;
/// Bytes of an entry in each part.
const SIZES: [usize; 6] = [4, 4, 16, 16, 4, 1];

/// A function in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FunctionRef<'a> {
    pub name: &'a str,
    /// Where it was demangled when the table was made.
    pub demangled: Option<&'a str>,
    /// Relative to the image's base.
    pub entry: Option<u32>,
    pub flags: u32,
}

impl Table {
    /// As [`Table::open`], with the CRC-32 of each block.
    pub(crate) fn open_checked(bytes: Bytes, crcs: Vec<u32>) -> Result<Table, &'static str> {
        if crcs.first() != bytes.chunks(BLOCK).next().map(crc32fast::hash).as_ref() {
            return Err("its first block is damaged");
        }
        let mut table = Table::open(bytes)?;
        let whole = (0..crcs.len().div_ceil(64))
            .map(|_| AtomicU64::new(0))
            .collect();
        table.checks = Some(Checks {
            crcs,
            whole,
            damaged: AtomicBool::new(false),
        });
        Ok(table)
    }

    /// Whether a block that was read turned out damaged: answers of this table may be missing.
    pub(crate) fn is_damaged(&self) -> bool {
        self.checks
            .as_ref()
            .is_some_and(|checks| checks.damaged.load(Relaxed))
    }

    /// Checks the header and that all parts are there.
    pub(crate) fn open(bytes: Bytes) -> Result<Table, &'static str> {
        let data: &[u8] = &bytes;
        let header = data.get(..HEADER).ok_or("shorter than its header")?;
        if &header[..8] != MAGIC {
            return Err("not a lookup table");
        }
        let word = |at: usize| u32_at(header, at).unwrap_or(0);
        if word(HEADER - 4) != crc32fast::hash(&header[..HEADER - 4]) {
            return Err("its header is damaged");
        }
        if word(8) != VERSION {
            return Err("of another version");
        }
        let mut counts = [0; 6];
        let mut offsets = [0; 6];
        let mut at = HEADER;
        for part in 0..6 {
            counts[part] = word(12 + 4 * part) as usize;
            offsets[part] = at;
            at = counts[part]
                .checked_mul(SIZES[part])
                .and_then(|n| n.checked_add(at))
                .ok_or("too large")?;
        }
        if at != data.len() {
            return Err("not as long as its header says");
        }
        Ok(Table {
            bytes,
            checks: None,
            counts,
            offsets,
            lookups: AtomicU32::new(0),
            samples: OnceLock::new(),
        })
    }

    /// The chain at an address relative to the image's base.
    pub(crate) fn chain_at(&self, address: u32) -> Option<u32> {
        let (mut low, mut high) = (0, self.counts[STARTS]);
        if let Some(samples) = self.samples() {
            let after = samples.partition_point(|&start| start <= address);
            low = after.checked_sub(1)? * STRIDE;
            high = high.min(low + STRIDE);
            let starts = self.read(STARTS, low * 4, (high - low) * 4)?;
            let (starts, _) = starts.as_chunks::<4>();
            low += starts.partition_point(|&start| u32::from_le_bytes(start) <= address);
            high = low;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if u32_at(self.read(STARTS, middle * 4, 4)?, 0)? <= address {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let value = u32_at(self.read(VALUES, low.checked_sub(1)? * 4, 4)?, 0)?;
        (value != NONE).then_some(value)
    }

    /// Every [`STRIDE`]th start, if there were lookups enough; none of a damaged table.
    fn samples(&self) -> Option<&[u32]> {
        if let Some(samples) = self.samples.get() {
            return (!samples.is_empty()).then_some(samples);
        }
        if self.lookups.fetch_add(1, Relaxed) < FEW_LOOKUPS {
            return None;
        }
        let samples = self.samples.get_or_init(|| {
            let at = (0..self.counts[STARTS]).step_by(STRIDE);
            let start = |at: usize| u32_at(self.read(STARTS, at * 4, 4)?, 0);
            at.map(start).collect::<Option<_>>().unwrap_or_default()
        });
        (!samples.is_empty()).then_some(samples)
    }

    pub(crate) fn chain(&self, index: u32) -> Option<Chain> {
        let entry = self.entry(CHAINS, index)?;
        Some(Chain {
            function: u32_at(entry, 0)?,
            file: u32_at(entry, 4)?,
            line: u32_at(entry, 8)?,
            caller: u32_at(entry, 12)?,
        })
    }

    pub(crate) fn function(&self, index: u32) -> Option<FunctionRef<'_>> {
        let entry = self.entry(FUNCTIONS, index)?;
        Some(FunctionRef {
            name: self.string(u32_at(entry, 0)?)?,
            demangled: self.string(u32_at(entry, 4)?),
            entry: Some(u32_at(entry, 8)?).filter(|&entry| entry != NONE),
            flags: u32_at(entry, 12)?,
        })
    }

    pub(crate) fn file(&self, index: u32) -> Option<&str> {
        self.string(u32_at(self.entry(FILES, index)?, 0)?)
    }

    /// The whole table, as written to a cache file.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn entry(&self, part: usize, index: u32) -> Option<&[u8]> {
        self.read(
            part,
            (index as usize).checked_mul(SIZES[part])?,
            SIZES[part],
        )
    }

    fn string(&self, offset: u32) -> Option<&str> {
        let start = offset as usize;
        let len = u32_at(self.read(STRINGS, start, 4)?, 0)? as usize;
        std::str::from_utf8(self.read(STRINGS, start.checked_add(4)?, len)?).ok()
    }

    /// `len` bytes at `start` of a part, once their blocks are known to be whole.
    #[inline]
    fn read(&self, part: usize, start: usize, len: usize) -> Option<&[u8]> {
        let end = start.checked_add(len)?;
        if end > self.counts[part] * SIZES[part] {
            return None;
        }
        let (start, end) = (self.offsets[part] + start, self.offsets[part] + end);
        if let Some(checks) = &self.checks {
            for block in start / BLOCK..=end.saturating_sub(1).max(start) / BLOCK {
                let (word, bit) = (checks.whole.get(block / 64)?, 1u64 << (block % 64));
                if word.load(Relaxed) & bit == 0 {
                    self.check(checks, block)?;
                    word.fetch_or(bit, Relaxed);
                }
            }
        }
        self.bytes.get(start..end)
    }

    #[cold]
    fn check(&self, checks: &Checks, block: usize) -> Option<()> {
        let data = self.bytes.chunks(BLOCK).nth(block)?;
        if checks.crcs.get(block) == Some(&crc32fast::hash(data)) {
            return Some(());
        }
        checks.damaged.store(true, Relaxed);
        None
    }
}

fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// Collects what a table will hold.
#[derive(Default)]
pub(crate) struct Builder {
    strings: Vec<u8>,
    known_strings: FxHashMap<Box<str>, u32>,
    known_files: FxHashMap<u32, u32>,
    files: Vec<u32>,
    functions: Vec<[u32; 4]>,
    chains: Vec<Chain>,
    known_chains: FxHashMap<Chain, u32>,
}

impl Builder {
    pub(crate) fn file(&mut self, path: &str) -> u32 {
        let string = self.string(path);
        *self.known_files.entry(string).or_insert_with(|| {
            self.files.push(string);
            self.files.len() as u32 - 1
        })
    }

    /// Adds a function; `demangled` is `None` where nobody has looked yet.
    pub(crate) fn function(
        &mut self,
        name: &str,
        demangled: Option<&str>,
        entry: Option<u32>,
        flags: u32,
    ) -> u32 {
        let name = self.string(name);
        let demangled = demangled.map_or(NONE, |text| self.string(text));
        self.functions
            .push([name, demangled, entry.unwrap_or(NONE), flags]);
        self.functions.len() as u32 - 1
    }

    pub(crate) fn chain_at(&self, index: u32) -> Option<Chain> {
        self.chains.get(index as usize).copied()
    }

    pub(crate) fn chain(&mut self, chain: Chain) -> u32 {
        *self.known_chains.entry(chain).or_insert_with(|| {
            self.chains.push(chain);
            self.chains.len() as u32 - 1
        })
    }

    fn string(&mut self, text: &str) -> u32 {
        if let Some(&offset) = self.known_strings.get(text) {
            return offset;
        }
        // Cut what no name or path is, rather than overflow an offset.
        let offset = self.strings.len() as u32;
        if self.strings.len() + text.len() + 4 > NONE as usize {
            return 0;
        }
        self.strings.extend((text.len() as u32).to_le_bytes());
        self.strings.extend(text.as_bytes());
        self.known_strings.insert(text.into(), offset);
        offset
    }

    /// Writes the table. `segments` are in order of stated address and do not overlap; `base` is
    /// the image's.
    pub(crate) fn finish(self, segments: &[Segment<u32>], base: u64) -> Table {
        let mut starts: Vec<u32> = Vec::with_capacity(segments.len() * 2);
        let mut values: Vec<u32> = Vec::with_capacity(segments.len() * 2);
        let mut last_end = None;
        for segment in segments {
            let relative = |address: u64| u32::try_from(address.checked_sub(base)?).ok();
            let (Some(start), Some(end)) = (relative(segment.start), relative(segment.end)) else {
                continue;
            };
            if let Some(gap) = last_end
                && gap != start
            {
                starts.push(gap);
                values.push(NONE);
            }
            starts.push(start);
            values.push(segment.value);
            last_end = Some(end);
        }
        if let Some(end) = last_end {
            starts.push(end);
            values.push(NONE);
        }
        let counts = [
            starts.len(),
            values.len(),
            self.chains.len(),
            self.functions.len(),
            self.files.len(),
            self.strings.len(),
        ];
        let mut bytes = Vec::with_capacity(
            HEADER
                + counts
                    .iter()
                    .zip(SIZES)
                    .map(|(n, size)| n * size)
                    .sum::<usize>(),
        );
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        for count in counts {
            bytes.extend((count as u32).to_le_bytes());
        }
        let crc = crc32fast::hash(&bytes);
        bytes.extend(crc.to_le_bytes());
        let mut push = |word: u32| bytes.extend(word.to_le_bytes());
        starts.into_iter().chain(values).for_each(&mut push);
        self.chains
            .iter()
            .flat_map(|c| [c.function, c.file, c.line, c.caller])
            .for_each(&mut push);
        self.functions
            .into_iter()
            .flatten()
            .chain(self.files)
            .for_each(&mut push);
        bytes.extend(self.strings);
        let counts_ok = Table::open(bytes.into());
        counts_ok.unwrap_or_else(|what| unreachable!("a table just written is {what}"))
    }
}
