//! Mach-O files: what a loader needs of them (`mach-o/loader.h`, `mach-o/fixup-chains.h`).
//!
//! Binding is by chained fixups alone, which is what a linker writes for macOS 13 and later; a file
//! that is bound by opcodes is refused by name.

use std::collections::HashMap;
use std::ops::Range;

/// A section.
#[derive(Clone, Debug)]
pub struct Section {
    /// The segment that it lies in.
    pub segment: String,
    /// Its name.
    pub name: String,
    /// Where it is stated to lie.
    pub svma: Range<u64>,
    /// Where its bytes begin in the file.
    pub offset: usize,
    /// `flags`: the low byte is the type.
    pub flags: u32,
    /// `reserved1` of stubs: where in the indirect symbol table theirs begin.
    pub first_symbol: u32,
    /// `reserved2` of stubs: bytes of each.
    pub stub_size: u32,
}

impl Section {
    /// The type, as `S_THREAD_LOCAL_REGULAR`.
    pub fn kind(&self) -> u32 {
        self.flags & 0xff
    }
}

/// A segment.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Its name.
    pub name: String,
    /// Where it is stated to lie.
    pub svma: Range<u64>,
    /// Its bytes in the file.
    pub file: Range<usize>,
    /// `initprot`: 1 read, 2 write, 4 execute.
    pub protection: u32,
}

/// A pointer that must be written at load time, by its stated address.
#[derive(Clone, Debug)]
pub enum Fixup {
    /// The address `to` of this file, slid.
    Rebase {
        /// Where.
        at: u64,
        /// The stated address that it points to.
        to: u64,
    },
    /// The address of a symbol.
    Bind {
        /// Where.
        at: u64,
        /// The symbol.
        name: String,
        /// Added to its address.
        addend: u64,
        /// Whether the symbol may be missing.
        weak: bool,
    },
}

/// A parsed file, not yet in memory.
#[derive(Clone, Debug, Default)]
pub struct File {
    /// The whole file.
    pub bytes: Vec<u8>,
    /// arm64, or else x86_64.
    pub arm: bool,
    /// `MH_EXECUTE` 2, `MH_DYLIB` 6.
    pub kind: u32,
    /// Segments in the file's order; fixups name them by index.
    pub segments: Vec<Segment>,
    /// Sections of all segments.
    pub sections: Vec<Section>,
    /// Stated address of `main`.
    pub entry: Option<u64>,
    /// Names of the libraries that it wants.
    pub libraries: Vec<String>,
    /// Its own name, of a library.
    pub id: Option<String>,
    /// The UUID.
    pub uuid: [u8; 16],
    /// All defined symbols by stated address.
    pub symbols: Vec<(u64, String)>,
    /// External ones by name.
    pub exports: HashMap<String, u64>,
    /// What is to be written at load time.
    pub fixups: Vec<Fixup>,
    /// `LC_FUNCTION_STARTS`: where its table lies in the file.
    pub function_starts: Range<usize>,
    /// `LC_SYMTAB`: where its symbols and their names begin; `LC_DYSYMTAB`: where the indirect ones do.
    pub symbol_tables: [usize; 3],
    /// `LC_DYLD_INFO`: where its opcodes for pointers into the file itself lie.
    pub rebases: Range<usize>,
}

fn u16_at(b: &[u8], o: usize) -> u16 {
    u16::from_le_bytes(b[o..o + 2].try_into().unwrap())
}

fn u32_at(b: &[u8], o: usize) -> u32 {
    u32::from_le_bytes(b[o..o + 4].try_into().unwrap())
}

fn u64_at(b: &[u8], o: usize) -> u64 {
    u64::from_le_bytes(b[o..o + 8].try_into().unwrap())
}

fn text(b: &[u8]) -> String {
    let end = b.iter().position(|c| *c == 0).unwrap_or(b.len());
    String::from_utf8_lossy(&b[..end]).into_owned()
}

impl File {
    /// Parses a thin 64-bit file of our own making: a malformed one is a bug of ours and panics.
    pub fn parse(path: &str) -> Result<File, String> {
        let bytes = std::fs::read(path).map_err(|e| format!("{path}: {e}"))?;
        File::of(bytes, path, false)
    }

