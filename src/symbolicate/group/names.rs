//! Names without what compilers and languages add to them.

use crate::symbolicate::frame::Frame;

/// Functions that languages and this recorder put into every app.
pub(super) fn is_runtime(frame: &Frame, name: &str) -> bool {
    let from_library = frame.file.as_deref().is_some_and(|file| {
        file.starts_with("/rustc/") || file.contains("/lib/rustlib/src/rust/library/")
    });
    const PREFIXES: [&str; 16] = [
        "std::",
        "core::",
        "alloc::",
        "<core::",
        "<alloc::",
        "<std::",
        "__rust_",
        "rust_begin_unwind",
        "rust_panic",
        "__cxa_",
        "__libc_",
        "wedjat::",
        "<wedjat::",
        "thunk for @",
        "partial apply for",
        "__CFRUNLOOP_IS_",
    ];
    from_library || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

pub(super) fn is_entry(name: &str) -> bool {
    matches!(
        name,
        "main" | "_main" | "start" | "_start" | "static" | "thread_start" | "start_thread"
    ) || name.ends_with("::main")
        || name.ends_with(".main()")
        || name.ends_with(".$main() -> ()")
}

/// The name without what a compiler appended.
pub(super) fn plain_name(name: &str) -> String {
    let mut name = name;
    for mark in [
        ".llvm.",
        ".cold",
        ".isra.",
        ".part.",
        ".constprop.",
        ".lto_priv.",
        " [clone ",
    ] {
        if let Some(at) = name.find(mark).filter(|at| *at > 0) {
            name = &name[..at];
        }
    }
    if let Some((front, hash)) = name.rsplit_once("::h")
        && hash.len() == 16
        && hash.bytes().all(|c| c.is_ascii_hexdigit())
    {
        name = front;
    }
    if let Some((front, number)) = name.rsplit_once("_block_invoke")
        && number
            .trim_start_matches(['_', '.'])
            .bytes()
            .all(|c| c.is_ascii_digit())
    {
        name = &name[..front.len() + "_block_invoke".len()];
    }
    let mut plain = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find("{closure#") {
        plain.push_str(&rest[..at]);
        plain.push_str("{closure");
        rest = rest[at + "{closure#".len()..].trim_start_matches(|c: char| c.is_ascii_digit());
    }
    plain.push_str(rest);
    plain.replace("{{closure}}", "{closure}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_compilers_append_is_cut_off() {
        assert_eq!(plain_name("app::freeze.llvm.12345"), "app::freeze");
        assert_eq!(plain_name("app::freeze::h0123456789abcdef"), "app::freeze");
        assert_eq!(
            plain_name("app::run::{closure#3}::go"),
            "app::run::{closure}::go"
        );
        assert_eq!(plain_name("app::run::{{closure}}"), "app::run::{closure}");
        assert_eq!(
            plain_name("__34-[A b]_block_invoke_2"),
            "__34-[A b]_block_invoke"
        );
        assert_eq!(plain_name("a::h"), "a::h");
    }
}
