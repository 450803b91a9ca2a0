//! What a section is written from: borrowed, allocation-free views, each with its encoding.
//!
//! Signal-safe throughout. Optional values that are `None`, lists that are empty and flags that are
//! `false` are not written: their absence says the same.

use super::encode::{MapEncoder, unsigned_len};
use super::limits;
use super::model::{EventKind, Frame, Omitted, RawFrame, WalkEnd};

/// What `head` says.
#[derive(Debug, Clone, Copy, Default)]
pub struct HeadView<'a> {
    /// Identifies this report.
    pub id: [u8; 16],
    /// Identifies the launch.
    pub launch: [u8; 16],
    /// Wall clock, nanoseconds since the Unix epoch.
    pub time: u64,
    /// Monotonic clock at the same moment, nanoseconds.
    pub clock: u64,
    /// The app's name.
    pub app_name: &'a str,
    /// The app's version.
    pub app_version: &'a str,
    /// `Linux`, `macOS`, `iOS`.
    pub os_name: &'a str,
    /// Version of the system.
    pub os_version: &'a str,
    /// Its build.
    pub os_build: Option<&'a str>,
    /// Device model.
    pub device: Option<&'a str>,
    /// `arm64`, `x86_64`.
    pub arch: &'a str,
    /// Process id.
    pub pid: u64,
}

/// The word that marks a file as a report: the value of `format` in `head`.
pub(crate) const FORMAT: &str = "wedjat";
/// The version of the format that this crate writes.
pub(crate) const VERSION: u64 = 1;

impl HeadView<'_> {
    pub(crate) const KIND: &'static str = "head";

    pub(crate) fn encode(&self, m: &mut MapEncoder<'_, '_>) {
        self.encode_with(m, VERSION, |_| {}, |_| {});
    }

    pub(crate) fn encode_with(
        &self,
        m: &mut MapEncoder<'_, '_>,
        version: u64,
        app_extra: impl FnOnce(&mut MapEncoder<'_, '_>),
        os_extra: impl FnOnce(&mut MapEncoder<'_, '_>),
    ) {
        m.text("format", FORMAT);
        m.unsigned("version", version);
        m.bin("id", &self.id);
        m.bin("launch", &self.launch);
        m.unsigned("time", self.time);
        m.unsigned("clock", self.clock);
        m.unsigned("pid", self.pid);
        m.text("arch", self.arch);
        m.map("app", |m| {
            m.text("name", self.app_name);
            m.text("version", self.app_version);
            app_extra(m);
        });
        m.map("os", |m| {
            m.text("name", self.os_name);
            m.text("version", self.os_version);
            optional_text(m, "build", self.os_build);
            os_extra(m);
        });
        optional_text(m, "device", self.device);
    }
}

/// What `event` says.
#[derive(Debug, Clone, Copy, Default)]
pub struct EventView<'a> {
    /// Which kind of event.
    pub kind: EventKind,
    /// Whether the process dies of it.
    pub fatal: bool,
    /// For a live report what the app gave; else one line for people.
    pub reason: Option<&'a str>,
    /// The signal, for a crash.
    pub signal: Option<SignalView<'a>>,
    /// Name of the exception or of the panicking thread.
    pub name: Option<&'a str>,
    /// Message of the panic or exception.
    pub message: Option<&'a str>,
    /// `file:line:column` of the panic.
    pub location: Option<&'a str>,
    /// Class of a stall.
    pub class: Option<&'a str>,
    /// The thresholds that a stall passed.
    pub thresholds: Option<ThresholdsView>,
}

/// What `event.thresholds` says.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThresholdsView {
    /// One beat's time-out, nanoseconds.
    pub timeout: u64,
    /// So many time-outs in a row are a stall.
    pub strikes: u64,
}

/// What `event.signal` says.
#[derive(Debug, Clone, Copy, Default)]
pub struct SignalView<'a> {
    /// Its number.
    pub number: u64,
    /// As `SIGSEGV`.
    pub name: &'a str,
    /// `si_code`.
    pub code: i64,
    /// As `SEGV_MAPERR`.
    pub code_name: Option<&'a str>,
    /// The fault address.
    pub address: Option<u64>,
}

