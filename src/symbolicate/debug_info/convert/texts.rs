//! Names and paths as they lie in the cache, and back.

use std::borrow::Cow;

use rustc_hash::FxHashMap;
use symbolic::symcache::transform;

use crate::symbolicate::debug_info::direct::{is_hidden, is_hidden_file};
use crate::symbolicate::debug_info::names;
use crate::symbolicate::debug_info::symbols::Named;

/// A symbol's name with the mark that [`stored`] knows it by, and its relative address.
pub(super) fn marked(symbol: &Named<'_>, base: u64) -> String {
    format!("\0{:x}\0{}", symbol.entry.wrapping_sub(base), symbol.name)
}

/// A name as it lies in the cache: as the file has it, then demangled if that differs, then for a
/// symbol its relative address; with a zero between them, which no name has.
pub(super) fn stored(name: &str) -> String {
    let marked = name
        .strip_prefix('\0')
        .and_then(|rest| rest.split_once('\0'));
    let (entry, name) = marked.map_or((None, name), |(entry, name)| (Some(entry), name));
    if is_hidden(name) {
        return String::new();
    }
    match (names::demangle(name), entry) {
        (Cow::Borrowed(_), None) => name.to_owned(),
        (Cow::Borrowed(_), Some(entry)) => format!("{name}\0\0{entry}"),
        (Cow::Owned(demangled), None) => format!("{name}\0{demangled}"),
        (Cow::Owned(demangled), Some(entry)) => format!("{name}\0{demangled}\0{entry}"),
    }
}

/// The name, its demangled form and where a symbol lies, of what [`stored`] gave.
pub(crate) fn restored(text: &str) -> (&str, &str, Option<u64>) {
    let mut parts = text.split('\0');
    let name = parts.next().unwrap_or_default();
    let demangled = parts.next().filter(|text| !text.is_empty());
    let entry = parts.next().map(|text| u64::from_str_radix(text, 16));
    (name, demangled.unwrap_or(name), entry.and_then(Result::ok))
}

/// Texts as they are stored: names, and paths joined as the compiler meant them.
#[derive(Default)]
pub(super) struct Texts {
    names: FxHashMap<Box<str>, Box<str>>,
    /// By where the folder compiled in, the folder and the file's name stand in the DWARF.
    paths: FxHashMap<[(usize, usize); 3], Box<str>>,
}

/// In place of `/` and `\` in a stored path: symbolic would resolve `..`, which a link makes another file of.
const SLASHES: [(char, char); 2] = [('/', '\u{1}'), ('\\', '\u{2}')];

impl transform::Transformer for Texts {
    fn transform_function<'f>(
        &'f mut self,
        mut function: transform::Function<'f>,
    ) -> transform::Function<'f> {
        if !self.names.contains_key(&*function.name) {
            let text = stored(&function.name).into();
            self.names.insert((*function.name).into(), text);
        }
        function.name = Cow::Borrowed(&self.names[&*function.name]);
        function
    }

    fn transform_source_location<'f>(
        &'f mut self,
        mut location: transform::SourceLocation<'f>,
    ) -> transform::SourceLocation<'f> {
        let file = &mut location.file;
        let (base, folder) = (file.comp_dir.take(), file.directory.take());
        let parts = [base.as_ref(), folder.as_ref(), Some(&file.name)];
        // Text that is not UTF-8 is in memory of its own, of which another text may take the place.
        let kept = |part: &Option<&Cow<'_, str>>| !matches!(part, Some(Cow::Owned(_)));
        let [base, folder, name] = parts.map(|part| part.map_or("", |part| &**part));
        if parts.iter().all(kept) {
            let key = [base, folder, name].map(|part| (part.as_ptr() as usize, part.len()));
            let path = self.paths.entry(key);
            let path = path.or_insert_with(|| stored_path(base, folder, name).into());
            file.name = Cow::Borrowed(path);
        } else {
            file.name = Cow::Owned(stored_path(base, folder, name));
        }
        location
    }
}

fn stored_path(base: &str, folder: &str, name: &str) -> String {
    if name.is_empty() || is_hidden_file(name) {
        return String::new();
    }
    let mut path = base.to_owned();
    // Folder 0 of DWARF 5 is the one compiled in, again: it may be a relative one.
    if folder != base {
        push(&mut path, folder);
    }
    push(&mut path, name);
    let slash = |at: char| SLASHES.iter().find(|(slash, _)| *slash == at);
    let stored = path.chars().map(|at| slash(at).map_or(at, |found| found.1));
    stored.collect()
}

/// The path that a stored one stands for.
pub(crate) fn restored_path(path: &str) -> String {
    let slash = |at: char| SLASHES.iter().find(|(_, instead)| *instead == at);
    let restored = path.chars().map(|at| slash(at).map_or(at, |found| found.0));
    restored.collect()
}

/// Joins Unix or Windows paths, whatever system this is.
fn push(path: &mut String, part: &str) {
    if part.is_empty() {
        return;
    }
    if is_absolute(part) || path.is_empty() {
        part.clone_into(path);
        return;
    }
    let windows = path.as_bytes().get(1) == Some(&b':') || path.starts_with('\\');
    if !path.ends_with(['/', '\\']) {
        path.push(if windows { '\\' } else { '/' });
    }
    path.push_str(part);
}

fn is_absolute(path: &str) -> bool {
    let bytes = path.as_bytes();
    matches!(bytes.first(), Some(b'/' | b'\\'))
        || (bytes.first().is_some_and(u8::is_ascii_alphabetic)
            && bytes.get(1) == Some(&b':')
            && matches!(bytes.get(2), Some(b'/' | b'\\')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_join_as_the_compiler_meant() {
        let joined = |base: &str, part: &str| {
            let mut path = base.to_owned();
            push(&mut path, part);
            path
        };
        assert_eq!(joined("/build", "src/a.c"), "/build/src/a.c");
        assert_eq!(joined("/build", "/abs/a.c"), "/abs/a.c");
        assert_eq!(joined("C:\\build", "a.c"), "C:\\build\\a.c");
        assert_eq!(joined("", "a.c"), "a.c");
    }

    #[test]
    fn names_come_back_as_they_went() {
        assert_eq!(restored(&stored("main")), ("main", "main", None));
        assert_eq!(
            restored(&stored("\0a1\0main")),
            ("main", "main", Some(0xa1))
        );
        let mangled = "_ZN3foo3barEv";
        assert_eq!(restored(&stored(mangled)), (mangled, "foo::bar()", None));
        let path = stored_path("C:\\build", "../src", "a.c");
        assert_eq!(restored_path(&path), "C:\\build\\../src\\a.c");
    }
}
