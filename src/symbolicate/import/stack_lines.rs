//! Single lines of Apple's texts: frames of stacks, images.

use super::json_fields::JsonFields;
use super::values;
use crate::report::{Image, Value};
use crate::symbolicate::keys::SYMBOL_OFFSET;
use crate::symbolicate::names::symbol_text::{self, is_address};

/// A line of a stack.
#[derive(Debug, Default)]
pub(super) struct Line<'a> {
    pub image: &'a str,
    pub pc: u64,
    /// The image's base, if the line has it.
    pub base: Option<u64>,
    /// The symbol before the address, whatever it is: see [`names`](super::names).
    pub symbol: Option<&'a str>,
    /// Bytes from it to the address.
    pub offset: Option<u64>,
    pub source: JsonFields,
    /// True if the function was inlined into the next line's.
    pub inlined: bool,
}

impl<'a> Line<'a> {
    /// The function's name, where the symbol is one.
    pub fn name(&self) -> Option<&'a str> {
        symbol_text::function(self.symbol?, self.offset)
    }

    /// The same under the keys by which frames are read.
    pub fn fields(self) -> JsonFields {
        let symbol = self.symbol.unwrap_or("");
        let offset = self.offset.filter(|_| !symbol.is_empty());
        let mut fields = self.source;
        let numbers = [
            ("instruction_addr", Some(self.pc)),
            ("object_addr", self.base),
            (SYMBOL_OFFSET, offset),
        ];
        for (key, number) in numbers {
            if let Some(number) = number {
                fields.push(key, Value::Unsigned(number));
            }
        }
        if self.inlined {
            fields.push("inlined", Value::Bool(true));
        }
        for (key, text) in [("image", self.image), ("symbol", symbol)] {
            if !text.is_empty() {
                fields.push(key, Value::Text(text.to_owned()));
            }
        }
        fields
    }
}

/// `2   MyApp   0x00000001022364bc 0x102230000 + 25788`, or a name after the address.
pub(super) fn stack_line(line: &str) -> Option<Line<'_>> {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 || digits > 6 || !line[digits..].starts_with([' ', '\t']) {
        return None;
    }
    let rest = line[digits..].trim_start();
    let (at, word) = address_column(rest)?;
    let pc = values::address(word)?;
    let what = rest[at + word.len()..].trim();
    let inlined = what.strip_suffix("[inlined]");
    let inlined = inlined.or(what.strip_prefix("[inlined]"));
    let what = inlined.unwrap_or(what).trim();
    let (_, last) = what.rsplit_once(" (").unwrap_or_default();
    let image = image_name(&rest[..at]);
    let placed = placed_symbol(what, pc, image);
    Some(Line {
        image,
        pc,
        source: source(last.trim_end_matches(')')),
        inlined: inlined.is_some(),
        ..placed
    })
}

/// The column of addresses: names of images hold spaces, and words like addresses. It begins after a gap; without one
/// it is the first word that is an address.
fn address_column(rest: &str) -> Option<(usize, &str)> {
    let addresses = || words_with_offsets(rest).filter(|(_, word)| values::address(word).is_some());
    let is_behind_gap = |(at, _): &(usize, &str)| {
        let front = &rest[..*at];
        front.ends_with('\t') || front.ends_with("  ")
    };
    let found = addresses().find(is_behind_gap);
    found.or_else(|| addresses().next())
}

/// The image of a line, without the asterisk of suspects and without the processor.
fn image_name(text: &str) -> &str {
    let name = text.trim().trim_end_matches(" (*)").trim_end();
    let (front, of) = name.rsplit_once(" (").unwrap_or((name, ""));
    if of.strip_suffix(')').is_some_and(|of| ARCHS.contains(&of)) {
        front.trim_end()
    } else {
        name
    }
}