impl EventView<'_> {
    pub(crate) const KIND: &'static str = "event";

    pub(crate) fn encode(&self, m: &mut MapEncoder<'_, '_>) {
        self.encode_with(m, Some(self.kind.as_str()), |_| {}, |_| {});
    }

    pub(crate) fn encode_with(
        &self,
        m: &mut MapEncoder<'_, '_>,
        kind: Option<&str>,
        signal_extra: impl FnOnce(&mut MapEncoder<'_, '_>),
        thresholds_extra: impl FnOnce(&mut MapEncoder<'_, '_>),
    ) {
        optional_text(m, "type", kind);
        m.bool("fatal", self.fatal);
        if let Some(signal) = &self.signal {
            m.map("signal", |m| {
                m.unsigned("number", signal.number);
                m.text("name", signal.name);
                m.signed("code", signal.code);
                optional_text(m, "code_name", signal.code_name);
                optional_unsigned(m, "address", signal.address);
                signal_extra(m);
            });
        }
        if let Some(thresholds) = self.thresholds {
            m.map("thresholds", |m| {
                m.unsigned("timeout", thresholds.timeout);
                m.unsigned("strikes", thresholds.strikes);
                thresholds_extra(m);
            });
        }
        optional_text(m, "class", self.class);
        optional_text(m, "name", self.name);
        optional_text(m, "location", self.location);
        optional_text(m, "reason", self.reason);
        optional_text(m, "message", self.message);
    }
}

/// What a `thread` says.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThreadView<'a> {
    /// The system's id of the thread.
    pub id: u64,
    /// Its name.
    pub name: Option<&'a str>,
    /// Whether it is the thread that was watched.
    pub main: bool,
    /// Whether it is the thread that crashed.
    pub crashed: bool,
    /// State, as `running`, `blocked`, `unresponsive`.
    pub state: Option<&'a str>,
    /// The system call it was in.
    pub syscall: Option<&'a str>,
    /// CPU time, nanoseconds.
    pub cpu: Option<u64>,
    /// Registers by name.
    pub registers: &'a [(&'a str, u64)],
    /// The stack, innermost frame first.
    pub frames: &'a [RawFrame],
    /// Why the walk stopped.
    pub end: Option<WalkEnd>,
    /// Frames that the capture itself left out.
    pub omitted: Option<Omitted>,
}

impl ThreadView<'_> {
    pub(crate) const KIND: &'static str = "thread";

    pub(crate) fn encode<F: Frames + ?Sized>(&self, m: &mut MapEncoder<'_, '_>, frames: &F) {
        let end = self.end.map(WalkEnd::as_str);
        self.encode_with(m, end, self.registers.iter().copied(), frames);
    }

    pub(crate) fn encode_with<'r, F: Frames + ?Sized>(
        &self,
        m: &mut MapEncoder<'_, '_>,
        end: Option<&str>,
        registers: impl Iterator<Item = (&'r str, u64)> + Clone,
        frames: &F,
    ) {
        m.hold(GAP);
        m.unsigned("id", self.id);
        flag(m, "main", self.main);
        flag(m, "crashed", self.crashed);
        optional_text(m, "name", self.name);
        optional_text(m, "state", self.state);
        optional_text(m, "syscall", self.syscall);
        optional_unsigned(m, "cpu", self.cpu);
        optional_text(m, "end", end);
        let bytes = registers.clone().fold(12, |sum: usize, (name, value)| {
            sum.saturating_add(name.len())
                .saturating_add(2)
                .saturating_add(unsigned_len(value))
        });
        if bytes > 12 {
            // Frames are worth more than registers.
            if bytes <= m.room() / 2 || frames.is_empty() {
                m.map("registers", |m| {
                    registers.for_each(|(name, value)| m.unsigned(name, value))
                });
            } else {
                m.drop_count(1);
            }
        }
        encode_frames(m, frames, self.omitted);
    }
}

/// What an `image` says.
#[derive(Debug, Clone, Copy, Default)]
pub struct ImageView<'a> {
    /// Its path.
    pub name: &'a str,
    /// UUID or build id; empty if it has none.
    pub id: &'a [u8],
    /// Where it lies in memory (avma of the stated base).
    pub base: u64,
    /// Where its file says it lies (svma).
    pub stated: u64,
    /// Bytes from `base` to the end of its last segment.
    pub size: u64,
    /// `arm64`, `arm64e`, `x86_64`.
    pub arch: Option<&'a str>,
    /// Hash of the executable section, for images without an id.
    pub text_hash: Option<&'a [u8]>,
}

