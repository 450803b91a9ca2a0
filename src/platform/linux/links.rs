//! Images that the loader never unmaps.
//!
//! Source: glibc, elf/dl-close.c: images that were loaded with the program (`lt_library`) and those with `DF_1_NODELETE` are
//! not unloaded. musl's dlclose(3) unloads nothing.

use std::collections::HashMap;

use super::memory;

/// The dynamic section's tags that are read (gABI, "Dynamic Section"; `DT_FLAGS_1` of Solaris and GNU).
const NEEDED: i64 = 1;
const STRINGS: i64 = 5;
const OWN_NAME: i64 = 14;
const FLAGS_1: i64 = 0x6fff_fffb;
const NO_DELETE: u64 = 8;

/// Longest name of a library that is read.
const MAX_LIBRARY_NAME: usize = 256;

/// Names of the libraries that the program needs, as far as the images seen so far state them. The loader lists an image
/// after one that needs it.
#[derive(Debug, Default)]
pub(super) struct Needed {
    /// True once an image of that name was seen. A later one of that name is not the one that was needed.
    seen: HashMap<Vec<u8>, bool>,
}

/// An entry of a dynamic section.
pub(super) type Entry = [u64; 2];

impl Needed {
    /// Returns true if the loader never unmaps this image. Call it for each image in the loader's order, while the
    /// loader holds its lock. `stays` is true for images that do in any case, `path` is the loader's name of the image.
    pub(super) fn keeps(
        &mut self,
        stays: bool,
        path: &[u8],
        slide: u64,
        entries: &[Entry],
    ) -> bool {
        let of = |tag: i64| entries.iter().filter(move |[kind, _]| *kind == tag as u64);
        let first = |tag: i64| of(tag).next().map(|[_, value]| *value);
        let strings = first(STRINGS).unwrap_or(0);
        // glibc has relocated the address, musl and the kernel's own image have not.
        let strings = if strings < slide {
            strings.wrapping_add(slide)
        } else {
            strings
        };
        let own = first(OWN_NAME).map(|at| text_at(strings.wrapping_add(at)));
        let file = path.rsplit(|byte| *byte == b'/').next().map(<[u8]>::to_vec);
        let mut is_needed = false;
        for name in own.into_iter().chain(file) {
            if let Some(seen @ false) = self.seen.get_mut(&name) {
                *seen = true;
                is_needed = true;
            }
        }
        let no_delete = first(FLAGS_1).is_some_and(|flags| flags & NO_DELETE != 0);
        let keeps = stays || is_needed || no_delete || cfg!(target_env = "musl");
        if keeps {
            for [_, at] in of(NEEDED) {
                let name = text_at(strings.wrapping_add(*at));
                self.seen.entry(name).or_insert(false);
            }
        }
        keeps
    }
}

/// The text at an address, as far as it can be read.
fn text_at(address: u64) -> Vec<u8> {
    let mut text = vec![0; MAX_LIBRARY_NAME];
    let length = memory::read(address, &mut text);
    let end = text.iter().take(length).position(|byte| *byte == 0);
    text.truncate(end.unwrap_or(0));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A dynamic section by hand, with its strings.
    fn keeps(needed: &mut Needed, stays: bool, path: &str, own: &str, needs: &[&str]) -> bool {
        let mut strings = vec![0];
        let mut add = |text: &str| {
            let at = strings.len() as u64;
            strings.extend(text.bytes().chain([0]));
            at
        };
        let mut entries: Vec<Entry> = needs
            .iter()
            .map(|name| [NEEDED as u64, add(name)])
            .collect();
        if !own.is_empty() {
            entries.push([OWN_NAME as u64, add(own)]);
        }
        strings.resize(strings.len() + MAX_LIBRARY_NAME, 0);
        entries.push([STRINGS as u64, strings.as_ptr() as u64]);
        needed.keeps(stays, path.as_bytes(), 0, &entries)
    }

    #[cfg(not(target_env = "musl"))]
    #[test]
    fn what_the_program_needs_stays_and_what_it_opens_does_not() {
        let mut needed = Needed::default();
        let mut of = |stays, path: &str, own: &str, needs: &[&str]| {
            keeps(&mut needed, stays, path, own, needs)
        };
        assert!(of(true, "", "", &["liba.so.1", "libplain.so", "libc.so.6"]));
        assert!(of(
            false,
            "/lib/liba.so.1.2",
            "liba.so.1",
            &["libdeep.so.2"]
        ));
        assert!(of(false, "/opt/libplain.so", "", &[]));
        assert!(of(false, "/lib/libdeep.so.2", "libdeep.so.2", &[]));
        assert!(!of(
            false,
            "/opt/plugin.so",
            "",
            &["libother.so", "liba.so.1"]
        ));
        assert!(!of(false, "/opt/libother.so", "libother.so", &[]));
        // Another of a name that was seen.
        assert!(!of(false, "/opt/copy/liba.so.1", "liba.so.1", &[]));
    }

    #[test]
    fn an_image_without_a_dynamic_section_needs_nothing() {
        let mut needed = Needed::default();
        assert!(needed.keeps(true, b"", 0, &[]));
        assert_eq!(
            needed.keeps(false, b"/a", 0, &[]),
            cfg!(target_env = "musl")
        );
    }
}
