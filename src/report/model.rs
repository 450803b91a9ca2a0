//! What a report says: one type per section of the format, and the values they are made of.
//!
//! Every type is plain data. A field that a report may lack is an `Option` or an empty list; a key
//! that this version does not know is kept in `extra`, so that reading and writing again loses
//! nothing.

/// The value of a key that has no field of its own: any MessagePack value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `nil`
    Nil,
    /// `true` or `false`
    Bool(bool),
    /// An integer that is not negative.
    Unsigned(u64),
    /// A negative integer.
    Signed(i64),
    /// A float of either width.
    Float(f64),
    /// A string.
    Text(String),
    /// Raw bytes.
    Bytes(Vec<u8>),
    /// An array.
    Array(Vec<Value>),
    /// A map, in the order of the file.
    Map(Vec<(Value, Value)>),
    /// An extension value: its type and its bytes.
    Extension(i8, Vec<u8>),
}

/// Keys that this version of the format does not know, in the order of the file.
pub type Extra = Vec<(String, Value)>;

/// One report: everything that a file says.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Report {
    /// The first section: which app, which machine, which process, when.
    pub head: Head,
    /// What happened.
    pub event: Option<Event>,
    /// The threads, in the order of the file: the one in question first.
    pub threads: Vec<Thread>,
    /// The images that frames point into, in the order of the file; [`Frame::image`] indexes this.
    pub images: Vec<Image>,
    /// The stacks that were taken while a stall lasted.
    pub samples: Vec<Sample>,
    /// Gauges of process and device.
    pub vitals: Option<Vitals>,
    /// What the app itself said of its state.
    pub context: Option<Context>,
    /// How and after how long a stall ended.
    pub stall_end: Option<StallEnd>,
    /// What the capture cost.
    pub capture: Option<Capture>,
    /// What was not reported since launch, by reason.
    pub loss: Option<Loss>,
    /// The last section; absent where the writer did not come that far.
    pub end: Option<End>,
    /// Sections of kinds that this version does not know: kind, value.
    pub unknown: Vec<(String, Value)>,
}

/// The first section of every report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Head {
    /// Version of the format; 1 here.
    pub version: u64,
    /// Identifies this report.
    pub id: [u8; 16],
    /// Identifies the launch (the run of the process) that wrote it.
    pub launch: [u8; 16],
    /// Wall clock when the report was begun, nanoseconds since the Unix epoch.
    pub time: u64,
    /// Monotonic clock at the same moment, nanoseconds.
    pub clock: u64,
    /// The app's name and version.
    pub app: App,
    /// The operating system.
    pub os: Os,
    /// Device model, as `MacBookPro18,3`; on Linux the machine's product name where known.
    pub device: Option<String>,
    /// `arm64` or `x86_64`, the field's names.
    pub arch: String,
    /// Process id.
    pub pid: u64,
    /// Keys not known here.
    pub extra: Extra,
}

/// The app that was recorded.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct App {
    /// As given to `Monitor::builder`.
    pub name: String,
    /// As given to `Monitor::builder`.
    pub version: String,
    /// Keys not known here.
    pub extra: Extra,
}

/// The operating system it ran on.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Os {
    /// `Linux`, `macOS`, `iOS`.
    pub name: String,
    /// `6.1.0`, `14.5`.
    pub version: String,
    /// Build, as `23F79`; on Linux the kernel's version string.
    pub build: Option<String>,
    /// Keys not known here.
    pub extra: Extra,
}

/// What a report is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum EventKind {
    /// The watched thread's run loop did not come round in time.
    Stall,
    /// A fatal signal or Mach exception.
    Crash,
    /// A Rust panic.
    Panic,
    /// An uncaught Objective-C or C++ exception.
    Exception,
    /// Asked for by the app.
    #[default]
    Live,
    /// Too much CPU for too long.
    Cpu,
    /// Too much memory.
    Memory,
    /// A type that this version does not know; its name is in [`Event::extra`] under `type`.
    Other,
}

impl EventKind {
    /// The word in the report, as `stall`.
    pub fn as_str(self) -> &'static str {
        match self {
            EventKind::Stall => "stall",
            EventKind::Crash => "crash",
            EventKind::Panic => "panic",
            EventKind::Exception => "exception",
            EventKind::Live => "live",
            EventKind::Cpu => "cpu",
            EventKind::Memory => "memory",
            EventKind::Other => "other",
        }
    }

    /// From the word in the report; [`EventKind::Other`] for a word that this version does not know.
    pub fn from_word(word: &str) -> EventKind {
        match word {
            "stall" => EventKind::Stall,
            "crash" => EventKind::Crash,
            "panic" => EventKind::Panic,
            "exception" => EventKind::Exception,
            "live" => EventKind::Live,
            "cpu" => EventKind::Cpu,
            "memory" => EventKind::Memory,
            _ => EventKind::Other,
        }
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Event {
    /// Which kind of event.
    pub kind: EventKind,
    /// Whether the process died of it.
    pub fatal: bool,
    /// For a live report what the app gave; else one line for people.
    pub reason: Option<String>,
    /// The signal, for a crash.
    pub signal: Option<Signal>,
    /// Name of the exception or panic thread.
    pub name: Option<String>,
    /// Message of the panic or exception.
    pub message: Option<String>,
    /// `file:line:column` of the panic.
    pub location: Option<String>,
    /// Class of a stall: `busy`, `blocked`, `starved`, `suspended`, `debugger`, `modal`, `launch`.
    pub class: Option<String>,
    /// The thresholds that a stall passed.
    pub thresholds: Option<Thresholds>,
    /// Keys not known here.
    pub extra: Extra,
}

/// A fatal signal.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Signal {
    /// Its number on the platform that wrote the report.
    pub number: u64,
    /// As `SIGSEGV`.
    pub name: String,
    /// `si_code`.
    pub code: i64,
    /// As `SEGV_MAPERR`.
    pub code_name: Option<String>,
    /// The fault address; `None` where the CPU gave none.
    pub address: Option<u64>,
    /// Keys not known here.
    pub extra: Extra,
}