impl ImageView<'_> {
    pub(crate) const KIND: &'static str = "image";

    pub(crate) fn encode(&self, m: &mut MapEncoder<'_, '_>) {
        m.bin("id", self.id);
        m.unsigned("base", self.base);
        m.unsigned("stated", self.stated);
        m.unsigned("size", self.size);
        optional_text(m, "arch", self.arch);
        if let Some(hash) = self.text_hash {
            m.bin("text_hash", hash);
        }
        m.text("name", self.name);
    }
}

/// What a `sample` says.
#[derive(Debug, Clone, Copy, Default)]
pub struct SampleView<'a> {
    /// Since the stall's start, nanoseconds.
    pub at: u64,
    /// State of the thread.
    pub state: Option<&'a str>,
    /// How many samples in a row had this stack.
    pub count: u64,
    /// How many rootward frames are those of the sample before.
    pub keep: u64,
    /// The rest of the frames, innermost first.
    pub frames: &'a [RawFrame],
    /// Frames that the capture itself left out.
    pub omitted: Option<Omitted>,
}

impl SampleView<'_> {
    pub(crate) const KIND: &'static str = "sample";

    pub(crate) fn encode<F: Frames + ?Sized>(&self, m: &mut MapEncoder<'_, '_>, frames: &F) {
        m.hold(GAP);
        m.unsigned("at", self.at);
        m.unsigned("count", self.count);
        m.unsigned("keep", self.keep);
        optional_text(m, "state", self.state);
        encode_frames(m, frames, self.omitted);
    }
}

/// What `vitals` says: those that are known.
#[derive(Debug, Clone, Copy, Default)]
pub struct VitalsView<'a> {
    /// CPU use.
    pub cpu: CpuView,
    /// Memory.
    pub memory: MemoryView,
    /// Frames a second.
    pub frame_rate: Option<f64>,
    /// Since the process started, nanoseconds.
    pub uptime: Option<u64>,
    /// From process start to the app's `launched` mark, nanoseconds.
    pub launch_time: Option<u64>,
    /// `cold` or `warm`.
    pub launch_kind: Option<&'a str>,
    /// Battery level, 0 to 1.
    pub battery: Option<f64>,
    /// Thermal state.
    pub thermal: Option<&'a str>,
    /// Low-power mode.
    pub low_power: Option<bool>,
}

/// CPU use; 1.0 = one core.
#[derive(Debug, Clone, Copy, Default)]
pub struct CpuView {
    /// Of this process, without the watchdog.
    pub process: Option<f64>,
    /// Of the watchdog thread.
    pub watchdog: Option<f64>,
    /// Of the device.
    pub device: Option<f64>,
    /// Number of cores.
    pub cores: Option<u64>,
}

/// Memory, bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemoryView {
    /// Resident size.
    pub resident: Option<u64>,
    /// Footprint.
    pub footprint: Option<u64>,
    /// Highest resident size so far.
    pub peak: Option<u64>,
    /// Memory of the device.
    pub device_total: Option<u64>,
    /// Of it, free or easily freed.
    pub device_free: Option<u64>,
}

impl VitalsView<'_> {
    pub(crate) const KIND: &'static str = "vitals";

    pub(crate) fn encode(&self, m: &mut MapEncoder<'_, '_>) {
        let c = &self.cpu;
        if c.process.is_some() || c.watchdog.is_some() || c.device.is_some() || c.cores.is_some() {
            m.map("cpu", |m| c.encode(m));
        }
        let y = &self.memory;
        if [
            y.resident,
            y.footprint,
            y.peak,
            y.device_total,
            y.device_free,
        ]
        .iter()
        .any(Option::is_some)
        {
            m.map("memory", |m| y.encode(m));
        }
        self.encode_rest(m);
    }

    /// All but the maps `cpu` and `memory`.
    pub(crate) fn encode_rest(&self, m: &mut MapEncoder<'_, '_>) {
        optional_unsigned(m, "uptime", self.uptime);
        optional_float(m, "frame_rate", self.frame_rate);
        optional_unsigned(m, "launch_time", self.launch_time);
        optional_text(m, "launch_kind", self.launch_kind);
        optional_float(m, "battery", self.battery);
        optional_text(m, "thermal", self.thermal);
        if let Some(low_power) = self.low_power {
            m.bool("low_power", low_power);
        }
    }
}

