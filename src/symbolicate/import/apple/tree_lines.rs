//! Single lines of Apple's trees of sampled stacks: threads, nodes.

use crate::report::{Thread, Value};
use crate::symbolicate::import::stack_lines::source;
use crate::symbolicate::import::{JsonFields, SampleNode, frame, values};
use crate::symbolicate::keys::{NUMBER, SYMBOL_OFFSET};
use crate::symbolicate::names::symbol_text;

/// A thread of a call graph; the text after its number is kept whole, as `about`.
fn thread(id: u64, number: Value, about: &str, name: Option<String>, main: bool) -> Thread {
    let about = Value::Text(about.to_owned());
    Thread {
        id,
        main,
        name,
        extra: vec![(NUMBER.into(), number), ("about".into(), about)],
        ..Thread::default()
    }
}

/// `1234   DispatchQueue_1: com.apple.main-thread  (serial)`, `1234: worker`, after `Thread_`.
pub(super) fn call_graph_thread(rest: &str) -> Thread {
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let about = rest[digits..].trim();
    let name = about.split_once(": ").map_or(about, |(_, name)| name);
    let name = name.split("  (").next().unwrap_or(name);
    let name = name.trim_start_matches(':').trim();
    let main = name == "com.apple.main-thread";
    let name = Some(name.to_owned()).filter(|name| !name.is_empty());
    let id = rest[..digits].parse().unwrap_or(0);
    thread(id, Value::Unsigned(id), about, name, main)
}

/// `1a2b    DispatchQueue "com.apple.main-thread"(1)    20 samples (1-20)    priority 46 (base 46)`,
/// or with `Thread name "…"`, after `Thread 0x`.
pub(super) fn spindump_thread(rest: &str) -> Thread {
    let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
    let quoted = |label: &str| {
        let (_, behind) = rest.split_once(label)?;
        let (name, _) = behind.split_once('"')?;
        Some(name.to_owned())
    };
    let queue = quoted("DispatchQueue \"");
    let main = queue.as_deref() == Some("com.apple.main-thread");
    let name = quoted("Thread name \"").or(queue);
    let id = u64::from_str_radix(&rest[..digits], 16).unwrap_or(0);
    let number = Value::Text(format!("{id:#x}"));
    thread(id, number, rest[digits..].trim(), name, main)
}

/// The column of a line's count, the count, and what it counts.
pub(super) fn counted(line: &str) -> Option<(usize, u64, &str)> {
    let start = line.trim_start_matches([' ', '+', '!', ':', '|']);
    let digits = start.bytes().take_while(u8::is_ascii_digit).count();
    let what = start[digits..].strip_prefix(' ')?;
    let count = start[..digits].parse().ok()?;
    Some((line.len() - start.len(), count, what.trim()))
}

/// `main  (in kiosk) + 32  [0x104c3c55c]  kiosk.c:7`; of several addresses in one function, the first.
pub(super) fn call_graph_node(count: u64, what: &str) -> Option<SampleNode> {
    let (front, after) = what.rsplit_once(" [0x")?;
    let (addresses, after) = after.split_once(']').unwrap_or((after, ""));
    let digits = addresses.split(',').next()?;
    let pc = values::number(&format!("0x{digits}"))?;
    let (name, place) = front.split_once("  (in ").unwrap_or((front, ""));
    let (image, offsets) = place.rsplit_once(')').unwrap_or((place, ""));
    let offset = offsets.trim().strip_prefix("+ ");
    let offset = offset.and_then(|offset| offset.split(',').next()?.trim().parse().ok());
    let image = (image.to_owned(), 0);
    Some(node(count, pc, (name, offset), Some(image), source(after)))
}

/// `  15  main + 32 (kiosk.c:26 in kiosk + 1372) [0x104c3c55c] 1-15`, and the column of its count. Frames of the
/// kernel, after a `*`, are omitted.
pub(super) fn spindump_node(line: &str) -> Option<(usize, SampleNode)> {
    let start = line.trim_start();
    let digits = start.bytes().take_while(u8::is_ascii_digit).count();
    let count: u64 = start[..digits].parse().ok()?;
    let what = start[digits..].strip_prefix(' ')?.trim_start();
    let (what, behind) = what.rsplit_once(" [0x")?;
    let (digits, range) = behind.split_once(']')?;
    let pc = u64::from_str_radix(digits, 16).ok()?;
    let (name, place) = what.rsplit_once(" (").unwrap_or((what, ""));
    let (place, image) = place.split_once(" in ").unwrap_or(("", place));
    let image = image.trim_end_matches(')').rsplit_once(" + ");
    let image = image.and_then(|(image, offset)| {
        let base = pc.checked_sub(values::number(offset)?)?;
        Some((image.to_owned(), base))
    });
    let (name, offset) = name.rsplit_once(" + ").unwrap_or((name, ""));
    let offset = values::number(offset);
    let mut node = node(count, pc, (name, offset), image, source(place));
    // `(running) 10-13`
    let range = range.trim_end().rsplit(' ').next().unwrap_or("");
    let first = range.split(['-', ',']).next();
    let first = first.and_then(|n| n.parse::<u64>().ok());
    node.first = first.map(|first| first.saturating_sub(1));
    Some((line.len() - start.len(), node))
}

