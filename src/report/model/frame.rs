//! Frames, how they were found, and the reason for which there are no more of them.

use serde::{Deserialize, Serialize};

/// Frames of a stack for which the report had no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename = "[2..]")]
#[non_exhaustive]
pub struct Omitted {
    /// Index of the frame that they preceded, on its innermost side; the number of frames if they followed
    /// the last.
    pub at: u64,
    /// Count of these frames.
    pub count: u64,
}

/// A frame as a capture finds it: allocation-free, for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RawFrame {
    /// The program counter (avma) as captured.
    pub pc: u64,
    /// Method by which it was found.
    pub found: Found,
    /// Index of its image among the report's `image` sections; [`RawFrame::NO_IMAGE`] where none is
    /// known.
    pub image: u32,
}

impl RawFrame {
    /// The value of [`RawFrame::image`] for an address in no known image.
    pub const NO_IMAGE: u32 = u32::MAX;

    /// Room for so many frames. Each page is written to, so that the kernel has nothing left to map.
    // Inlined, the loop is unrolled at each caller: 27 KB of code.
    #[inline(never)]
    pub(crate) fn room(count: usize) -> Box<[RawFrame]> {
        let frame = RawFrame {
            pc: u64::MAX,
            ..RawFrame::default()
        };
        vec![frame; std::hint::black_box(count)].into_boxed_slice()
    }
}

/// One frame of a stack, as captured.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Frame {
    /// The program counter (avma) as captured: for callers, the return address.
    pub pc: u64,
    /// Method by which it was found.
    pub found: Found,
    /// Index into [`Report::images`](super::Report::images), if the address is in a known image; past their end if the
    /// report was cut before that image.
    pub image: Option<u32>,
    /// The name from the image's own symbol table, where `MonitorBuilder::resolve_names` is on.
    pub name: Option<String>,
}

impl Frame {
    /// A frame at the program counter of a register context, in no known image.
    pub fn new(pc: u64) -> Frame {
        Frame {
            pc,
            ..Frame::default()
        }
    }
}

/// A stack to be written, innermost frame first.
pub(crate) trait Frames {
    /// Count of the frames.
    fn len(&self) -> usize;

    /// The program counter of one, how it was found, its image, and its name.
    fn at(&self, index: usize) -> Option<(u64, Found, Option<u32>, Option<&str>)>;
}

impl Frames for Vec<Frame> {
    fn len(&self) -> usize {
        self.as_slice().len()
    }

    fn at(&self, index: usize) -> Option<(u64, Found, Option<u32>, Option<&str>)> {
        let frame = self.get(index)?;
        Some((frame.pc, frame.found, frame.image, frame.name.as_deref()))
    }
}

impl Frames for &[RawFrame] {
    fn len(&self) -> usize {
        (**self).len()
    }

    fn at(&self, index: usize) -> Option<(u64, Found, Option<u32>, Option<&str>)> {
        let frame = self.get(index)?;
        let image = (frame.image != RawFrame::NO_IMAGE).then_some(frame.image);
        Some((frame.pc, frame.found, image, None))
    }
}

/// The method by which a frame was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Found {
    /// 0: the program counter of a register context: the first frame, or one that a signal
    /// interrupted. It is looked up as it is.
    #[default]
    Context,
    /// 1: unwind information.
    UnwindInfo,
    /// 2: the frame pointer.
    FramePointer,
    /// 3: the link register, or the return address at the stack pointer.
    LeafReturnAddress,
    /// 254: an async caller of the frame before it, as other recorders list them. Its address, at which it resumes, is
    /// looked up as it is.
    AsyncCaller,
    /// 255: the recorder does not say. The address is taken for a return address.
    Unknown,
    /// A number that this version does not know.
    Other(u8),
}

impl Found {
    /// The number in the report.
    pub fn code(self) -> u8 {
        match self {
            Found::Context => 0,
            Found::UnwindInfo => 1,
            Found::FramePointer => 2,
            Found::LeafReturnAddress => 3,
            Found::AsyncCaller => 254,
            Found::Unknown => 255,
            Found::Other(n) => n,
        }
    }

    /// From the number in the report.
    pub fn from_code(code: u8) -> Found {
        match code {
            0 => Found::Context,
            1 => Found::UnwindInfo,
            2 => Found::FramePointer,
            3 => Found::LeafReturnAddress,
            254 => Found::AsyncCaller,
            255 => Found::Unknown,
            n => Found::Other(n),
        }
    }
}

words! {
    /// The reason why a walk stopped.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum WalkEnd {
        /// The thread's first function was reached.
        Root = "root",
        /// The copied stack ended before the thread's first function.
        Truncated = "truncated",
        /// Memory that the next frame needs could not be read.
        Unreadable = "unreadable",
        /// The address is in no image with unwind information, and no other rule applied.
        NoUnwindInfo = "no unwind info",
        /// As many frames as there is room for.
        Limit = "limit",
        /// A word that this version does not know; it is in [`Thread::extra`](super::Thread::extra) under `end`.
        #[default]
        #[serde(other)]
        Other = "other",
    }
}