impl CpuView {
    pub(crate) fn encode(&self, m: &mut MapEncoder<'_, '_>) {
        optional_float(m, "process", self.process);
        optional_float(m, "watchdog", self.watchdog);
        optional_float(m, "device", self.device);
        optional_unsigned(m, "cores", self.cores);
    }
}

impl MemoryView {
    pub(crate) fn encode(&self, m: &mut MapEncoder<'_, '_>) {
        optional_unsigned(m, "resident", self.resident);
        optional_unsigned(m, "footprint", self.footprint);
        optional_unsigned(m, "peak", self.peak);
        optional_unsigned(m, "device_total", self.device_total);
        optional_unsigned(m, "device_free", self.device_free);
    }
}

/// What `context` says, as iterators: over whatever the app's state lies in.
///
/// ```
/// use wedjat::report::{ContextView, ReportWriter, ValueView};
/// let mut buffer = [0; 1024];
/// let mut file: Vec<u8> = Vec::new();
/// ReportWriter::new(&mut buffer, &mut file).context(ContextView {
///     keys: [("screen", ValueView::Text("Checkout"))].into_iter(),
///     breadcrumbs: [(1_000, "tapped Buy")].into_iter(),
///     gauges: [("queue", 3.0)].into_iter(),
///     marks: [("load", 500, Some(400))].into_iter(),
/// })?;
/// # Ok::<(), wedjat::report::SinkError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ContextView<K, B, G, M> {
    /// Keys and values set by the app.
    pub keys: K,
    /// Breadcrumbs, oldest first: time (monotonic, nanoseconds) and text.
    pub breadcrumbs: B,
    /// Gauges by name.
    pub gauges: G,
    /// Timed marks: name, start (monotonic, nanoseconds), duration.
    pub marks: M,
}

