//! Stacks of JavaScript, which have names, files and lines, and no addresses: as objects, as texts, in a message.

use super::draft::Draft;
use super::fields::Fields;
use crate::report::Value;

/// A frame under the keys by which `recorded.rs` finds what it has.
pub(super) fn placed(frame: Value) -> Value {
    let mut fields = match frame {
        Value::Text(line) => {
            parsed(&line).unwrap_or_else(|| Fields::one("function", Value::Text(line)))
        }
        frame => Fields::of(frame),
    };
    for (from, to) in [
        ("abs_path|filename|file", "sourceFile"),
        ("lineno|lineNumber", "sourceLine"),
        ("methodName", "function"),
    ] {
        if let Some(value) = fields.take(from) {
            fields.push(to, value);
        }
    }
    fields.into_value()
}

impl Draft {
    /// Adds the stack of an exception that was thrown in a script: innermost first.
    pub fn thrown_in_script(&mut self, frames: Vec<Value>) {
        self.thrown(frames.into_iter().map(placed).collect());
    }

    /// Adds the stack that React Native's `RCTFatal` writes into the exception's reason: `…, stack:`, and a line for
    /// each frame.
    pub fn thrown_in_message(&mut self) {
        let message = self.event().message.as_deref();
        let stack = message.and_then(|message| message.split_once(", stack:\n"));
        let lines = stack.map_or("", |(_, lines)| lines).lines();
        let frames = lines.filter_map(parsed).map(Fields::into_value);
        let frames = frames.collect();
        self.thrown_in_script(frames);
    }
}

/// `onPay@main.jsbundle:12:345`, `onPay@12:345`, `at onPay (address at main.jsbundle:12:345)`, `at main.jsbundle:12:345`.
fn parsed(line: &str) -> Option<Fields> {
    let line = line.trim();
    let (name, place) = match line.strip_prefix("at ") {
        Some(rest) => {
            let named = rest.strip_suffix(')');
            let named = named.and_then(|rest| rest.rsplit_once(" ("));
            named.unwrap_or(("", rest))
        }
        None => line.split_once('@')?,
    };
    let (place, column) = place.trim_start_matches("address at ").rsplit_once(':')?;
    let (file, line) = place.rsplit_once(':').unwrap_or(("", place));
    let (line, column) = (line.parse().ok()?, column.parse().ok()?);
    let mut fields = Fields::default();
    for (key, text) in [("function", name), ("sourceFile", file)] {
        if !text.is_empty() {
            fields.push(key, Value::Text(text.to_owned()));
        }
    }
    fields.push("sourceLine", Value::Unsigned(line));
    fields.push("column", Value::Unsigned(column));
    Some(fields)
}
