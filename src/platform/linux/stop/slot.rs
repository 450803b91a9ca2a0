//! The slot in which a stopper and a handler meet: a request, handed back and forth by one atomic word.

use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::atomic::{AtomicI32, AtomicU64};

use super::super::context::REGISTERS;
use crate::platform::surface::WhileStopped;

/// Most stoppers of a process at a time.
const SLOTS: usize = 32;

/// A piece of a stack that was copied.
#[derive(Debug, Clone, Copy)]
pub(super) struct StackPart {
    /// Offset in the request's memory.
    pub(super) at: usize,
    /// Address of these bytes in memory.
    pub(super) base: u64,
    pub(super) bytes: usize,
}

impl StackPart {
    pub(super) const NONE: StackPart = StackPart {
        at: 0,
        base: 0,
        bytes: 0,
    };
}

/// The memory that a handler fills in: for it alone while the slot is `COPYING`, else for the stopper alone.
pub(super) struct CaptureRequest {
    pub(super) into: *mut u8,
    pub(super) room: usize,
    pub(super) known: Range<u64>,
    pub(super) budget: u64,
    pub(super) registers: [u64; REGISTERS],
    /// Range of the thread's alternate stack; empty without one.
    pub(super) alternate: Range<u64>,
    pub(super) parts: [StackPart; 2],
    /// True if a copied stack may hold a word with the mark.
    pub(super) marked: bool,
    pub(super) work: Option<WhileStopped>,
    /// Room for the work's words, and the count of them.
    pub(super) notes: *mut u64,
    pub(super) noted: usize,
    pub(super) stopped: u64,
    pub(super) cut: bool,
}

#[repr(align(64))]
pub(super) struct CaptureSlot {
    /// Generation << 4 | flags | phase.
    pub(super) state: AtomicU64,
    /// The thread that is to answer, for a signal that cannot carry which slot it is about; 0 for none.
    pub(super) thread: AtomicI32,
    pub(super) request: UnsafeCell<CaptureRequest>,
}

// SAFETY: `request` is handed back and forth by `state`, see `CaptureRequest`.
unsafe impl Sync for CaptureSlot {}

pub(super) const FREE: u64 = 0;
pub(super) const IDLE: u64 = 1;
pub(super) const REQUESTED: u64 = 2;
pub(super) const COPYING: u64 = 3;
pub(super) const DONE: u64 = 4;
/// The thread cannot run the handler.
pub(super) const REFUSED: u64 = 5;
pub(super) const PHASE: u64 = 7;
/// The stopper sleeps on the state and wants to be woken.
pub(super) const WAITING: u64 = 8;
pub(super) const GENERATION: u32 = 4;

pub(super) static SLOT: [CaptureSlot; SLOTS] = [const {
    CaptureSlot {
        state: AtomicU64::new(FREE),
        thread: AtomicI32::new(0),
        request: UnsafeCell::new(CaptureRequest {
            into: std::ptr::null_mut(),
            room: 0,
            known: 0..0,
            budget: 0,
            registers: [0; REGISTERS],
            alternate: 0..0,
            parts: [StackPart::NONE; 2],
            marked: false,
            work: None,
            notes: std::ptr::null_mut(),
            noted: 0,
            stopped: 0,
            cut: false,
        }),
    }
}; SLOTS];

/// The slot with this number, which is below [`SLOTS`]; the first one for any other. Signal-safe.
pub(super) fn at(number: usize) -> &'static CaptureSlot {
    let [first, ..] = &SLOT;
    SLOT.get(number).unwrap_or(first)
}

/// The signal's value has 8 bits for the slot and the rest for the generation.
pub(super) const GENERATIONS: u64 = (1 << 56) - 1;