    /// Parses the bytes of such a file. `foreign`: it may be bound by opcodes, and its imports are left
    /// aside where they cannot be read; a malformed one panics.
    pub fn of(bytes: Vec<u8>, path: &str, foreign: bool) -> Result<File, String> {
        if bytes.len() < 32 || u32_at(&bytes, 0) != 0xfeed_facf {
            return Err(format!("{path}: not a thin 64-bit Mach-O file"));
        }
        let mut file = File {
            arm: u32_at(&bytes, 4) == 0x0100_000c,
            kind: u32_at(&bytes, 12),
            ..File::default()
        };
        let (mut chained, mut at) = (None, 32);
        for _ in 0..u32_at(&bytes, 16) {
            let (command, size) = (u32_at(&bytes, at), u32_at(&bytes, at + 4) as usize);
            let name =
                |field: usize| text(&bytes[at + u32_at(&bytes, at + field) as usize..at + size]);
            match command {
                0x19 => file.segment(&bytes, at),
                0x2 => {
                    let places = [8, 16].map(|field| u32_at(&bytes, at + field) as usize);
                    file.symbol_tables[..2].copy_from_slice(&places);
                    file.symbol_table(&bytes, at)
                }
                0xb => file.symbol_tables[2] = u32_at(&bytes, at + 56) as usize,
                0x0c | 0x8000_0018 => file.libraries.push(name(8)),
                0x0d => file.id = Some(name(8)),
                0x1b => file.uuid.copy_from_slice(&bytes[at + 8..at + 24]),
                0x22 | 0x8000_0022 if foreign => {
                    let start = u32_at(&bytes, at + 8) as usize;
                    file.rebases = start..start + u32_at(&bytes, at + 12) as usize;
                }
                0x22 | 0x8000_0022
                    if (0..5).any(|k| u32_at(&bytes, at + 12 + 8 * k) != 0 && k < 4) =>
                {
                    return Err(format!(
                        "{path}: bound by opcodes; link it for macOS 13 or with -fixup_chains"
                    ));
                }
                0x26 => {
                    let start = u32_at(&bytes, at + 8) as usize;
                    file.function_starts = start..start + u32_at(&bytes, at + 12) as usize;
                }
                0x8000_0028 => file.entry = Some(u64_at(&bytes, at + 8)),
                0x8000_0034 => {
                    chained = Some((
                        u32_at(&bytes, at + 8) as usize,
                        u32_at(&bytes, at + 12) as usize,
                    ))
                }
                _ => {}
            }
            at += size;
        }
        let base = file.base();
        file.entry = file.entry.map(|e| e + base);
        if let Some((offset, size)) = chained {
            let done = file.chains(&bytes, &bytes[offset..offset + size]);
            // Without its pointers, less of a foreign library can be run.
            done.or_else(|why| if foreign { Ok(()) } else { Err(why) })?;
        }
        file.bytes = bytes;
        Ok(file)
    }

    /// Stated address of the header.
    pub fn base(&self) -> u64 {
        self.segment_named("__TEXT").map_or(0, |s| s.svma.start)
    }

    /// The segment of that name.
    pub fn segment_named(&self, name: &str) -> Option<&Segment> {
        self.segments.iter().find(|s| s.name == name)
    }

    /// The section of that name.
    pub fn section(&self, segment: &str, name: &str) -> Option<&Section> {
        self.sections
            .iter()
            .find(|s| s.segment == segment && s.name == name)
    }

    /// A section's bytes.
    pub fn data(&self, section: &Section) -> &[u8] {
        &self.bytes
            [section.offset..section.offset + (section.svma.end - section.svma.start) as usize]
    }

    /// The name of an entry of the indirect symbol table.
    pub fn indirect_symbol(&self, index: usize) -> Option<String> {
        let [symbols, names, indirect] = self.symbol_tables;
        let word = |at: usize| Some(u32_at(self.bytes.get(at..at + 4)?, 0) as usize);
        let name = word(symbols + 16 * word(indirect + 4 * index)?)?;
        Some(text(self.bytes.get(names + name..)?))
    }

