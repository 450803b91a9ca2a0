//! Facts of an image besides its symbols: its code, its base, and the function starts of `LC_FUNCTION_STARTS`.

use object::read::elf::{ElfFile, FileHeader};
use object::read::macho::{MachHeader, MachOFile};
use object::{Object as _, ObjectSection};

/// Facts of an image besides its symbols.
#[derive(Debug, Clone, Copy)]
pub struct ObjectFacts<'a> {
    /// Ranges of code, as returned by [`code`].
    pub code: &'a [(u64, u64)],
    /// Link-time address (svma) of `__TEXT`.
    pub base: u64,
    pub has_dwarf: bool,
    pub is_mach_o: bool,
}

impl ObjectFacts<'_> {
    /// The end of the code section that holds `address`.
    pub fn code_end(&self, address: u64) -> Option<u64> {
        let after = self.code.partition_point(|&(start, _)| start <= address);
        // Sections may overlap in damaged files: the nearest one before that contains the address.
        let mut near = self.code[..after].iter().rev().take(4);
        near.find(|&&(_, end)| address < end).map(|&(_, end)| end)
    }
}

/// An object file of one format, or of any. Code that uses the type of one format does not link the readers of the others.
pub trait ImageFile<'data>: object::Object<'data> {
    /// The svmas at which functions start, by `LC_FUNCTION_STARTS`, in order, of an image at `base`; `None`
    /// where the file has no such table.
    fn function_starts(&self, base: u64) -> Option<Vec<u64>>;

    fn is_mach_o(&self) -> bool;
}

impl<'data, H: FileHeader> ImageFile<'data> for ElfFile<'data, H> {
    fn function_starts(&self, _: u64) -> Option<Vec<u64>> {
        None
    }

    fn is_mach_o(&self) -> bool {
        false
    }
}

impl<'data, H: MachHeader> ImageFile<'data> for MachOFile<'data, H> {
    fn function_starts(&self, base: u64) -> Option<Vec<u64>> {
        starts_of(self, base)
    }

    fn is_mach_o(&self) -> bool {
        true
    }
}

#[cfg(feature = "symbolicate")]
impl<'data> ImageFile<'data> for object::File<'data> {
    fn function_starts(&self, base: u64) -> Option<Vec<u64>> {
        match self {
            object::File::MachO64(file) => starts_of(file, base),
            object::File::MachO32(file) => starts_of(file, base),
            _ => None,
        }
    }

    fn is_mach_o(&self) -> bool {
        self.format() == object::BinaryFormat::MachO
    }
}

/// The ranges of svmas that hold code, in order of address.
pub fn code<'data>(file: &impl ImageFile<'data>) -> Vec<(u64, u64)> {
    let mut code: Vec<(u64, u64)> = file
        .sections()
        .filter(is_code)
        .map(|s| (s.address(), s.address().saturating_add(s.size())))
        .filter(|(start, end)| start < end)
        .collect();
    code.sort_unstable();
    // In an object file that was not linked, all sections may be at 0: an address identifies none of them.
    let unlinked = file.kind() == object::ObjectKind::Relocatable;
    if unlinked && code.windows(2).any(|pair| pair[1].0 < pair[0].1) {
        code.clear();
    }
    code.dedup();
    code
}

/// Returns true if the file has DWARF.
pub fn has_dwarf<'data>(file: &impl ImageFile<'data>) -> bool {
    const NAMES: [&str; 4] = [
        ".debug_info",
        "__debug_info",
        ".zdebug_info",
        "__zdebug_info",
    ];
    file.sections().any(|s| {
        let is_info = s.size() > 0 && s.name().is_ok_and(|name| NAMES.contains(&name));
        is_info && s.file_range().is_some()
    })
}

/// Returns true if the section holds instructions. Linker stubs don't count: they have no names of their own, and the
/// last function before them must not lend them its name.
fn is_code<'data>(section: &impl ObjectSection<'data>) -> bool {
    match section.flags() {
        object::SectionFlags::Elf { sh_flags, .. } => {
            sh_flags.contains(object::elf::SHF_EXECINSTR)
                && sh_flags.contains(object::elf::SHF_ALLOC)
                && !matches!(section.name(), Ok(name) if name == ".plt" || name.starts_with(".plt."))
        }
        object::SectionFlags::MachO { flags, .. } => {
            let instructions = object::macho::S_ATTR_PURE_INSTRUCTIONS.0
                | object::macho::S_ATTR_SOME_INSTRUCTIONS.0;
            flags.0 & instructions != 0
                && !matches!(
                    section.name(),
                    Ok("__stubs" | "__stub_helper" | "__auth_stubs")
                )
        }
        _ => false,
    }
}

/// Returns the svmas of `LC_FUNCTION_STARTS`, sorted, for an image at `base`; `None` if there are none.
fn starts_of<M: MachHeader>(file: &MachOFile<'_, M>, base: u64) -> Option<Vec<u64>> {
    let (endian, header, data) = (file.endian(), file.macho_header(), file.data());
    // On 32-bit Arm, the lowest bit marks a function of Thumb instructions.
    let thumb_bit = u64::from(file.architecture() == object::Architecture::Arm);
    let mut commands = header.load_commands(endian, data, 0).ok()?;
    while let Ok(Some(command)) = commands.next() {
        if command.cmd() == object::macho::LC_FUNCTION_STARTS {
            let linkedit: &object::macho::LinkeditDataCommand<_> = command.data().ok()?;
            let starts = linkedit.function_starts(endian, data, base).ok()?;
            let starts: Vec<u64> = starts
                .map_while(Result::ok)
                .map(|start| start & !thumb_bit)
                .collect();
            return (!starts.is_empty()).then_some(starts);
        }
    }
    None
}