/// Base, symbol and offset after an address: `main + 12 (main.c:3)`, `0x102230000 + 25788`, and the latter with a symbol beside it.
fn placed_symbol<'a>(what: &'a str, pc: u64, image: &str) -> Line<'a> {
    let first = what.split(' ').next().unwrap_or("");
    let is_base = is_address(first) || first == "0";
    let Some(base) = values::number(first).filter(|_| is_base) else {
        return symbol_alone(what, pc, image);
    };
    // `0x18b625000 + 0x732e8  // UIApplicationMain + 0xd0`, or side by side, as KSCrash writes it:
    // `0x54000 + 30496 (-[Crasher run] + 24)`.
    let (numbers, remark) = match (what.split_once("// "), what.split_once(" (")) {
        (Some((numbers, remark)), _) => (numbers, remark.trim()),
        (_, Some((numbers, remark))) => (numbers, remark.strip_suffix(')').unwrap_or(remark)),
        _ => (what, ""),
    };
    // Told apart from the offset by which of them yields the address.
    let offset = numbers.split_once(" + ");
    let offset = offset.and_then(|(_, offset)| values::number(offset));
    let is_base = base <= pc && base.wrapping_add(offset.unwrap_or(0)) == pc;
    let (symbol, offset) = match remark.rsplit_once(" + ") {
        Some((symbol, offset)) => (symbol, values::number(offset)),
        None => (remark, None),
    };
    Line {
        base: is_base.then_some(base),
        symbol: Some(symbol.trim()),
        offset,
        ..Line::default()
    }
}

fn symbol_alone<'a>(what: &'a str, pc: u64, image: &str) -> Line<'a> {
    let (symbol, offset) = match what.rsplit_once(" + ") {
        // The name of a source file may follow the offset.
        Some((symbol, tail)) => {
            let word = tail.split_whitespace().next();
            (symbol, word.and_then(values::number))
        }
        None => (what.rsplit_once(" (").map_or(what, |(name, _)| name), None),
    };
    let symbol = symbol.trim();
    let symbol = symbol.split(" (in ").next().unwrap_or(symbol).trim_end();
    // Where no symbol is known, some write the image's own name or header, and the offset in the image.
    let base = offset.and_then(|offset| pc.checked_sub(offset));
    let is_images = symbol == image || symbol_text::function(symbol, None).is_none();
    let base = base.filter(|base| is_images && *base != 0 && base.is_multiple_of(PAGE));
    Line {
        base,
        symbol: base.is_none().then_some(symbol),
        offset,
        ..Line::default()
    }
}

/// The processors that names of images may be followed by.
const ARCHS: [&str; 9] = [
    "arm64", "arm64e", "arm64_32", "armv7", "armv7k", "armv7s", "x86_64", "x86_64h", "i386",
];

/// Images begin on pages.
const PAGE: u64 = 0x1000;

/// `till.c:14`, `Till.swift:14:3`, under the keys by which `recorded.rs` finds them; nothing of any other text, nor of a
/// file that the compiler made up.
pub(super) fn source(text: &str) -> JsonFields {
    let (mut fields, mut file, mut numbers) = (JsonFields::default(), text.trim(), Vec::new());
    while numbers.len() < 2
        && let Some((front, last)) = file.rsplit_once(':')
        && let Ok(number) = last.parse()
    {
        numbers.insert(0, Value::Unsigned(number));
        file = front;
    }
    let is_made_up = file.contains(MADE_UP) || numbers.first() == Some(&Value::Unsigned(0));
    if !numbers.is_empty() && !is_made_up && symbol_text::function(file, None).is_some() {
        fields.push("sourceFile", Value::Text(file.to_owned()));
        fields.extend(["sourceLine", "column"], numbers);
    }
    fields
}

/// The file of code that the compiler made up.
pub(super) const MADE_UP: &str = "<compiler-generated>";

fn words_with_offsets(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split([' ', '\t']).filter_map(move |word| {
        let start = at;
        at += word.len() + 1;
        (!word.is_empty()).then_some((start, word))
    })
}