/// A node; the bytes from its function to the address are kept.
fn node(
    count: u64,
    pc: u64,
    (name, offset): (&str, Option<u64>),
    image: Option<(String, u64)>,
    mut left: JsonFields,
) -> SampleNode {
    let name = symbol_text::function(name.trim(), offset);
    if let (Some(_), Some(offset)) = (name, offset) {
        left.push(SYMBOL_OFFSET, Value::Unsigned(offset));
    }
    SampleNode {
        count,
        frame: frame(pc, None, name.map(str::to_owned)),
        image,
        left,
        ..SampleNode::default()
    }
}

/// `*40  psynch_mtxcontinue + 0 (…) (blocked by turnstile waiting for kiosk [77] thread 0x1f5) 1-40`: the count, and what
/// is waited for; `is_own` says which process is the thread's own.
pub(super) fn waits_for(line: &str, is_own: impl Fn(&str) -> bool) -> Option<(u64, String)> {
    let (front, rest) = line.split_once("(blocked by ")?;
    let digits = front.trim_start_matches(['*', ' ']).split(' ').next()?;
    let by = rest.split_once(')').map_or(rest, |(by, _)| by);
    let whom = by.split_once("waiting for ");
    let reason = match whom.or_else(|| by.split_once("owned by ")) {
        Some((_, whom)) => match whom.split_once(" thread ") {
            Some((process, thread)) if is_own(process) => format!("waits for thread {thread}"),
            _ => format!("waits for {whom}"),
        },
        None => format!("blocked by {by}"),
    };
    Some((digits.parse().ok()?, reason))
}

/// A count and a name, as frames of a tree have them; kernel frames, after a `*`, don't count.
pub(super) fn looks_like_a_node(line: &str) -> bool {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && line[digits..].starts_with(' ') && line.contains(" (") && line.contains(" + ")
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_call_graph() {
        let (column, count, what) = counted(
            "    + ! : | 15 -[Till sum:]  (in kiosk) + 32,40  [0x104c3c55c,0x104c3c564]  till.m:7",
        )
        .unwrap();
        assert_eq!((column, count), (12, 15));
        let found = call_graph_node(count, what).unwrap().frame;
        assert_eq!(
            (found.pc, found.name.as_deref()),
            (0x104c3c55c, Some("-[Till sum:]"))
        );
        let (_, count, what) =
            counted("  2 ???  (in kiosk)  load address 0x104c3c000 + 0x55c  [0x104c3c55c]")
                .unwrap();
        assert_eq!(call_graph_node(count, what).unwrap().frame.name, None);
    }

    #[test]
    fn lines_of_a_tree() {
        let (column, found) =
            spindump_node("    15  main + 32 (kiosk.c:26 in kiosk + 1372) [0x104c3c55c] 3-15")
                .unwrap();
        assert_eq!((column, found.count, found.first), (4, 15, Some(2)));
        assert_eq!(
            (found.frame.pc, found.frame.name.as_deref()),
            (0x104c3c55c, Some("main"))
        );
        for state in ["(running)", "(blocked by turnstile waiting for kiosk [77])"] {
            let line = format!("4   b + 17 (kiosk + 1238) [0x1000004d6] {state} 10-13");
            let (_, found) = spindump_node(&line).unwrap();
            assert_eq!((found.frame.pc, found.first), (0x1000004d6, Some(9)));
        }
        for name in [
            "thunk for () -> ()",
            "void (anonymous namespace)::f<int>(int)",
        ] {
            let line = format!("  2  {name} + 12 (f.cpp:7 in kiosk + 1364) [0x104c3c55c] 1-2");
            let (_, found) = spindump_node(&line).unwrap();
            assert_eq!(found.frame.name.as_deref(), Some(name));
        }
        let (_, found) = spindump_node("  2  ??? (kiosk + 1372) [0x104c3c55c]").unwrap();
        assert_eq!((found.frame.name, found.first), (None, None));
        assert!(spindump_node("   *3  ??? (kernel + 4321) [0xfffffe0007a0] 3-5").is_none());
        assert!(spindump_node("  Thread 0x1a2b").is_none());
    }
}
