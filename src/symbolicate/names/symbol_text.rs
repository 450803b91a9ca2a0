//! Symbols in reports of other recorders: each is a function's name, a trap's message, or nothing.

use super::swift_text;

/// Bytes after a symbol up to which it names the function. A symbol table without local symbols names the last
/// export before an address, however far away.
const MAX_DISTANCE: u64 = 64 << 10;

/// Returns the function's name that `symbol` is, `offset` bytes before the frame's address; `None` if it is no name.
pub(crate) fn function(symbol: &str, offset: Option<u64>) -> Option<&str> {
    let name = without_line(symbol.trim());
    let is_near = offset.is_none_or(|offset| offset <= MAX_DISTANCE);
    (is_near && !is_placeholder(name) && trap_message(name).is_none()).then_some(name)
}

/// Returns true for a text that recorders write where they know no function: placeholders, the Mach-O header's
/// symbol, an id or an address, names hidden for upload.
fn is_placeholder(name: &str) -> bool {
    #[rustfmt::skip]
    const PLACEHOLDERS: [&str; 13] = [
        "", "???", "??", "?", "(null)", "<null>", "<redacted>", "<unknown>", "<unavailable>",
        "<deduplicated_symbol>", "unknown", "redacted", "__dso_handle",
    ];
    let word = name.trim_start_matches('_');
    let is_header = word.starts_with("mh_") && word.ends_with("_header");
    is_header
        || PLACEHOLDERS.contains(&name)
        || name.starts_with("__hidden#")
        || is_uuid(name)
        || is_address(name)
}

/// Returns true for hexadecimal digits after `0x`.
pub(crate) fn is_address(word: &str) -> bool {
    word.len() > 2 && word.starts_with("0x") && word[2..].bytes().all(|c| c.is_ascii_hexdigit())
}

/// Eight, four, four, four and twelve hexadecimal digits.
fn is_uuid(name: &str) -> bool {
    let lengths = name.split('-').map(str::len);
    let is_hex = |c: u8| c.is_ascii_hexdigit() || c == b'-';
    name.len() == 36 && lengths.eq([8, 4, 4, 4, 12]) && name.bytes().all(is_hex)
}

/// Returns the message of a compiler's trap, which debug information has as an inlined function:
/// `__clang_trap_msg$libc++$index out of bounds`, `Swift runtime failure: Index out of range`,
/// `…/vector:1393: assertion __n < size() failed`.
pub(crate) fn trap_message(name: &str) -> Option<&str> {
    if let Some(message) = name.strip_prefix("__clang_trap_msg$") {
        return Some(message.split_once('$').map_or(message, |(_, text)| text));
    }
    if swift_text::runtime_failure(name).is_some() {
        return Some(name);
    }
    let (place, text) = name.split_once(": ")?;
    let (file, line) = place.rsplit_once(':')?;
    let is_place = !line.is_empty() && line.bytes().all(|c| c.is_ascii_digit());
    // A message has words; a method's name has none after its colons.
    (is_place && !file.is_empty() && text.contains(' ')).then_some(name)
}

/// Without the line of a file that was taken out: `main :8`.
fn without_line(name: &str) -> &str {
    match name.rsplit_once(" :") {
        Some((front, line)) if line.bytes().all(|c| c.is_ascii_digit()) => front.trim_end(),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_function_s_or_it_is_not_there() {
        for name in [
            "main",
            "-[Till setValue:forKey:]",
            "closure #1 in Till.open(_:)",
            "std::vector<int>::operator[](unsigned long)",
            "Till.subscript.getter : Swift.Int",
            "mh_sum_header_of",
            "_ZN4till4mainEv",
            "deadbeef",
        ] {
            assert_eq!(function(name, Some(12)), Some(name));
        }
        assert_eq!(function("main :8", None), Some("main"));
        assert_eq!(function("main", Some(10 << 20)), None);
        for name in [
            "(null)",
            "_mh_execute_header",
            "__mh_dylib_header",
            "__hidden#1276_ (__hidden#1338_:86)",
            "CEB74A0C-5EA4-3F5A-9DE8-73F0DAD2F4CB",
            "0x104f3c000",
            "<unavailable>",
        ] {
            assert_eq!(function(name, None), None, "{name}");
        }
    }

    #[test]
    fn a_trap_has_a_message_and_no_name() {
        for (name, message) in [
            (
                "__clang_trap_msg$libc++$vector[] index out of bounds",
                "vector[] index out of bounds",
            ),
            (
                "Swift runtime failure: Index out of range",
                "Swift runtime failure: Index out of range",
            ),
            (
                "/usr/include/c++/v1/vector:1393: assertion __n < size() failed: vector[] index out of bounds",
                "/usr/include/c++/v1/vector:1393: assertion __n < size() failed: vector[] index out of bounds",
            ),
        ] {
            assert_eq!(trap_message(name), Some(message));
            assert_eq!(function(name, None), None);
        }
        assert_eq!(trap_message("static Till.open(_: Swift.Int) -> ()"), None);
        assert_eq!(trap_message("closure #1 in till:3: "), None);
    }
}
