//! Records the memory near a crash: the bytes around pc, the fault address and sp, and the texts that registers point at.
//!
//! Signal-safe throughout. Every read is checked: memory that cannot be read is left out.

use crate::capture::Registers;
use crate::platform::{is_dumpable, memory};
use crate::recorder::{Recording, ReportBuffers};
use crate::report::NearMemoryView;

/// Bytes before an instruction or a fault address, and as many after it.
const BYTES_AROUND: u64 = 64;
/// Below the stack pointer: the red zone of x86_64's and arm64's ABI (System V ABI, AMD64, 3.2.2).
const RED_ZONE: u64 = 128;
const STACK_BYTES: usize = 1024;
const MAX_TEXT: usize = 256;
/// Shorter ones are numbers more often than texts.
const MIN_TEXT: usize = 4;

/// Writes a `memory` section for each place that can be read. Signal-safe.
pub(super) fn write(
    recording: &mut Recording,
    buffers: &mut ReportBuffers,
    registers: &Registers,
    address: Option<u64>,
) {
    let around = |address: u64| {
        (
            address.saturating_sub(BYTES_AROUND),
            const { 2 * BYTES_AROUND as usize },
        )
    };
    let stack_window = (registers.sp().saturating_sub(RED_ZONE), STACK_BYTES);
    let places = [
        ("pc", Some(around(registers.pc()))),
        ("address", address.map(around)),
        ("stack", Some(stack_window)),
    ];
    let mut one = |of: &str, at, bytes: &[u8], text: Option<&str>| {
        let view = NearMemoryView {
            of,
            at,
            bytes,
            text,
        };
        recording.write(buffers.buffer(), |writer| writer.section(&view));
    };
    // The kernel hides a non-dumpable process's memory from this user's programs: it must not go into a file that they can
    // read.
    if !is_dumpable() {
        return one("withheld", 0, &[], Some("the process is not dumpable"));
    }
    let mut buffer = [0; STACK_BYTES];
    for (of, place) in places {
        let Some((start, length)) = place else {
            continue;
        };
        let (at, bytes) = readable(start, buffer.get_mut(..length).unwrap_or_default());
        if !bytes.is_empty() {
            one(of, at, bytes, None);
        }
    }
    for (of, at) in registers.named() {
        if at == registers.pc() || at == registers.sp() {
            continue;
        }
        let mut buffer = [0; MAX_TEXT];
        let length = memory::read(at, &mut buffer);
        if let Some(text) = buffer.get(..length).and_then(text) {
            one(of, at, &[], Some(text));
        }
    }
}

/// Reads bytes from `start` on, and returns them with their address: that of the next page if the page of `start`
/// cannot be read.
fn readable(start: u64, into: &mut [u8]) -> (u64, &[u8]) {
    const PAGE: u64 = 4096;
    let read = memory::read(start, into);
    if read > 0 {
        return (start, into.get(..read).unwrap_or_default());
    }
    let next = (start | (PAGE - 1)).saturating_add(1);
    let left = usize::try_from(next.saturating_sub(start)).unwrap_or(usize::MAX);
    let length = into.len().saturating_sub(left);
    let into = into.get_mut(..length).unwrap_or_default();
    let read = memory::read(next, into);
    (next, into.get(..read).unwrap_or_default())
}

/// The C string that `bytes` begin with, if it reads as a text; cut at the end of `bytes`.
fn text(bytes: &[u8]) -> Option<&str> {
    let (length, whole) = match bytes.iter().position(|byte| *byte == 0) {
        Some(length) => (length, true),
        None => (bytes.len().saturating_sub(1), false),
    };
    let bytes = bytes.get(..length)?;
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        // The last character was cut.
        Err(error) if !whole && error.error_len().is_none() => {
            std::str::from_utf8(bytes.get(..error.valid_up_to())?).ok()?
        }
        Err(_) => return None,
    };
    let reads = |c: char| !c.is_control() || matches!(c, '\n' | '\t' | '\r');
    (text.len() >= MIN_TEXT && text.chars().all(reads)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_distinguished_from_numbers() {
        assert_eq!(text(b"order 66\0\x01\x02"), Some("order 66"));
        assert_eq!(text("Größe\0".as_bytes()), Some("Größe"));
        assert_eq!(text(b"abc\0"), None);
        assert_eq!(text(b"\x7fELF\x02\x01\x01\0"), None);
        assert_eq!(text(b"caf\xe9s\0"), None);
        assert_eq!(text(b""), None);
        // Cut within a character.
        let mut long = vec![b'x'; 254];
        long.extend("ß".as_bytes());
        assert_eq!(text(&long), Some(&*"x".repeat(254)));
    }
}
