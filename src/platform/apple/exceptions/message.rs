//! Mach messages, word by word (mach/message.h, mach/mach_exc.defs).

use mach2::kern_return::KERN_SUCCESS;
use mach2::message::{mach_msg, mach_msg_header_t};

/// Dispositions of a port in a message, and the bit for having any.
pub(super) const MOVE_SEND_ONCE: u32 = 18;
pub(super) const COPY_SEND: u32 = 19;
pub(super) const MAKE_SEND: u32 = 20;
pub(super) const MAKE_SEND_ONCE: u32 = 21;
pub(super) const COMPLEX: u32 = 0x8000_0000;
const SEND: i32 = 1;
const RECEIVE: i32 = 2;

/// A message, as large as any of these: two ports, codes and a thread state.
#[repr(C, align(8))]
pub(super) struct MachMessage([u8; 4096]);

/// Offsets of the header's and the body's fields.
pub(super) const REMOTE: usize = 8;
pub(super) const LOCAL: usize = 12;
pub(super) const ID: usize = 20;
pub(super) const THREAD: usize = 28;
pub(super) const TASK: usize = 40;
pub(super) const KIND: usize = 60;
pub(super) const CODES: usize = 68;
/// The first of the messages with codes of 64 bits (mach_exc.defs: subsystem 2405).
pub(super) const WIDE: u32 = 2405;
/// Offsets in an answer: the kernel's result behind header and NDR record, and the length.
pub(super) const RESULT: usize = 32;
pub(super) const ANSWER: usize = 36;

impl MachMessage {
    /// All zero.
    pub(super) fn new() -> MachMessage {
        MachMessage([0; 4096])
    }

    /// The word at a byte; 0 behind its end.
    pub(super) fn word(&self, at: usize) -> u32 {
        let bytes = self.0.get(at..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }

    /// Sets the word at a byte.
    pub(super) fn set(&mut self, at: usize, word: u32) {
        if let Some(place) = self.0.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
            *place = word.to_ne_bytes();
        }
    }

    /// Sends it as it is; whether that was possible.
    pub(super) fn send(&mut self) -> bool {
        let size = self.word(4);
        // SAFETY: a message in memory of ours, no longer than that.
        unsafe { mach_msg(self.header(), SEND, size, 0, 0, 0, 0) == KERN_SUCCESS }
    }

    /// Waits for one; `false` once the port is gone.
    pub(super) fn receive(&mut self, port: u32) -> bool {
        let room = self.0.len() as u32;
        // SAFETY: the kernel writes at most so many bytes.
        unsafe { mach_msg(self.header(), RECEIVE, 0, room, port, 0, 0) == KERN_SUCCESS }
    }

    fn header(&mut self) -> *mut mach_msg_header_t {
        std::ptr::from_mut(self).cast()
    }
}