/// `0x102230000 - 0x102237fff MyApp arm64  <82d13d98…> /private/…/MyApp`, or, on macOS,
/// `0x102230000 - 0x102237fff +com.example.MyApp (1.0 - 17) <82D13D98-…> /Applications/…`.
pub(super) fn image_line(line: &str) -> Option<Image> {
    let (first, rest) = line.split_once(" - ")?;
    let base = values::number(first).filter(|_| is_address(first.trim()))?;
    let rest = rest.trim_start();
    let (last, rest) = rest.split_once(char::is_whitespace)?;
    // Of some images reports of load do not say where they end.
    let end = match last {
        "???" => base.checked_sub(1)?,
        _ => values::number(last).filter(|_| is_address(last))?,
    };
    let (front, path, id) = match (rest.find('<'), rest.find('>')) {
        (Some(open), Some(close)) if open < close => (
            &rest[..open],
            without_package(rest[close + 1..].trim()),
            values::id(&rest[open + 1..close]),
        ),
        _ => match rest.find(" /") {
            Some(at) => (&rest[..at], rest[at..].trim(), Vec::new()),
            // A line that was cut.
            None => return None,
        },
    };
    let front = front.trim().trim_start_matches('+');
    let (front, version) = match front.rsplit_once(" (") {
        Some((front, version)) => (front.trim(), Some(version.trim_end_matches(')'))),
        None => (front, None),
    };
    let (name, arch) = match front.rsplit_once(' ') {
        Some((name, arch)) if ARCHS.contains(&arch) => (name.trim(), Some(arch.to_owned())),
        _ => (front, None),
    };
    let version = version.map(|version| ("version".to_owned(), Value::Text(version.to_owned())));
    let size = end.saturating_add(1).checked_sub(base)?;
    Some(Image {
        name: if path.is_empty() { name } else { path }.to_owned(),
        id,
        base,
        size,
        arch,
        extra: version.into_iter().collect(),
        ..Image::default()
    })
}

/// A path without the JSON that says which package it came with.
fn without_package(path: &str) -> &str {
    path.split_once(" {\"")
        .map_or(path, |(path, _)| path.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stack_lines_of_every_shape() {
        let line = stack_line("2   My App \t0x1022364bc 0x102230000 + 25788").expect("a frame");
        assert_eq!(
            (line.image, line.pc, line.base),
            ("My App", 0x1022364bc, Some(0x102230000))
        );
        let line = stack_line("10  UIKit  0x2152896e4 -[UIWindow _orderFront:] + 92").expect("one");
        assert_eq!(line.name(), Some("-[UIWindow _orderFront:]"));
        let line = stack_line("13  App  0x00000000000ea004 main (main.m:16)").expect("a frame");
        assert_eq!(line.name(), Some("main"));
        let line = stack_line("13  App  0xea004 thunk for () -> () (main.swift:16)").expect("one");
        assert_eq!(line.name(), Some("thunk for () -> ()"));
        let line = stack_line("0   ???   0x0000000054485244 0x0 + 0").expect("a frame");
        assert_eq!((line.base, line.name()), (None, None));
        let line = stack_line("1   ???   0x0000000000000010 0 + 16").expect("a frame");
        assert_eq!((line.base, line.name()), (Some(0), None));
        let line = stack_line("3 App 0x1000 operator+(Foo, Bar) + 12 (foo.cpp:3)").expect("one");
        assert_eq!(line.name(), Some("operator+(Foo, Bar)"));
        let line = stack_line(
            "55  UIKit (*)   \t0x18b6982e8 0x18b625000 + 0x732e8 \t// UIApplicationMain + 0xd0",
        );
        let line = line.expect("a frame");
        assert_eq!(
            (line.image, line.base, line.name()),
            ("UIKit", Some(0x18b625000), Some("UIApplicationMain"))
        );
        let line = stack_line("2  Crash-Tester  0x5b720 0x54000 + 30496 (-[Crasher run] + 24)");
        let line = line.expect("a frame");
        assert_eq!(
            (line.base, line.name()),
            (Some(0x54000), Some("-[Crasher run]"))
        );
        let line = stack_line("3  App  0x5b720 0x54000 + 30496 (operator+(Foo, Bar) + 24)");
        assert_eq!(line.expect("a frame").name(), Some("operator+(Foo, Bar)"));
        assert!(stack_line("Thread 3").is_none());
    }

    #[test]
    fn image_lines_of_every_shape() {
        let image = image_line("0x10864e000 -        0x10ee0ffff +Yet Another x86_64 (400.9.4 - 1.0.0) <2d903291397d3d14bfca52c7fb8c5e00> /Users/a/Yet Another")
            .expect("an image");
        assert_eq!((image.base, image.size), (0x10864e000, 0x67c2000));
        assert_eq!(image.arch.as_deref(), Some("x86_64"));
        assert_eq!(image.name, "/Users/a/Yet Another");
        let image = image_line(
            "0x1 - 0x2 com.example.App (1.0 - 17) <82D13D98-219E-3040-B62A-07A297007A7C> /App",
        )
        .expect("an image");
        assert_eq!((image.id.len(), image.arch), (16, None));
    }
}
