//! Loads images: maps segments, binds imports, gives each trap its address (`mach-o/dyld.h`).

use std::ops::Range;
use std::path::Path;

use crate::machine::Machine;
use crate::macho::{File, Fixup};

/// A loaded image.
pub struct Image {
    /// The path that dyld gives.
    pub path: String,
    /// The file.
    pub file: File,
    /// avma minus svma.
    pub slide: u64,
    /// Where the guest reads the path; 0 before its query.
    pub name_at: u64,
}

impl Image {
    /// Address of the header.
    pub fn base(&self) -> u64 {
        self.file.base() + self.slide
    }

    /// Where `__TEXT` lies.
    pub fn text(&self) -> Range<u64> {
        let text = self
            .file
            .segment_named("__TEXT")
            .map_or(0..0, |s| s.svma.clone());
        text.start + self.slide..text.end + self.slide
    }

    /// Address of an exported symbol.
    pub fn export(&self, name: &str) -> Option<u64> {
        self.file.exports.get(name).map(|a| a + self.slide)
    }
}

/// The section whose functions are the machine's.
const TRAPS: &str = "__traps";

/// Loads a file and all that it wants, what it wants first. Returns the indices of the new images.
pub fn load(m: &mut Machine, path: &str, name: &str) -> Result<Vec<usize>, String> {
    if m.images.iter().any(|i| i.path == name) {
        return Ok(vec![]);
    }
    let file = File::parse(path)?;
    if file.arm != m.arm {
        return Err(format!("{path}: for the other CPU"));
    }
    let index = m.images.len();
    let wanted = file.libraries.clone();
    let span = file
        .segments
        .iter()
        .filter(|s| s.name != "__PAGEZERO")
        .map(|s| s.svma.end)
        .max()
        .unwrap_or(0);
    // The program at an address of its own, as address space layout randomisation would; libraries
    // where the system's libraries are.
    let slide = if file.kind == 2 {
        0x0400_0000
    } else {
        0x1_9000_0000 + 0x100_0000 * index as u64 - file.base()
    };
    assert!(
        file.kind == 2 || span - file.base() < 0x100_0000,
        "{path} is larger than its place"
    );
    for segment in file
        .segments
        .iter()
        .filter(|s| s.name != "__PAGEZERO" && s.svma.end > s.svma.start)
    {
        let at = segment.svma.start + slide;
        m.memory.map(
            &mut m.uc,
            Some(at),
            segment.svma.end - segment.svma.start,
            segment.protection,
        );
        let bytes = file.bytes[segment.file.clone()].to_vec();
        m.write(at, &bytes);
    }
    if let Some(section) = file.section("__TEXT", TRAPS) {
        let range = section.svma.start + slide..section.svma.end + slide;
        for (address, symbol) in file.symbols.iter().filter(|s| section.svma.contains(&s.0)) {
            m.traps.insert(address + slide, symbol.clone());
        }
        let arm = m.arm;
        m.uc.add_code_hook(range.start, range.end - 1, move |uc, pc, _| {
            let mut now = crate::cpu::registers(uc, arm);
            now.pc = pc;
            let stopped = uc.get_data_mut();
            if stopped.watching {
                stopped.shadow.settle(arm, now);
            }
            stopped.trap = Some(pc);
            let _ = uc.emu_stop();
        })
        .map_err(|e| format!("{path}: {e:?}"))?;
    }
    m.images.push(Image {
        path: name.into(),
        file,
        slide,
        name_at: 0,
    });
    let mut new = vec![];
    for library in wanted {
        if m.images
            .iter()
            .any(|i| i.path == library || i.file.id.as_ref() == Some(&library))
        {
            continue;
        }
        let found = find(m, &library).ok_or_else(|| format!("{path}: no library {library}"))?;
        new.extend(load(m, &found, &library)?);
    }
    bind(m, index)?;
    new.push(index);
    Ok(new)
}

/// Takes the image away that was loaded last; false where it is another one.
pub fn unload(m: &mut Machine, index: usize) -> bool {
    if index + 1 != m.images.len() {
        return false;
    }
    let Some(image) = m.images.pop() else {
        return false;
    };
    for segment in image.file.segments.iter() {
        if segment.name != "__PAGEZERO" {
            let size = segment.svma.end - segment.svma.start;
            m.memory
                .unmap(&mut m.uc, segment.svma.start + image.slide, size);
        }
    }
    true
}

/// A library's file: by its whole name below a folder of the path, or by its last component.
pub fn find(m: &Machine, name: &str) -> Option<String> {
    let last = Path::new(name).file_name()?;
    let folders = m.library_path.iter();
    let mut tried = folders
        .map(|f| Path::new(f).join(last))
        .chain(std::iter::once(name.into()));
    tried
        .find(|p| p.is_file())
        .map(|p| p.to_string_lossy().into_owned())
}

fn bind(m: &mut Machine, index: usize) -> Result<(), String> {
    let slide = m.images[index].slide;
    let fixups = std::mem::take(&mut m.images[index].file.fixups);
    for fixup in &fixups {
        match fixup {
            Fixup::Rebase { at, to } => {
                m.write_u64(at + slide, to + slide);
            }
            Fixup::Bind {
                at,
                name,
                addend,
                weak,
            } => {
                let address = match resolve(m, name) {
                    Some(address) => address + addend,
                    None if *weak => 0,
                    None => unknown(m, name),
                };
                m.write_u64(at + slide, address);
            }
        }
    }
    // Thread-local variables: the key of a descriptor {thunk, key, offset} is its image.
    let variables: Vec<_> = m.images[index]
        .file
        .sections
        .iter()
        .filter(|s| s.kind() == 0x13)
        .map(|s| s.svma.clone())
        .collect();
    for descriptor in variables.into_iter().flat_map(|r| r.step_by(24)) {
        m.write_u64(descriptor + slide + 8, index as u64 + 1);
    }
    // What was writable only for the fixing of pointers.
    let constant = m.images[index]
        .file
        .segment_named("__DATA_CONST")
        .map(|s| s.svma.clone());
    if let Some(range) = constant {
        m.memory
            .protect(&mut m.uc, range.start + slide, range.end - range.start, 1);
    }
    Ok(())
}

/// Address of a symbol in any image.
pub fn resolve(m: &Machine, name: &str) -> Option<u64> {
    m.images.iter().find_map(|i| i.export(name))
}

/// An address that stops the process by the symbol's name as soon as it is called.
fn unknown(m: &mut Machine, name: &str) -> u64 {
    if let Some((address, _)) = m.traps.iter().find(|t| t.1 == name) {
        return *address;
    }
    let page = m.memory.map(&mut m.uc, None, 16, 5);
    // A return instruction, never executed.
    m.write(
        page,
        if m.arm {
            &[0xc0, 0x03, 0x5f, 0xd6]
        } else {
            &[0xc3]
        },
    );
    m.traps.insert(page, name.into());
    let _ = m.uc.add_code_hook(page, page + 3, |uc, pc, _| {
        uc.get_data_mut().trap = Some(pc);
        let _ = uc.emu_stop();
    });
    page
}