    fn segment(&mut self, b: &[u8], at: usize) {
        let (start, size) = (u64_at(b, at + 24), u64_at(b, at + 32));
        let (offset, length) = (u64_at(b, at + 40) as usize, u64_at(b, at + 48) as usize);
        self.segments.push(Segment {
            name: text(&b[at + 8..at + 24]),
            svma: start..start + size,
            file: offset..offset + length,
            protection: u32_at(b, at + 60),
        });
        for k in 0..u32_at(b, at + 64) as usize {
            let at = at + 72 + 80 * k;
            let (start, size) = (u64_at(b, at + 32), u64_at(b, at + 40));
            self.sections.push(Section {
                name: text(&b[at..at + 16]),
                segment: text(&b[at + 16..at + 32]),
                svma: start..start + size,
                offset: u32_at(b, at + 48) as usize,
                flags: u32_at(b, at + 64),
                first_symbol: u32_at(b, at + 68),
                stub_size: u32_at(b, at + 72),
            });
        }
    }

    fn symbol_table(&mut self, b: &[u8], at: usize) {
        let (symbols, count) = (u32_at(b, at + 8) as usize, u32_at(b, at + 12) as usize);
        let strings = u32_at(b, at + 16) as usize;
        for k in 0..count {
            let at = symbols + 16 * k;
            let (kind, value) = (b[at + 4], u64_at(b, at + 8));
            // Neither a debugger's entry nor undefined.
            if kind & 0xe0 != 0 || kind & 0x0e != 0x0e {
                continue;
            }
            let name = text(&b[strings + u32_at(b, at) as usize..]);
            if kind & 1 != 0 {
                self.exports.insert(name.clone(), value);
            }
            self.symbols.push((value, name));
        }
        self.symbols.sort();
    }

    /// `dyld_chained_fixups_header`, pointer formats 2 and 6, imports formats 1 and 2.
    fn chains(&mut self, file: &[u8], b: &[u8]) -> Result<(), String> {
        let (starts, imports, symbols) = (
            u32_at(b, 4) as usize,
            u32_at(b, 8) as usize,
            u32_at(b, 12) as usize,
        );
        let stride = match u32_at(b, 20) {
            1 => 4,
            2 => 8,
            other => {
                return Err(format!(
                    "chained imports of format {other} are not emulated"
                ));
            }
        };
        let import = |k: usize| {
            let word = u32_at(b, imports + stride * k);
            let addend = if stride == 8 {
                u32_at(b, imports + stride * k + 4)
            } else {
                0
            };
            (
                text(&b[symbols + (word >> 9) as usize..]),
                u64::from(addend),
                word >> 8 & 1 == 1,
            )
        };
        for index in 0..u32_at(b, starts) as usize {
            let offset = u32_at(b, starts + 4 + 4 * index) as usize;
            if offset == 0 {
                continue;
            }
            let at = starts + offset;
            let (page, format) = (u64::from(u16_at(b, at + 4)), u16_at(b, at + 6));
            if format != 2 && format != 6 {
                return Err(format!(
                    "chained pointers of format {format} are not emulated"
                ));
            }
            let (svma, from) = (
                self.segments[index].svma.start,
                self.segments[index].file.start,
            );
            for k in 0..u16_at(b, at + 20) as usize {
                let first = u16_at(b, at + 22 + 2 * k);
                if first == 0xffff {
                    continue;
                }
                let mut at = k as u64 * page + u64::from(first);
                loop {
                    let word = u64_at(file, from + at as usize);
                    self.fixups.push(if word >> 63 == 1 {
                        let (name, addend, weak) = import((word & 0xff_ffff) as usize);
                        Fixup::Bind {
                            at: svma + at,
                            name,
                            addend: addend + (word >> 24 & 0xff),
                            weak,
                        }
                    } else {
                        let base = if format == 6 { self.base() } else { 0 };
                        let to = ((word & 0xf_ffff_ffff) + base) | ((word >> 36 & 0xff) << 56);
                        Fixup::Rebase { at: svma + at, to }
                    });
                    let next = word >> 51 & 0xfff;
                    if next == 0 {
                        break;
                    }
                    at += 4 * next;
                }
            }
        }
        Ok(())
    }
}
