//! The memory and the images of a traced process.

use std::collections::HashMap;
use std::sync::Arc;

use framehop::x86_64::UnwinderX86_64;
use framehop::{ExplicitModuleSectionInfo, Module, MustNotAllocateDuringUnwind, Unwinder as _};
use object::{Object, ObjectSection, ObjectSegment};
use wedjat::unwind::{Bytes, Images, LoadedImage, Memory, Missing, Section};

/// Words of another process, a part of a page at a time.
#[derive(Clone)]
pub struct Remote {
    pid: i32,
    base: u64,
    kept: Vec<u8>,
}

impl Remote {
    pub fn new(pid: i32) -> Remote {
        Remote {
            pid,
            base: 0,
            kept: Vec::new(),
        }
    }

    pub fn forget(&mut self) {
        self.kept.clear();
    }

    pub fn bytes(&self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0u8; length];
        let local = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: length,
        };
        let remote = libc::iovec {
            iov_base: address as *mut _,
            iov_len: length,
        };
        // SAFETY: one local buffer of the length given; the kernel checks the other side.
        let got = unsafe { libc::process_vm_readv(self.pid, &local, 1, &remote, 1, 0) };
        bytes.truncate(usize::try_from(got).unwrap_or(0));
        bytes
    }
}

impl Memory for Remote {
    fn read(&mut self, address: u64) -> Result<u64, Missing> {
        for _ in 0..2 {
            if let Some(offset) = address.checked_sub(self.base)
                && let Some(word) = self.kept.get(offset as usize..offset as usize + 8)
            {
                return Ok(u64::from_le_bytes(
                    word.try_into().map_err(|_| Missing::Unreadable)?,
                ));
            }
            self.base = address.saturating_sub(64);
            self.kept = self.bytes(self.base, 1024);
        }
        Err(Missing::Unreadable)
    }
}

/// What is mapped, as both unwinders take it.
pub struct Mapped {
    pub images: Images,
    pub framehop: UnwinderX86_64<Bytes, MustNotAllocateDuringUnwind>,
    names: Vec<(u64, u64, String)>,
    maps: String,
    files: HashMap<String, Arc<Vec<u8>>>,
}

impl Mapped {
    pub fn new() -> Mapped {
        Mapped {
            images: Images::new(Vec::new()),
            framehop: UnwinderX86_64::new(),
            names: Vec::new(),
            maps: String::new(),
            files: HashMap::new(),
        }
    }

    /// The file that an address lies in.
    pub fn name(&self, address: u64) -> &str {
        let found = self
            .names
            .iter()
            .find(|(start, end, _)| (*start..*end).contains(&address));
        found.map_or("?", |(_, _, name)| name)
    }

    /// An address as its file's name and the address stated there.
    pub fn place(&self, address: u64) -> String {
        let name = self.name(address);
        let image = self.images.find(address);
        let image = image.and_then(|index| self.images.list().get(index as usize));
        let stated = image.map_or(address, |image| image.svma(address));
        format!("{}+{stated:#x}", name.rsplit('/').next().unwrap_or(name))
    }

    /// Reads the map anew; parses the files of executable mappings.
    pub fn refresh(&mut self, remote: &Remote) {
        let maps =
            std::fs::read_to_string(format!("/proc/{}/maps", remote.pid)).unwrap_or_default();
        if maps == self.maps {
            return;
        }
        self.names.clear();
        // AT_ENTRY and AT_BASE: where the kernel enters the process.
        let auxiliary = std::fs::read(format!("/proc/{}/auxv", remote.pid)).unwrap_or_default();
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        let entered: Vec<u64> = auxiliary
            .chunks_exact(16)
            .filter(|pair| [7, 9].contains(&number(&pair[..8])))
            .map(|pair| number(&pair[8..]))
            .collect();
        let mut bases: HashMap<String, u64> = HashMap::new();
        let mut loaded = Vec::new();
        self.framehop = UnwinderX86_64::new();
        for line in maps.lines() {
            let mut fields = line.split_ascii_whitespace();
            let Some((start, end)) = fields.next().and_then(|range| range.split_once('-')) else {
                continue;
            };
            let hex = |text| u64::from_str_radix(text, 16).unwrap_or(0);
            let (start, end) = (hex(start), hex(end));
            let executable = fields.next().is_some_and(|access| access.contains('x'));
            let name = fields.nth(3).unwrap_or("").to_string();
            if !name.starts_with('/') && name != "[vdso]" {
                continue;
            }
            self.names.push((start, end, name.clone()));
            let base = *bases.entry(name.clone()).or_insert(start);
            if executable {
                let data = self.files.entry(name.clone()).or_insert_with(|| {
                    Arc::new(if name == "[vdso]" {
                        remote.bytes(start, (end - start) as usize)
                    } else {
                        std::fs::read(&name).unwrap_or_default()
                    })
                });
                loaded.extend(load(
                    &name,
                    base,
                    data.clone(),
                    &entered,
                    &mut self.framehop,
                ));
            }
        }
        self.images = Images::new(loaded);
        self.maps = maps;
    }
}

fn load(
    name: &str,
    base: u64,
    data: Arc<Vec<u8>>,
    entered: &[u64],
    framehop: &mut UnwinderX86_64<Bytes, MustNotAllocateDuringUnwind>,
) -> Option<LoadedImage> {
    let all = Bytes::new(data.clone());
    let file = object::File::parse(&**data).ok()?;
    let stated = file
        .segments()
        .map(|segment| segment.address() & !0xfff)
        .min()?;
    let end = file
        .segments()
        .map(|segment| segment.address() + segment.size())
        .max()?;
    let section = |name: &str| {
        let section = file.section_by_name(name)?;
        let (start, length) = section.file_range()?;
        let bytes = all.slice(start as usize..(start + length) as usize)?;
        Some(Section::new(section.address(), bytes))
    };
    let range = |section: &Section| section.svma..section.svma + section.bytes.len() as u64;
    let code = file
        .sections()
        .filter(|section| section.kind() == object::SectionKind::Text)
        .map(|section| section.address()..section.address() + section.size())
        .collect();
    let mut image = LoadedImage::new(name, base, stated, end - stated).with_code(code);
    if entered.iter().any(|at| image.contains(*at)) {
        image = image.with_entry(file.entry());
    }
    for name in [".text", ".plt", ".plt.sec", ".plt.got", ".init", ".fini"] {
        if let Some(text) = section(name) {
            image = image.with_text(text);
        }
    }
    let eh_frame = section(".eh_frame");
    let header = section(".eh_frame_hdr");
    framehop.add_module(Module::new(
        name.to_string(),
        base..base + (end - stated),
        base,
        ExplicitModuleSectionInfo {
            base_svma: stated,
            text_svma: section(".text").as_ref().map(range),
            text: section(".text").map(|section| section.bytes),
            got_svma: section(".got").as_ref().map(range),
            eh_frame_svma: eh_frame.as_ref().map(range),
            eh_frame: eh_frame.as_ref().map(|section| section.bytes.clone()),
            eh_frame_hdr_svma: header.as_ref().map(range),
            eh_frame_hdr: header.as_ref().map(|section| section.bytes.clone()),
            ..Default::default()
        },
    ));
    Some(match eh_frame {
        Some(eh_frame) => image.with_eh_frame(eh_frame, header),
        None => image,
    })
}
