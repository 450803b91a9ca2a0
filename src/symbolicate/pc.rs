//! From a program counter as captured to the address to look up: the one place that subtracts.

use crate::report::model::{EventKind, Found, Frame, Report, Thread};

/// A program counter (avma) with the rule for looking it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pc {
    /// The address of an instruction that had not run to its end: looked up as it is.
    Exact(u64),
    /// The address after a call, or after a trap that leaves the program counter there. It is looked up one byte
    /// earlier, within that instruction.
    After(u64),
}

impl Pc {
    /// The address as captured.
    pub fn captured(self) -> u64 {
        match self {
            Pc::Exact(pc) | Pc::After(pc) => pc,
        }
    }

    /// The address to look up.
    pub fn lookup(self) -> u64 {
        match self {
            Pc::Exact(pc) => pc,
            Pc::After(pc) => pc.wrapping_sub(1),
        }
    }

    /// The rule for frame `index` of `thread`.
    ///
    /// A register context's program counter is exact. Two traps leave it one instruction on: `int3` (SIGTRAP on x86_64)
    /// and a seccomp SIGSYS. Every other frame's is a return address, except that of the signal trampoline. The frame
    /// before an interrupted one was never called: its address is the trampoline's first instruction. On armv7 the lowest
    /// bit of a return address marks a caller of Thumb instructions, and is no part of the address.
    pub fn of_frame(report: &Report, thread: &Thread, index: usize) -> Option<Pc> {
        let frame = thread.frames.get(index)?;
        let next = thread.frames.get(index + 1);
        let interrupted_next = next.is_some_and(|next| next.found == Found::Context);
        Some(match frame.found {
            Found::Context if index == 0 && thread.crashed && trap_is_passed(report) => {
                Pc::After(frame.pc)
            }
            Found::Context | Found::AsyncCaller => Pc::Exact(frame.pc),
            _ if interrupted_next => Pc::Exact(frame.pc),
            _ if is_armv7(report, frame) => Pc::After(frame.pc & !1),
            _ => Pc::After(frame.pc),
        })
    }
}

/// Returns true if a frame is of 32-bit ARM instructions, by its image, or by the report.
fn is_armv7(report: &Report, frame: &Frame) -> bool {
    let image = frame.image.and_then(|at| report.images.get(at as usize));
    let arch = image.and_then(|image| image.arch.as_deref());
    let arch = arch.unwrap_or(&report.head.arch);
    arch == "arm" || arch.starts_with("armv")
}

/// Returns true if the signal that the report is about leaves the program counter after its instruction.
fn trap_is_passed(report: &Report) -> bool {
    let event = report.event.as_ref();
    let event = event.filter(|event| event.kind == EventKind::Crash);
    let signal = event.and_then(|event| event.signal.as_ref());
    let arch = report.head.arch.as_str();
    match signal.map(|signal| signal.name.as_str()) {
        Some("SIGSYS") => true,
        // `brk` and `udf` leave the program counter where it is
        Some("SIGTRAP") => !arch.starts_with("arm") && !arch.starts_with("aarch"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::{Event, Signal};

    fn crash(signal: &str, arch: &str, found: &[Found]) -> (Report, Thread) {
        let mut report = Report::default();
        report.head.arch = arch.into();
        report.event = Some(Event {
            kind: EventKind::Crash,
            fatal: true,
            signal: Some(Signal {
                name: signal.into(),
                ..Signal::default()
            }),
            ..Event::default()
        });
        let frame = |&found: &Found| Frame {
            pc: 0x1000,
            found,
            ..Frame::default()
        };
        let thread = Thread {
            crashed: true,
            frames: found.iter().map(frame).collect(),
            ..Thread::default()
        };
        (report, thread)
    }

    fn lookups(signal: &str, arch: &str, found: &[Found]) -> Vec<u64> {
        let (report, thread) = crash(signal, arch, found);
        (0..found.len())
            .map(|i| Pc::of_frame(&report, &thread, i).map_or(0, Pc::lookup))
            .collect()
    }

    #[test]
    fn return_addresses_are_one_less_and_contexts_are_not() {
        use Found::{Context, FramePointer, LeafReturnAddress, UnwindInfo};
        let found = [Context, UnwindInfo, FramePointer, LeafReturnAddress];
        let expected = [0x1000, 0xfff, 0xfff, 0xfff];
        assert_eq!(lookups("SIGSEGV", "x86_64", &found), expected);
    }

    #[test]
    fn the_mark_of_thumb_is_no_part_of_a_return_address() {
        for (arch, lookup) in [("armv7", 0xfff), ("arm", 0xfff), ("arm64", 0x1000)] {
            let (report, mut thread) = crash("SIGSEGV", arch, &[Found::FramePointer; 2]);
            // The instruction before the one at 0x1000 is of two bytes, and ends there.
            thread.frames[1].pc = 0x1001;
            let found = Pc::of_frame(&report, &thread, 1).map(Pc::lookup);
            assert_eq!(found, Some(lookup), "{arch}");
        }
    }

    #[test]
    fn traps_leave_the_program_counter_behind_them() {
        let found = [Found::Context, Found::UnwindInfo];
        assert_eq!(lookups("SIGTRAP", "x86_64", &found), [0xfff, 0xfff]);
        assert_eq!(lookups("SIGSYS", "x86_64", &found), [0xfff, 0xfff]);
        assert_eq!(lookups("SIGSYS", "arm64", &found), [0xfff, 0xfff]);
        for arch in [
            "arm64", "arm64e", "aarch64", "arm", "armv7", "armv7s", "armv7k",
        ] {
            let found = lookups("SIGTRAP", arch, &found);
            assert_eq!(found, [0x1000, 0xfff], "{arch}");
        }
    }

    #[test]
    fn another_thread_of_a_trap_and_frames_further_out_are_contexts_as_ever() {
        let (report, mut thread) = crash("SIGTRAP", "x86_64", &[Found::Context]);
        thread.crashed = false;
        assert_eq!(Pc::of_frame(&report, &thread, 0), Some(Pc::Exact(0x1000)));
    }

    #[test]
    fn the_signal_trampoline_was_never_called() {
        use Found::{Context, UnwindInfo};
        let found = [Context, UnwindInfo, UnwindInfo, Context, UnwindInfo];
        let expected = [0x1000, 0xfff, 0x1000, 0x1000, 0xfff];
        assert_eq!(lookups("SIGABRT", "x86_64", &found), expected);
    }
}
