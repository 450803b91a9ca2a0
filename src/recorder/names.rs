//! Names of functions from the images' own symbol tables, looked up after the thread runs again.

use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;

use object::Object as _;

use crate::capture::{ImagesGuard, LoadedImage};
use crate::functions::{self, ImageFile as _, ObjectFacts, Symbols};
use crate::platform::images::{NativeFile, OWN_FILE};
use crate::platform::memory::FileMap;
use crate::report::{Found, RawFrame};

/// The functions of the images that frames lie in.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// By serial number.
    images: Vec<(u32, Option<Symbols<MappedImage>>)>,
}

/// A mapped file, of which names are read when they are needed.
#[derive(Debug, Clone)]
struct MappedImage(Arc<FileMap>);

impl AsRef<[u8]> for MappedImage {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl Names {
    /// The name of the function that a frame is in, as the symbol table writes it, and how far in;
    /// `None` where no symbol covers the address. Allocates.
    pub fn of(&mut self, frame: &RawFrame, images: &ImagesGuard) -> Option<(&str, u64)> {
        // A call may be the last instruction of its function.
        let back = u64::from(frame.found != Found::Context);
        let image = images.image_of(frame)?;
        let svma = image.svma(frame.pc);
        let named = self.symbols(image)?.at(svma.wrapping_sub(back))?;
        Some((named.name, svma.wrapping_sub(named.entry)))
    }

    fn symbols(&mut self, image: &LoadedImage) -> Option<&Symbols<MappedImage>> {
        let known = self
            .images
            .iter()
            .position(|(serial, _)| *serial == image.serial);
        let place = known.unwrap_or_else(|| {
            self.images.push((image.serial, read(image)));
            self.images.len().saturating_sub(1)
        });
        self.images.get(place)?.1.as_ref()
    }
}

/// The symbols of an image's file, if it is the file that was loaded.
fn read(image: &LoadedImage) -> Option<Symbols<MappedImage>> {
    let mut own = OWN_FILE.into_iter().filter(|path| Path::new(path).exists());
    let path = match own.next() {
        Some(own) if image.main => own,
        _ => &image.name,
    };
    let map = FileMap::open(&CString::new(path).ok()?).ok()?;
    let map = MappedImage(Arc::new(map));
    let file = NativeFile::parse(map.as_ref()).ok()?;
    let id = match file.mach_uuid().ok().flatten() {
        Some(uuid) => uuid.to_vec(),
        None => file.build_id().ok().flatten().unwrap_or_default().to_vec(),
    };
    if id != image.id {
        return None;
    }
    let code = functions::code(&file);
    let object = ObjectFacts {
        code: &code,
        base: image.base_svma,
        has_dwarf: functions::has_dwarf(&file),
        is_mach_o: file.is_mach_o(),
    };
    Some(Symbols::read(&file, &object, map.clone()))
}

/// One frame in a line: image, address, and the function or else where in the image.
pub(super) fn line(names: &mut Names, frame: &RawFrame, images: &ImagesGuard) -> String {
    let Some(image) = images.image_of(frame) else {
        return format!("??? {:#018x}", frame.pc);
    };
    let file = Path::new(&image.name).file_name();
    let file = file.map_or_else(
        || image.name.clone(),
        |file| file.to_string_lossy().into_owned(),
    );
    match names.of(frame, images) {
        Some((name, offset)) => {
            let name = format!("{:#}", rustc_demangle::demangle(name));
            format!("{file} {:#018x} {name} + {offset}", frame.pc)
        }
        None => format!(
            "{file} {:#018x} {file} + {}",
            frame.pc,
            frame.pc.wrapping_sub(image.base)
        ),
    }
}