/// A borrowed value of a context key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ValueView<'a> {
    /// `nil`
    Nil,
    /// `true` or `false`
    Bool(bool),
    /// An integer that is not negative.
    Unsigned(u64),
    /// An integer.
    Signed(i64),
    /// A float.
    Float(f64),
    /// A string.
    Text(&'a str),
    /// Raw bytes.
    Bytes(&'a [u8]),
}

pub(crate) const CONTEXT_KIND: &str = "context";

impl<'a, K, B, G, M> ContextView<K, B, G, M>
where
    K: Iterator<Item = (&'a str, ValueView<'a>)>,
    B: Iterator<Item = (u64, &'a str)> + Clone,
    G: Iterator<Item = (&'a str, f64)>,
    M: Iterator<Item = (&'a str, u64, Option<u64>)>,
{
    pub(crate) fn encode(self, m: &mut MapEncoder<'_, '_>) {
        let mut keys = self.keys.peekable();
        if keys.peek().is_some() {
            m.map("keys", |m| {
                keys.for_each(|(key, value)| match value {
                    ValueView::Text(text) => m.text(key, text),
                    value => {
                        m.entry(key, |e| match value {
                            ValueView::Nil => e.nil(),
                            ValueView::Bool(value) => e.bool(value),
                            ValueView::Unsigned(value) => e.unsigned(value),
                            ValueView::Signed(value) => e.signed(value),
                            ValueView::Float(value) => e.float(value),
                            ValueView::Text(value) => e.text(value),
                            ValueView::Bytes(value) => e.bin(value),
                        });
                    }
                });
            });
        }
        let mut gauges = self.gauges.peekable();
        if gauges.peek().is_some() {
            m.map("gauges", |m| {
                gauges.for_each(|(name, value)| m.float(name, value))
            });
        }
        let mut marks = self.marks.peekable();
        if marks.peek().is_some() {
            m.array("marks", |a| {
                marks.for_each(|(name, start, duration)| {
                    a.item(|e| {
                        e.put(&[0x93]);
                        e.text(name);
                        e.unsigned(start);
                        match duration {
                            Some(duration) => e.unsigned(duration),
                            None => e.nil(),
                        }
                    });
                });
            });
        }
        let size = |text: &str| text.len().saturating_add(1 + 9 + 5);
        let bytes = self
            .breadcrumbs
            .clone()
            .fold(0, |sum: usize, (_, text)| sum.saturating_add(size(text)));
        if bytes == 0 {
            return;
        }
        // The newest are worth most: leave out from the oldest on until the rest fits.
        let mut excess = bytes.saturating_sub(m.room().saturating_sub(24));
        m.array("breadcrumbs", |a| {
            let mut left_out = 0;
            self.breadcrumbs.for_each(|(time, text)| {
                if excess > 0 {
                    excess = excess.saturating_sub(size(text));
                    left_out += 1u64;
                    return;
                }
                a.item(|e| {
                    e.put(&[0x92]);
                    e.unsigned(time);
                    e.text(text);
                });
            });
            a.drop_count(left_out);
        });
    }
}

/// What `stall_end` says.
#[derive(Debug, Clone, Copy, Default)]
pub struct StallEndView<'a> {
    /// From the stall's start, nanoseconds.
    pub duration: u64,
    /// `recovered`, `uninstalled`.
    pub how: &'a str,
}

impl StallEndView<'_> {
    pub(crate) const KIND: &'static str = "stall_end";

    pub(crate) fn encode(&self, m: &mut MapEncoder<'_, '_>) {
        m.unsigned("duration", self.duration);
        m.text("how", self.how);
    }
}

/// What `capture` says.
#[derive(Debug, Clone, Copy, Default)]
pub struct CaptureView<'a> {
    /// The watched thread stood still so long, nanoseconds.
    pub stopped: Option<u64>,
    /// Unwinding took so long, nanoseconds.
    pub unwind: Option<u64>,
    /// Bytes of stack copied.
    pub bytes: Option<u64>,
    /// Samples taken.
    pub samples: Option<u64>,
    /// What was cut short, as `budget`, `stack limit`; `None` where nothing was.
    pub cut: Option<&'a str>,
    /// Threads that did not answer.
    pub unanswered: Option<u64>,
}

impl CaptureView<'_> {
    pub(crate) const KIND: &'static str = "capture";

    pub(crate) fn encode(&self, m: &mut MapEncoder<'_, '_>) {
        optional_unsigned(m, "stopped", self.stopped);
        optional_unsigned(m, "unwind", self.unwind);
        optional_unsigned(m, "bytes", self.bytes);
        optional_unsigned(m, "samples", self.samples);
        optional_unsigned(m, "unanswered", self.unanswered);
        optional_text(m, "cut", self.cut);
    }
}

/// What `loss` says: counts by reason.
#[derive(Debug, Clone, Copy, Default)]
pub struct LossView<'a> {
    /// Reason and count; reasons whose count is 0 are not written.
    pub counts: &'a [(&'a str, u64)],
}

impl LossView<'_> {
    pub(crate) const KIND: &'static str = "loss";

    pub(crate) fn encode(&self, m: &mut MapEncoder<'_, '_>) {
        for &(reason, count) in self.counts {
            if count > 0 {
                m.unsigned(reason, count);
            }
        }
    }
}

pub(crate) const END_KIND: &str = "end";

pub(crate) fn encode_end(m: &mut MapEncoder<'_, '_>, crc: u32, sections: u64, closed_by: &str) {
    m.unsigned("crc32", u64::from(crc));
    m.unsigned("sections", sections);
    m.text("closed_by", closed_by);
}

/// A list of frames: a capture's or a model's.
pub(crate) trait Frames {
    fn len(&self) -> usize;
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// pc, found, image and name of one.
    fn at(&self, index: usize) -> Option<(u64, u8, Option<u32>, Option<&str>)>;
}

impl Frames for [RawFrame] {
    fn len(&self) -> usize {
        self.len()
    }

    fn at(&self, index: usize) -> Option<(u64, u8, Option<u32>, Option<&str>)> {
        let frame = self.get(index)?;
        let image = (frame.image != RawFrame::NO_IMAGE).then_some(frame.image);
        Some((frame.pc, frame.found.code(), image, None))
    }
}

