//! Protocol Buffers on the wire: fields one after another, as far as they can be read.
//!
//! Generated readers give nothing of a message that was cut, and drop what they don't know; a report
//! must give what stands before the cut, and keep the rest.

/// A field's value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Wire<'a> {
    pub fn number(self) -> Option<u64> {
        match self {
            Wire::Number(n) => Some(n),
            Wire::Bytes(_) => None,
        }
    }

    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Wire::Bytes(bytes) => Some(bytes),
            Wire::Number(_) => None,
        }
    }

    pub fn text(self) -> Option<String> {
        self.bytes()
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }
}

/// The fields of a message: number and value. After the last, [`Message::cut`] says whether it ended
/// where a message may end.
#[derive(Debug, Clone)]
pub(super) struct Message<'a> {
    bytes: &'a [u8],
    at: usize,
    pub cut: Option<usize>,
}

impl<'a> Message<'a> {
    pub fn new(bytes: &'a [u8]) -> Message<'a> {
        Message {
            bytes,
            at: 0,
            cut: None,
        }
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn fixed(&mut self, len: usize) -> Option<u64> {
        let bytes = self.bytes.get(self.at..self.at + len)?;
        self.at += len;
        let value = bytes
            .iter()
            .rev()
            .fold(0, |n, byte| n << 8 | u64::from(*byte));
        Some(value)
    }

    fn field(&mut self) -> Option<(u64, Wire<'a>)> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Wire::Number(self.varint()?),
            1 => Wire::Number(self.fixed(8)?),
            5 => Wire::Number(self.fixed(4)?),
            2 => {
                let len = usize::try_from(self.varint()?).ok()?;
                let rest = self.bytes.get(self.at..)?;
                // A message that was cut within its last field still gives that field's front.
                let part = rest.get(..len).unwrap_or(rest);
                if part.len() < len {
                    self.cut = Some(self.bytes.len());
                }
                self.at += part.len();
                Wire::Bytes(part)
            }
            _ => return None,
        };
        Some((tag >> 3, value))
    }
}

impl<'a> Iterator for Message<'a> {
    type Item = (u64, Wire<'a>);

    fn next(&mut self) -> Option<(u64, Wire<'a>)> {
        if self.at >= self.bytes.len() || self.cut.is_some() {
            return None;
        }
        let start = self.at;
        let field = self.field();
        if field.is_none() {
            self.cut = Some(start);
        }
        field
    }
}
