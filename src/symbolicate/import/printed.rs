//! Stacks that a program prints by a library: lines of `backtrace_symbols`, glog, absl, boost and Chromium.

use crate::report::{EventKind, Reading, Thread, Value};
use crate::symbolicate::import::plain_text::{Line as TextLine, Role};
use crate::symbolicate::import::stack_lines::Line;
use crate::symbolicate::import::{JsonFields, Layout, ReportBuilder, core_dump, values};

/// Lines in front of a stack in which its signal is looked for.
const MAX_LINES_BEFORE: usize = 8;

/// What a line says of such a stack: two frames, one after the other, begin it.
pub fn role(lines: &[TextLine], at: usize) -> Option<Role> {
    let line = |at: usize| lines.get(at).map_or("", |line| line);
    let is_frame = |at: usize| printed_frame(line(at)).is_some();
    // systemd-coredump's old ones have no offset.
    let is_other = at > 0 && core_dump::role(lines, at - 1) == Some(Role::Body);
    let is_first = at == 0 || !is_other && !is_frame(at - 1);
    (is_frame(at) && is_first && is_frame(at + 1)).then_some(Role::Stack)
}

/// Reads a line:
///
/// | library | line |
/// | --- | --- |
/// | glibc | `./kiosk(till_open+0x1d) [0x55d6c0a0111d]`, `./kiosk(+0x111d)[0x55d6c0a0111d]`, `./kiosk[0x40111d]`, `[0x40111d]` |
/// | glog | `    @     0x55d6c0a0111d till_open`, `    @     0x55d6c0a0111d (unknown)` |
/// | absl | `PC: @     0x55d6c0a0111d         64  till_open`: the frame's size before the name |
/// | Chromium | `#0 0x55d6c0a0111d till_open`, `#0 0x55d6c0a0111d (/usr/bin/kiosk+0x111c)` |
/// | boost | ` 0# till_open in ./kiosk`, ` 0# 0x000055D6C0A0111D in ./kiosk` |
fn printed_frame(line: &str) -> Option<Line<'_>> {
    let line = line.trim();
    if let Some(rest) = line.trim_start_matches("PC: ").strip_prefix("@ ") {
        let (pc, rest) = pc_and_rest(rest)?;
        let is_size = |c: char| c.is_ascii_digit() || c == ' ';
        let name = rest.trim_start_matches(is_size);
        return Some(frame_line(pc, name.trim_start_matches("(unknown)"), "", ""));
    }
    if let Some(rest) = line.strip_prefix('#') {
        let (number, rest) = rest.split_once(' ')?;
        let (pc, rest) = pc_and_rest(rest).filter(|_| number.parse::<u32>().is_ok())?;
        let place = rest.strip_prefix('(');
        let place = place.and_then(|rest| rest.strip_suffix(')'));
        if let Some((image, offset)) = place.and_then(|place| place.rsplit_once('+')) {
            return Some(frame_line(pc, "", image, offset));
        }
        // Those of debuggers and sanitizers, and systemd's.
        let is_other = rest.starts_with("in ") || rest.ends_with(')') && rest.contains(" + 0x");
        return (!is_other).then(|| frame_line(pc, rest, "", ""));
    }
    if let Some((front, address)) = line.trim_end_matches(']').rsplit_once('[')
        && let Some(pc) = values::address(address)
    {
        let is_file = !front.contains(' ') && (front.is_empty() || front.contains('/'));
        let alone = (is_file && address.len() > 7).then_some((front, ""));
        let front = front.trim_end().strip_suffix(')');
        let placed = front.and_then(|front| front.rsplit_once('('));
        let (image, place) = placed.or(alone)?;
        let (name, offset) = place.rsplit_once('+').unwrap_or((place, ""));
        return Some(frame_line(pc, name, image, offset));
    }
    let (number, rest) = line.split_once("# ")?;
    number.parse::<u32>().ok()?;
    let (name, image) = match rest.rsplit_once(" at ") {
        Some((name, place)) => (name, Some("").filter(|_| place.contains(':'))?),
        None => rest
            .rsplit_once(" in ")
            .filter(|(_, image)| image.contains('/'))?,
    };
    Some(match values::address(name) {
        Some(pc) => frame_line(pc, "", image, ""),
        None => frame_line(0, name, image, ""),
    })
}

/// The frame of a line; `offset` is that in the function, without one that in the image.
fn frame_line<'a>(pc: u64, name: &'a str, image: &'a str, offset: &str) -> Line<'a> {
    let offset = values::number(offset);
    let base = offset.filter(|_| name.is_empty());
    // Some print the offset of the call, one before the address.
    let base = base.and_then(|offset| Some(pc.checked_sub(offset)? & !0xfff));
    Line {
        image,
        pc,
        base,
        symbol: Some(name.trim()),
        offset,
        ..Line::default()
    }
}