impl Frames for [Frame] {
    fn len(&self) -> usize {
        self.len()
    }

    fn at(&self, index: usize) -> Option<(u64, u8, Option<u32>, Option<&str>)> {
        let frame = self.get(index)?;
        Some((
            frame.pc,
            frame.found.code(),
            frame.image,
            frame.name.as_deref(),
        ))
    }
}

/// Bytes that frame `index` takes.
fn frame_len<F: Frames + ?Sized>(frames: &F, index: usize) -> usize {
    let Some((pc, found, image, name)) = frames.at(index) else {
        return 0;
    };
    let image = image.map_or(1, |image| unsigned_len(u64::from(image)));
    let name = name.map_or(0, |name| name.len().saturating_add(5));
    (1 + unsigned_len(pc) + unsigned_len(u64::from(found)) + image).saturating_add(name)
}

/// Bytes that `omitted` may take: they are held from the section's start, so that a gap is always told.
const GAP: usize = (8 + 1 + 9 + 9) + 4;

/// `frames`, and `omitted` where some are missing. Of a stack that does not fit, three leafward frames
/// are kept for each rootward one. [`GAP`] bytes are held, and released here.
fn encode_frames<F: Frames + ?Sized>(
    m: &mut MapEncoder<'_, '_>,
    frames: &F,
    omitted: Option<Omitted>,
) {
    /// `frames` with its longest header, and the map's widening.
    const OVERHEAD: usize = (7 + 5) + 4;
    let count = frames.len();
    let room = m.room().saturating_sub(OVERHEAD);
    let (mut leaf, mut root) = (0, count);
    let mut bytes = 0usize;
    while leaf < root && leaf + (count - root) < limits::FRAMES {
        // After each three leafward frames, one rootward.
        let rootward = (leaf + (count - root)) % 4 == 3;
        let next = if rootward { root - 1 } else { leaf };
        bytes = bytes.saturating_add(frame_len(frames, next));
        if bytes > room {
            break;
        }
        if rootward {
            root -= 1;
        } else {
            leaf += 1;
        }
    }
    if let Some(before) = omitted {
        // One gap is all that can be said: grow it to take in the one that was there before.
        if leaf < root {
            let at = usize::try_from(before.at).unwrap_or(usize::MAX).min(count);
            leaf = leaf.min(at);
            root = root.max(at);
        }
    }
    let cut = (root - leaf) as u64;
    if count > 0 {
        m.array("frames", |a| {
            for index in (0..leaf).chain(root..count) {
                let Some((pc, found, image, name)) = frames.at(index) else {
                    continue;
                };
                a.item(|e| {
                    e.put(if name.is_some() { &[0x94] } else { &[0x93] });
                    e.unsigned(pc);
                    e.unsigned(u64::from(found));
                    match image {
                        Some(image) => e.unsigned(u64::from(image)),
                        None => e.nil(),
                    }
                    if let Some(name) = name {
                        e.text(name);
                    }
                });
            }
        });
    }
    m.drop_count(cut);
    let omitted = match (omitted, cut) {
        (omitted, 0) => omitted,
        (None, cut) => Some(Omitted {
            at: leaf as u64,
            count: cut,
        }),
        (Some(before), cut) => Some(Omitted {
            at: leaf as u64,
            count: before.count.saturating_add(cut),
        }),
    };
    m.release(GAP);
    if let Some(omitted) = omitted {
        m.entry("omitted", |e| {
            e.put(&[0x92]);
            e.unsigned(omitted.at);
            e.unsigned(omitted.count);
        });
    }
}

pub(crate) fn optional_text(m: &mut MapEncoder<'_, '_>, key: &str, value: Option<&str>) {
    if let Some(value) = value {
        m.text(key, value);
    }
}

pub(crate) fn optional_unsigned(m: &mut MapEncoder<'_, '_>, key: &str, value: Option<u64>) {
    if let Some(value) = value {
        m.unsigned(key, value);
    }
}

pub(crate) fn optional_float(m: &mut MapEncoder<'_, '_>, key: &str, value: Option<f64>) {
    if let Some(value) = value {
        m.float(key, value);
    }
}

fn flag(m: &mut MapEncoder<'_, '_>, key: &str, value: bool) {
    if value {
        m.bool(key, value);
    }
}
