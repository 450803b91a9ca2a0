//! Names of functions from the images' own symbol tables, looked up after the thread runs again.

use std::ffi::CString;
use std::path::Path;

use object::{Object, ObjectSymbol, SymbolKind};

use crate::capture::{ImagesGuard, LoadedImage};
use crate::platform::images::OWN_FILE;
use crate::platform::memory::FileMap;
use crate::report::{Found, RawFrame};

/// The functions of the images that were asked for.
#[derive(Debug, Default)]
pub(super) struct Names {
    images: Vec<(u64, Vec<Function>)>,
}

/// A function as its image's symbol table has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Function {
    /// Stated address and the one behind its end.
    start: u64,
    end: u64,
    name: String,
}

impl Names {
    /// The name of the function that a frame is in, as the symbol table writes it, and how far in;
    /// `None` where no symbol covers the address. Allocates.
    pub fn of(&mut self, frame: &RawFrame, images: &ImagesGuard) -> Option<(&str, u64)> {
        // A call may be the last instruction of its function.
        let back = u64::from(frame.found != Found::Context);
        let image = images.find(frame.pc.wrapping_sub(back))?;
        let image = images.images().get(image as usize)?;
        let functions = self.functions(image);
        let svma = image.svma(frame.pc);
        let wanted = svma.wrapping_sub(back);
        let after = functions.partition_point(|function| function.start <= wanted);
        let function = functions.get(after.checked_sub(1)?)?;
        (wanted < function.end).then(|| (&*function.name, svma - function.start))
    }

    fn functions(&mut self, image: &LoadedImage) -> &[Function] {
        let known = self.images.iter().position(|(base, _)| *base == image.base);
        let place = known.unwrap_or_else(|| {
            let functions = read(image).unwrap_or_default();
            self.images.push((image.base, functions));
            self.images.len() - 1
        });
        self.images
            .get(place)
            .map_or(&[], |(_, functions)| functions)
    }
}

/// The functions of an image's file, if it is the file that was loaded.
fn read(image: &LoadedImage) -> Option<Vec<Function>> {
    let mut own = OWN_FILE.into_iter().filter(|path| Path::new(path).exists());
    let path = match own.next() {
        Some(own) if image.main => own,
        _ => &image.name,
    };
    let map = FileMap::open(&CString::new(path).ok()?).ok()?;
    let file = object::File::parse(map.as_ref()).ok()?;
    let id = match file.mach_uuid().ok().flatten() {
        Some(uuid) => uuid.to_vec(),
        None => file.build_id().ok().flatten().unwrap_or_default().to_vec(),
    };
    if id != image.id {
        return None;
    }
    let mut functions: Vec<Function> = file
        .symbols()
        .chain(file.dynamic_symbols())
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
        .filter_map(|symbol| {
            Some(Function {
                start: symbol.address(),
                end: symbol.address().checked_add(symbol.size())?,
                name: symbol
                    .name()
                    .ok()
                    .filter(|name| !name.is_empty())?
                    .to_owned(),
            })
        })
        .collect();
    // Of several names for one function, the longest reach first, then the shortest word.
    functions.sort_by(|one, other| {
        let order =
            (one.start, other.end, one.name.len()).cmp(&(other.start, one.end, other.name.len()));
        order.then_with(|| one.name.cmp(&other.name))
    });
    functions.dedup_by_key(|function| function.start);
    // Mach-O states no sizes: such a function ends where the next begins.
    let starts: Vec<u64> = functions.iter().map(|function| function.start).collect();
    for (function, next) in functions.iter_mut().zip(starts.iter().skip(1)) {
        if function.end == function.start && cfg!(target_vendor = "apple") {
            function.end = *next;
        }
    }
    Some(functions)
}

/// One frame in a line: image, address, and the function or else where in the image.
pub(super) fn line(names: &mut Names, frame: &RawFrame, images: &ImagesGuard) -> String {
    let back = u64::from(frame.found != Found::Context);
    let image = images.find(frame.pc.wrapping_sub(back));
    let Some(image) = image.and_then(|image| images.images().get(image as usize)) else {
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