fn pc_and_rest(text: &str) -> Option<(u64, &str)> {
    let text = text.trim_start();
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    Some((values::address(word)?, rest.trim()))
}

pub fn read(text: &str, before: &[TextLine]) -> Reading {
    let mut builder = ReportBuilder::default();
    let (mut frames, mut rest) = (Vec::new(), Vec::new());
    let before = before[before.len().saturating_sub(MAX_LINES_BEFORE)..].iter();
    let (mut told, mut message) = (None, None);
    for (at, line) in before.map(|line| &**line).chain(text.lines()).enumerate() {
        let Some(found) = printed_frame(line) else {
            if line.contains("SIG") || line.contains("Received signal ") {
                told = Some((at, line));
            }
            rest.push(Value::Text(line.to_owned()));
            continue;
        };
        let is_near = |(told, _): &(usize, &str)| at - told <= MAX_LINES_BEFORE;
        message = message.or(told.filter(is_near).map(|(_, line)| line));
        frames.push(found.fields().into_raw());
    }
    let mut thread = Thread::default();
    builder.put_frames(&mut thread, frames);
    let event = builder.event();
    event.message = message.map(|line| line.trim().trim_matches(['*', ' ']).to_owned());
    let signal = event.message.as_deref().and_then(|line| {
        let words = line.split(|c: char| !c.is_ascii_alphanumeric());
        let mut words = words.skip_while(|word| *word != "signal" && !word.starts_with("SIG"));
        match words.next()? {
            "signal" => words.next()?.parse().ok(),
            name => Some(values::signal_number(name)),
        }
    });
    if let Some(number) = signal.filter(|number| *number > 0) {
        (event.kind, event.fatal) = (EventKind::Crash, true);
        thread.crashed = true;
        let name = values::signal_name(number, true).map(str::to_owned);
        builder.signal(Some(number), name, None);
    } else {
        event.kind = EventKind::Other;
        let word = Value::Text("printed stack".into());
        event.extra.push(("type".into(), word));
    }
    builder.called(thread);
    let left = JsonFields::one("lines", Value::Array(rest));
    builder.finish(Layout::Printed, left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_each_library() {
        const PC: u64 = 0x55d6c0a0111d;
        for (line, pc, name, image, offset) in [
            (
                "./kiosk(open+0x1d) [0x55d6c0a0111d]",
                PC,
                "open",
                "./kiosk",
                Some(0x1d),
            ),
            (
                "./kiosk(+0x111d) [0x55d6c0a0111d]",
                PC,
                "",
                "./kiosk",
                Some(0x111d),
            ),
            (
                "./kiosk(open+0x1d)[0x55d6c0a0111d]",
                PC,
                "open",
                "./kiosk",
                Some(0x1d),
            ),
            ("./kiosk[0x55d6c0a0111d]", PC, "", "./kiosk", None),
            ("[0x55d6c0a0111d]", PC, "", "", None),
            (
                " 2# till::operator[](int) in ./kiosk",
                0,
                "till::operator[](int)",
                "./kiosk",
                None,
            ),
            (
                "    @     0x55d6c0a0111d till::open()",
                PC,
                "till::open()",
                "",
                None,
            ),
            (
                "PC: @     0x55d6c0a0111d        64  open",
                PC,
                "open",
                "",
                None,
            ),
            ("    @     0x55d6c0a0111d  (unknown)", PC, "", "", None),
            (
                "#3 0x55d6c0a0111d till::Open()",
                PC,
                "till::Open()",
                "",
                None,
            ),
            (
                "#3 0x55d6c0a0111d (/kiosk+0x111c)",
                PC,
                "",
                "/kiosk",
                Some(0x111c),
            ),
            (
                " 2# till::open() in ./kiosk",
                0,
                "till::open()",
                "./kiosk",
                None,
            ),
            (" 2# 0x000055D6C0A0111D in ./kiosk", PC, "", "./kiosk", None),
        ] {
            let found = printed_frame(line).unwrap();
            let parts = (found.pc, found.symbol, found.image, found.offset);
            assert_eq!(parts, (pc, Some(name), image, offset), "{line}");
        }
        for line in [
            "Till(open) [shut]",
            "till[0x55d6c0a0111d]",
            "[0x10]",
            "@ the till",
            "#3 of all",
            "#0  0x00 main (kiosk + 0x1)",
            "#0 0x1 in main till.c:7",
            "3# of all",
        ] {
            assert!(printed_frame(line).is_none(), "{line}");
        }
    }
}
