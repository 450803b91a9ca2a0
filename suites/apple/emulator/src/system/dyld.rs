//! What dyld knows (`mach-o/dyld.h`, `mach-o/dyld_priv.h`, `dlfcn.h`): images, symbols, thread-local
//! blocks. Callbacks and initialisers are called by guest code in `system/dyld.c`.

use crate::loader;
use crate::machine::{Machine, Outcome};

/// Plays its functions.
pub fn call(m: &mut Machine, name: &str, a: &[u64; 8]) -> Option<Outcome> {
    let image = |m: &Machine, index: u64| (index as u32 as usize) < m.images.len();
    Some(Outcome::Return(match name {
        "_dyld_image_count" => m.images.len() as u64,
        "_dyld_get_image_header" if image(m, a[0]) => m.images[a[0] as u32 as usize].base(),
        "_dyld_get_image_vmaddr_slide" if image(m, a[0]) => m.images[a[0] as u32 as usize].slide,
        "_dyld_get_image_name" if image(m, a[0]) => name_of(m, a[0] as u32 as usize),
        "_dyld_get_image_header" | "_dyld_get_image_vmaddr_slide" | "_dyld_get_image_name" => 0,
        // (address, struct dyld_unwind_sections {header, dwarf, length, compact, length})
        "_dyld_find_unwind_sections" => {
            let Some(found) = m.images.iter().find(|i| i.text().contains(&a[0])) else {
                return Some(Outcome::Return(0));
            };
            let mut words = vec![found.base()];
            for section in ["__eh_frame", "__unwind_info"] {
                let range = found
                    .file
                    .section("__TEXT", section)
                    .map(|s| s.svma.clone());
                words.push(range.clone().map_or(0, |r| r.start + found.slide));
                words.push(range.map_or(0, |r| r.end - r.start));
            }
            for (k, word) in words.into_iter().enumerate() {
                m.write_u64(a[1] + 8 * k as u64, word);
            }
            1
        }
        // (address, Dl_info {fname, fbase, sname, saddr})
        "dladdr" => {
            let Some(index) = m.images.iter().position(|i| i.text().contains(&a[0])) else {
                return Some(Outcome::Return(0));
            };
            let name = name_of(m, index);
            let base = m.images[index].base();
            for (k, word) in [name, base, 0, 0].into_iter().enumerate() {
                m.write_u64(a[1] + 8 * k as u64, word);
            }
            1
        }
        // (handle, name)
        "dlsym" => {
            let name = format!("_{}", m.read_text(a[1]));
            loader::resolve(m, &name).unwrap_or(0)
        }
        // (path): index of the first new image, or of none
        "__emulator_open" => {
            let path = m.read_text(a[0]);
            let before = m.images.len();
            let found = loader::find(m, &path).ok_or_else(|| "not found".to_string());
            match found.and_then(|file| loader::load(m, &file, &path)) {
                Ok(_) => before as u64,
                Err(why) => {
                    eprintln!("emulator: dlopen({path}): {why}");
                    u64::MAX
                }
            }
        }
        // (image): whether it is gone. Only the one that came last goes, so that the others keep
        // their numbers.
        "__emulator_close" => u64::from(loader::unload(m, a[0] as usize)),
        // (image, k): the k-th initialiser, or 0
        "__emulator_initializer" => initializer(m, a[0] as usize, a[1]),
        "__tlv_bootstrap" | "_tlv_bootstrap" => local(m, a[0]),
        _ => return None,
    }))
}

fn name_of(m: &mut Machine, index: usize) -> u64 {
    if m.images[index].name_at == 0 {
        let text = [m.images[index].path.as_bytes(), &[0]].concat();
        let Machine { memory, uc, .. } = m;
        let at = memory.map(uc, None, text.len() as u64, 3);
        m.write(at, &text);
        m.images[index].name_at = at;
    }
    m.images[index].name_at
}

fn initializer(m: &Machine, index: usize, k: u64) -> u64 {
    let image = &m.images[index];
    // S_MOD_INIT_FUNC_POINTERS 9, S_INIT_FUNC_OFFSETS 0x16
    for section in &image.file.sections {
        let at = section.svma.start + image.slide;
        let size = section.svma.end - section.svma.start;
        match section.kind() {
            9 if 8 * k < size => return m.read_u64(at + 8 * k).unwrap_or(0),
            0x16 if 4 * k < size => {
                return image.base() + u64::from(m.read_u32(at + 4 * k).unwrap_or(0));
            }
            _ => {}
        }
    }
    0
}

/// The address of a thread-local variable, by its descriptor {thunk, key, offset}.
fn local(m: &mut Machine, descriptor: u64) -> u64 {
    let key = m.read_u64(descriptor + 8).unwrap_or(0) as usize;
    let offset = m.read_u64(descriptor + 16).unwrap_or(0);
    let current = m.current;
    if let Some(block) = m.threads[current].locals.get(&key) {
        return block + offset;
    }
    // S_THREAD_LOCAL_REGULAR 0x11, S_THREAD_LOCAL_ZEROFILL 0x12
    let file = &m.images[key - 1].file;
    let sections: Vec<_> = file
        .sections
        .iter()
        .filter(|s| matches!(s.kind(), 0x11 | 0x12))
        .collect();
    let start = sections.iter().map(|s| s.svma.start).min().unwrap_or(0);
    let end = sections.iter().map(|s| s.svma.end).max().unwrap_or(0);
    let mut bytes = vec![0; (end - start) as usize];
    for section in sections.iter().filter(|s| s.kind() == 0x11) {
        let data = file.data(section);
        bytes[(section.svma.start - start) as usize..][..data.len()].copy_from_slice(data);
    }
    let Machine { memory, uc, .. } = m;
    let block = memory.map(uc, None, bytes.len() as u64, 3);
    m.write(block, &bytes);
    m.threads[current].locals.insert(key, block);
    block + offset
}