/// When a stall is one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Thresholds {
    /// One beat's time-out, nanoseconds.
    pub timeout: u64,
    /// So many time-outs in a row are a stall.
    pub strikes: u64,
    /// Keys not known here.
    pub extra: Extra,
}

/// One thread of the process.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Thread {
    /// The system's id of the thread.
    pub id: u64,
    /// Its name, where it has one.
    pub name: Option<String>,
    /// Whether it is the thread that was watched.
    pub main: bool,
    /// Whether it is the thread that crashed.
    pub crashed: bool,
    /// `running`, `runnable`, `blocked`, `uninterruptible`, `stopped`, `unresponsive`.
    pub state: Option<String>,
    /// The system call it was in, by name or number.
    pub syscall: Option<String>,
    /// CPU time, nanoseconds.
    pub cpu: Option<u64>,
    /// Registers by name, in the platform's customary order.
    pub registers: Vec<(String, u64)>,
    /// The stack, innermost frame first.
    pub frames: Vec<Frame>,
    /// Why the walk stopped.
    pub end: Option<WalkEnd>,
    /// Where frames were left out of [`Thread::frames`], and how many.
    pub omitted: Option<Omitted>,
    /// Keys not known here.
    pub extra: Extra,
}

/// Frames that a stack had and that the report does not hold, for want of room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Omitted {
    /// They stood before the frame of this index (leafward of it); the number of frames where they
    /// stood behind the last.
    pub at: u64,
    /// How many they were.
    pub count: u64,
}

/// A frame as a capture finds it: allocation-free, for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RawFrame {
    /// The program counter (avma) as captured.
    pub pc: u64,
    /// How it was found.
    pub found: Found,
    /// Index of its image among the report's `image` sections; [`RawFrame::NO_IMAGE`] where none is
    /// known.
    pub image: u32,
}

impl RawFrame {
    /// The value of [`RawFrame::image`] for an address in no known image.
    pub const NO_IMAGE: u32 = u32::MAX;
}

/// One frame of a stack, as captured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Frame {
    /// The program counter (avma) as captured: for callers, the return address.
    pub pc: u64,
    /// How it was found.
    pub found: Found,
    /// Index into [`Report::images`], if the address lies in a known image.
    pub image: Option<u32>,
    /// The name from the image's own symbol table, where the recorder was told to look it up.
    pub name: Option<String>,
}

/// How a frame was found.
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
    LinkRegister,
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
            Found::LinkRegister => 3,
            Found::Other(n) => n,
        }
    }

    /// From the number in the report.
    pub fn from_code(code: u8) -> Found {
        match code {
            0 => Found::Context,
            1 => Found::UnwindInfo,
            2 => Found::FramePointer,
            3 => Found::LinkRegister,
            n => Found::Other(n),
        }
    }
}

/// Why a walk stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WalkEnd {
    /// The thread's first function was reached.
    Root,
    /// The copied stack ended before the thread's first function.
    Truncated,
    /// Memory that the next frame needs could not be read.
    Unreadable,
    /// The address lies in no image with unwind information, and no other way was open.
    NoUnwindInfo,
    /// As many frames as there is room for.
    Limit,
    /// A word that this version does not know; it is in [`Thread::extra`] under `end`.
    Other,
}

impl WalkEnd {
    /// The word in the report.
    pub fn as_str(self) -> &'static str {
        match self {
            WalkEnd::Root => "root",
            WalkEnd::Truncated => "truncated",
            WalkEnd::Unreadable => "unreadable",
            WalkEnd::NoUnwindInfo => "no unwind info",
            WalkEnd::Limit => "limit",
            WalkEnd::Other => "other",
        }
    }

    /// From the word in the report; [`WalkEnd::Other`] for a word that this version does not know.
    pub fn from_word(word: &str) -> WalkEnd {
        match word {
            "root" => WalkEnd::Root,
            "truncated" => WalkEnd::Truncated,
            "unreadable" => WalkEnd::Unreadable,
            "no unwind info" => WalkEnd::NoUnwindInfo,
            "limit" => WalkEnd::Limit,
            _ => WalkEnd::Other,
        }
    }
}

