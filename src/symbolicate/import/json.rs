//! JSON from strangers: bounded, without recursion, and keeping what is before a cut.
//!
//! MetricKit nests two levels a frame, far past the recursion that a general parser allows, and a
//! report that was cut must still give its front: so this reader, into the report's own [`Value`].

use crate::report::Value;

/// Deeper nesting is refused: 1,000 nested frames of MetricKit.
const MAX_DEPTH: usize = 2048;

/// A document, as far as it could be read.
#[derive(Debug)]
pub(super) struct Document {
    pub value: Value,
    pub start: usize,
    /// The first byte after it.
    pub end: usize,
    /// Offset at which reading stopped early, and the reason.
    pub damage: Option<(usize, &'static str)>,
}

/// Reads the document that begins at `start`; `None` if none does.
pub(super) fn read(bytes: &[u8], start: usize) -> Option<Document> {
    let mut reader = JsonReader { bytes, at: start };
    reader.space();
    let mut open: Vec<OpenContainer> = Vec::new();
    let mut damage = None;
    let mut top = None;
    while top.is_none() && damage.is_none() {
        match reader.step(&mut open) {
            Ok(whole) => top = whole,
            Err(what) => damage = Some((reader.at, what)),
        }
    }
    // Containers that are still open are closed where reading stopped.
    while let Some((value, _)) = open.pop() {
        match open.last_mut() {
            Some(outer) => add(outer, value),
            None => top = Some(value),
        }
    }
    Some(Document {
        value: top?,
        start,
        end: reader.at,
        damage,
    })
}

/// An array or an object being read, and the key of the next value.
type OpenContainer = (Value, Option<String>);

fn add((container, key): &mut OpenContainer, value: Value) {
    match container {
        Value::Map(entries) => entries.push((Value::Text(key.take().unwrap_or_default()), value)),
        Value::Array(values) => values.push(value),
        _ => {}
    }
}

struct JsonReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl JsonReader<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// Reads on by one value or bracket; returns the document when it is complete.
    fn step(&mut self, open: &mut Vec<OpenContainer>) -> Result<Option<Value>, &'static str> {
        self.space();
        let c = self.peek().ok_or("it ends here")?;
        let closing = match open.last() {
            Some((Value::Array(_), _)) => Some(b']'),
            Some((Value::Map(_), None)) => Some(b'}'),
            _ => None,
        };
        if closing == Some(c) {
            self.at += 1;
            let (value, _) = open.pop().unwrap_or_default();
            return self.put_value(value, open);
        }
        if let Some((Value::Map(_), key @ None)) = open.last_mut() {
            if c != b'"' {
                return Err("there should be a key in quotation marks");
            }
            *key = Some(self.text()?);
            self.space();
            if self.peek() != Some(b':') {
                return Err("there should be a colon");
            }
            self.at += 1;
            return Ok(None);
        }
        let value = match c {
            b'{' | b'[' => {
                if open.len() >= MAX_DEPTH {
                    return Err("it nests deeper than 2048 levels");
                }
                self.at += 1;
                let empty = match c {
                    b'{' => Value::Map(Vec::new()),
                    _ => Value::Array(Vec::new()),
                };
                open.push((empty, None));
                return Ok(None);
            }
            b'"' => Value::Text(self.text()?),
            b't' => self.word("true", Value::Bool(true))?,
            b'f' => self.word("false", Value::Bool(false))?,
            b'n' => self.word("null", Value::Nil)?,
            b'-' | b'0'..=b'9' => self.number()?,
            _ => return Err("there should be a value"),
        };
        self.put_value(value, open)
    }

    fn put_value(
        &mut self,
        value: Value,
        open: &mut [OpenContainer],
    ) -> Result<Option<Value>, &'static str> {
        let Some(outer) = open.last_mut() else {
            return Ok(Some(value));
        };
        add(outer, value);
        self.space();
        match (self.peek(), &outer.0) {
            (Some(b','), _) => self.at += 1,
            (Some(b']'), Value::Array(_)) | (Some(b'}'), Value::Map(_)) => {}
            (None, _) => return Err("it ends here"),
            _ => return Err("there should be a comma"),
        }
        Ok(None)
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, &'static str> {
        let is_it = self.bytes[self.at..].starts_with(word.as_bytes());
        self.at += word.len() * usize::from(is_it);
        is_it.then_some(value).ok_or("there should be a value")
    }

    fn number(&mut self) -> Result<Value, &'static str> {
        let start = self.at;
        let is_part = |c: u8| c.is_ascii_digit() || b"-+.eE".contains(&c);
        while self.peek().is_some_and(is_part) {
            self.at += 1;
        }
        // A number at the very end may have lost digits.
        if self.at == self.bytes.len() && start > 0 {
            return Err("it ends here");
        }
        let text = std::str::from_utf8(&self.bytes[start..self.at]).unwrap_or("");
        let number = text.parse().map(Value::Unsigned);
        let number = number.or_else(|_| text.parse().map(Value::Signed));
        let number = number.or_else(|_| text.parse().map(Value::Float));
        number.map_err(|_| "there should be a number")
    }

    /// serde_json reads its escapes. A text that has wrong ones, or bytes that are not UTF-8, stays as it is written.
    fn text(&mut self) -> Result<String, &'static str> {
        let rest = &self.bytes[self.at..];
        let mut is_escaped = true; // the first quotation mark opens it
        let end = rest.iter().position(|&c| {
            let ends = c == b'"' && !is_escaped;
            is_escaped = c == b'\\' && !is_escaped;
            ends
        });
        let end = end.ok_or("it ends here")?;
        self.at += end + 1;
        let text = serde_json::from_slice(&rest[..=end]);
        Ok(text.unwrap_or_else(|_| String::from_utf8_lossy(&rest[1..end]).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbolicate::format::value_json;
    use proptest::prelude::*;

    fn parsed(text: &str) -> serde_json::Value {
        value_json(&read(text.as_bytes(), 0).expect("a document").value)
    }

    #[test]
    fn what_serde_json_reads_is_read_the_same() {
        for text in [
            r#"{"a":[1,-2,3.5,true,false,null],"b":{"c":"\u00e9\n\ud83d\ude00\/"}} "#,
            "[] ",
            "{} ",
            r#"[[[{}]]] "#,
            r#"{"big":18446744073709551615,"neg":-9223372036854775808,"exp":1e3} "#,
        ] {
            let theirs: serde_json::Value = serde_json::from_str(text).expect("theirs");
            assert_eq!(parsed(text), theirs, "{text}");
        }
    }

    #[test]
    fn a_cut_document_keeps_its_front() {
        let cut = read(br#"{"a":1,"b":[1,2,{"c":"lo"#, 0).expect("a document");
        assert!(cut.damage.is_some());
        assert_eq!(
            value_json(&cut.value).to_string(),
            r#"{"a":1,"b":[1,2,{}]}"#
        );
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = "[".repeat(1 << 20);
        let cut = read(deep.as_bytes(), 0).expect("a document");
        assert_eq!(cut.damage, Some((2048, "it nests deeper than 2048 levels")));
    }

    proptest! {
        #[test]
        fn no_near_json_makes_it_panic(text in "[\\[\\]{}:,\"\\\\u0-9a-ftruelsn. -]{0,120}") {
            let _ = read(text.as_bytes(), 0);
        }
    }
}
