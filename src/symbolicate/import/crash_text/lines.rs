//! Single lines: frames of stacks, images.

use crate::report::{Image, Value};
use crate::symbolicate::import::values;

/// A line of a stack.
#[derive(Debug, PartialEq)]
pub(super) struct Line<'a> {
    pub image: &'a str,
    pub pc: u64,
    /// The image's base, where the line gives it.
    pub base: Option<u64>,
    pub name: Option<&'a str>,
}

/// `2   MyApp   0x00000001022364bc 0x102230000 + 25788`, or a name behind the address.
pub(super) fn stack_line(line: &str) -> Option<Line<'_>> {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 || digits > 6 || !line[digits..].starts_with([' ', '\t']) {
        return None;
    }
    let rest = line[digits..].trim_start();
    // Names of images hold spaces: the address is the first word that is one.
    let (at, word) = words(rest).find(|(_, word)| is_address(word))?;
    // Some mark the suspects.
    let image = rest[..at].trim().trim_end_matches(" (*)");
    let pc = values::number(word)?;
    let what = rest[at + word.len()..].trim();
    // `0x18b625000 + 0x732e8  // UIApplicationMain + 0xd0`
    let (what, remark) = match what.split_once("// ") {
        Some((what, remark)) => (what.trim(), Some(remark.trim())),
        None => (what, None),
    };
    let mut line = Line {
        image,
        pc,
        base: None,
        name: None,
    };
    // Side by side, as KSCrash writes it: `0x54000 + 30496 (-[Crasher run] + 24)`.
    let (what, remark) = match (remark, what.split_once(" (")) {
        (None, Some((numbers, name))) if is_address(what.split(' ').next().unwrap_or("")) => {
            (numbers.trim(), Some(name.strip_suffix(')').unwrap_or(name)))
        }
        (remark, _) => (what, remark),
    };
    let (name, offset) = match what.rsplit_once(" + ") {
        // The name of a source file may follow the offset.
        Some((name, tail)) => (name.trim(), tail.split_whitespace().next()),
        None => (what, None),
    };
    match values::number(name).filter(|_| is_address(name)) {
        Some(base) => {
            // Told apart from the offset by which of them gives the address.
            let offset = offset.and_then(values::number).unwrap_or(0);
            line.base = Some(base).filter(|base| *base <= pc && base.wrapping_add(offset) == pc);
            let name =
                remark.map(|remark| remark.rsplit_once(" + ").map_or(remark, |(name, _)| name));
            line.name = name.filter(|name| !name.is_empty() && !is_address(name));
        }
        None => {
            let name = name
                .split(" (")
                .next()
                .filter(|_| offset.is_none())
                .unwrap_or(name);
            let name = name.split(" (in ").next().unwrap_or(name);
            line.name = Some(name.trim()).filter(|name| !name.is_empty());
        }
    }
    Some(line)
}

pub(in crate::symbolicate::import) fn is_address(word: &str) -> bool {
    word.len() > 2 && word.starts_with("0x") && word[2..].bytes().all(|c| c.is_ascii_hexdigit())
}

fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split([' ', '\t']).filter_map(move |word| {
        let start = at;
        at += word.len() + 1;
        (!word.is_empty()).then_some((start, word))
    })
}

/// `0x102230000 - 0x102237fff MyApp arm64  <82d13d98…> /private/…/MyApp`, or, on macOS,
/// `0x102230000 - 0x102237fff +com.example.MyApp (1.0 - 17) <82D13D98-…> /Applications/…`.
pub(in crate::symbolicate::import) fn image_line(line: &str) -> Option<Image> {
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
            None => (rest, "", Vec::new()),
        },
    };
    let front = front.trim().trim_start_matches('+');
    let (front, version) = match front.rsplit_once(" (") {
        Some((front, version)) => (front.trim(), Some(version.trim_end_matches(')'))),
        None => (front, None),
    };
    const ARCHS: [&str; 8] = [
        "arm64", "arm64e", "arm64_32", "armv7", "armv7s", "x86_64", "x86_64h", "i386",
    ];
    let (name, arch) = match front.rsplit_once(' ') {
        Some((name, arch)) if ARCHS.contains(&arch) => (name.trim(), Some(arch.to_owned())),
        _ => (front, None),
    };
    Some(Image {
        name: if path.is_empty() { name } else { path }.to_owned(),
        id,
        base,
        size: end
            .checked_add(1)
            .map_or(Some(u64::MAX - base), |end| end.checked_sub(base))?,
        arch,
        extra: version
            .map(|version| ("version".to_owned(), Value::Text(version.to_owned())))
            .into_iter()
            .collect(),
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
        assert_eq!(line.name, Some("-[UIWindow _orderFront:]"));
        let line = stack_line("13  App  0x00000000000ea004 main (main.m:16)").expect("a frame");
        assert_eq!(line.name, Some("main"));
        let line = stack_line("0   ???   0x0000000054485244 0x0 + 0").expect("a frame");
        assert_eq!((line.base, line.name), (None, None));
        let line = stack_line("3 App 0x1000 operator+(Foo, Bar) + 12 (foo.cpp:3)").expect("one");
        assert_eq!(line.name, Some("operator+(Foo, Bar)"));
        let line = stack_line(
            "55  UIKit (*)   \t0x18b6982e8 0x18b625000 + 0x732e8 \t// UIApplicationMain + 0xd0",
        );
        let line = line.expect("a frame");
        assert_eq!(
            (line.image, line.base, line.name),
            ("UIKit", Some(0x18b625000), Some("UIApplicationMain"))
        );
        let line = stack_line("2  Crash-Tester  0x5b720 0x54000 + 30496 (-[Crasher run] + 24)");
        let line = line.expect("a frame");
        assert_eq!(
            (line.base, line.name),
            (Some(0x54000), Some("-[Crasher run]"))
        );
        let line = stack_line("3  App  0x5b720 0x54000 + 30496 (operator+(Foo, Bar) + 24)");
        assert_eq!(line.expect("a frame").name, Some("operator+(Foo, Bar)"));
        assert_eq!(stack_line("Thread 3"), None);
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