/// One loaded image (executable or library).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Image {
    /// Its path.
    pub name: String,
    /// UUID (Mach-O, 16 bytes) or build id (ELF, as many bytes as the note has); empty if none.
    pub id: Vec<u8>,
    /// Where it lies in memory (avma of the stated base).
    pub base: u64,
    /// Where its file says it lies (svma): `avma - base + stated` is the address in the file.
    pub stated: u64,
    /// Bytes from `base` to the end of its last segment.
    pub size: u64,
    /// `arm64`, `arm64e` or `x86_64`.
    pub arch: Option<String>,
    /// Hash of the executable section, for images without an id.
    pub text_hash: Option<Vec<u8>>,
    /// Keys not known here.
    pub extra: Extra,
}

/// One stack taken during a stall.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sample {
    /// Since the stall's start, nanoseconds.
    pub at: u64,
    /// State of the thread, as in [`Thread::state`].
    pub state: Option<String>,
    /// How many samples in a row had this stack.
    pub count: u64,
    /// How many rootward frames are those of the sample before.
    pub keep: u64,
    /// The rest of the frames, leafward, innermost first.
    pub frames: Vec<Frame>,
    /// Where frames were left out of [`Sample::frames`], and how many.
    pub omitted: Option<Omitted>,
    /// Keys not known here.
    pub extra: Extra,
}

/// Gauges; those that are known.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Vitals {
    /// CPU shares, 1.0 = one core.
    pub cpu: Option<Cpu>,
    /// Memory, bytes.
    pub memory: Option<Memory>,
    /// Frames a second.
    pub frame_rate: Option<f64>,
    /// Since the process started, nanoseconds.
    pub uptime: Option<u64>,
    /// From process start to the app's `launched` mark, nanoseconds.
    pub launch_time: Option<u64>,
    /// `cold` or `warm`.
    pub launch_kind: Option<String>,
    /// Battery level, 0 to 1.
    pub battery: Option<f64>,
    /// Thermal state.
    pub thermal: Option<String>,
    /// Low-power mode.
    pub low_power: Option<bool>,
    /// Keys not known here.
    pub extra: Extra,
}

/// CPU use.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cpu {
    /// Of this process, without the watchdog; cores busy on average (1.0 = one core).
    pub process: Option<f64>,
    /// Of the watchdog thread.
    pub watchdog: Option<f64>,
    /// Of the device.
    pub device: Option<f64>,
    /// Number of cores.
    pub cores: Option<u64>,
    /// Keys not known here.
    pub extra: Extra,
}

/// Memory, bytes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Memory {
    /// Resident size.
    pub resident: Option<u64>,
    /// `phys_footprint` on Apple; `RssAnon` + `VmSwap` on Linux.
    pub footprint: Option<u64>,
    /// Highest resident size so far.
    pub peak: Option<u64>,
    /// Memory of the device.
    pub device_total: Option<u64>,
    /// Of it, free or easily freed.
    pub device_free: Option<u64>,
    /// Keys not known here.
    pub extra: Extra,
}

/// What the app said of itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Context {
    /// Keys and values set by the app.
    pub keys: Vec<(String, Value)>,
    /// Breadcrumbs, oldest first: time (monotonic, nanoseconds) and text.
    pub breadcrumbs: Vec<(u64, String)>,
    /// Gauges by name.
    pub gauges: Vec<(String, f64)>,
    /// Timed marks: name, start (monotonic, nanoseconds), duration (`None` while it lasts).
    pub marks: Vec<(String, u64, Option<u64>)>,
    /// Keys not known here.
    pub extra: Extra,
}

/// The end of a stall.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StallEnd {
    /// From its start, nanoseconds.
    pub duration: u64,
    /// `recovered`, `uninstalled`.
    pub how: String,
    /// Keys not known here.
    pub extra: Extra,
}

/// What a capture cost.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Capture {
    /// The watched thread stood still so long, nanoseconds.
    pub stopped: Option<u64>,
    /// Unwinding took so long, nanoseconds.
    pub unwind: Option<u64>,
    /// Bytes of stack copied.
    pub bytes: Option<u64>,
    /// Samples taken.
    pub samples: Option<u64>,
    /// Whether something was cut short, and what.
    pub cut: Option<Value>,
    /// Threads that did not answer.
    pub unanswered: Option<u64>,
    /// Keys not known here.
    pub extra: Extra,
}

/// What was not reported since launch: counts by reason.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Loss {
    /// `quota`, `back_off`, `background`, `late`, `debugger`, `sleep`, and what later versions add.
    pub counts: Vec<(String, u64)>,
    /// Keys whose value is no count.
    pub extra: Extra,
}

/// The last section.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct End {
    /// CRC-32 (IEEE, as zlib's) over all bytes before the first byte of this section.
    pub crc32: u32,
    /// Count of sections, this one included.
    pub sections: u64,
    /// `writer` or `next_launch`.
    pub closed_by: String,
    /// Keys not known here.
    pub extra: Extra,
}
