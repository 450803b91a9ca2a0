//! The format's keys, as tables: the reader knows the keys that stand here, and a test holds these tables
//! against `docs/report-format.md` and against what the writer writes.

/// One key of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// The key.
    pub key: &'static str,
    /// The type of its value.
    pub shape: Shape,
}

/// The type of a key's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A string, UTF-8.
    Text,
    /// An integer from 0 to 2^64 - 1.
    Unsigned,
    /// An integer from -2^63 to 2^63 - 1.
    Integer,
    /// A boolean.
    Bool,
    /// Raw bytes.
    Bin,
    /// A float; readers take an integer too.
    Float,
    /// A map with keys of its own: a table of its own.
    Map,
    /// A map of texts to unsigned integers.
    Registers,
    /// An array of frames, each an array `[pc, found, image]` or `[pc, found, image, name]`.
    Frames,
    /// An array `[at, count]`.
    Gap,
    /// A map of texts to any values.
    Values,
    /// A map of texts to floats.
    Floats,
    /// An array of arrays `[time, text]`.
    Breadcrumbs,
    /// An array of arrays `[name, start, duration]`.
    Marks,
    /// Any value.
    Any,
}

/// How often a section of a kind stands in a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Once, as the first section.
    First,
    /// At most once; where it stands again, the later one counts.
    Once,
    /// Any number of times; their order counts.
    Many,
    /// At most once, as the last section.
    Last,
}

const fn field(key: &'static str, shape: Shape) -> Field {
    Field { key, shape }
}

/// The kinds of sections.
pub const KINDS: &[(&str, Place)] = &[
    ("head", Place::First),
    ("event", Place::Once),
    ("thread", Place::Many),
    ("image", Place::Many),
    ("sample", Place::Many),
    ("vitals", Place::Once),
    ("context", Place::Once),
    ("memory", Place::Many),
    ("stall_end", Place::Once),
    ("capture", Place::Once),
    ("loss", Place::Once),
    ("end", Place::Last),
];

/// The keys that each section may have, whatever its kind.
pub const COMMON: &[Field] = &[
    field("dropped", Shape::Unsigned),
    field("check", Shape::Unsigned),
];

/// All maps that have keys of their own: section kind, or kind and key, and the table of its keys.
/// `loss` has none: its keys are reasons, its values counts.
pub const MAPS: &[(&str, &[Field])] = &[
    ("head", HEAD),
    ("head.app", HEAD_APP),
    ("head.os", HEAD_OS),
    ("event", EVENT),
    ("event.signal", EVENT_SIGNAL),
    ("event.thresholds", EVENT_THRESHOLDS),
    ("thread", THREAD),
    ("image", IMAGE),
    ("sample", SAMPLE),
    ("vitals", VITALS),
    ("vitals.cpu", VITALS_CPU),
    ("vitals.memory", VITALS_MEMORY),
    ("context", CONTEXT),
    ("memory", MEMORY),
    ("stall_end", STALL_END),
    ("capture", CAPTURE),
    ("end", END),
];

/// Keys of `head`.
pub const HEAD: &[Field] = &[
    field("format", Shape::Text),
    field("version", Shape::Unsigned),
    field("id", Shape::Bin),
    field("launch", Shape::Bin),
    field("time", Shape::Unsigned),
    field("clock", Shape::Unsigned),
    field("app", Shape::Map),
    field("os", Shape::Map),
    field("device", Shape::Text),
    field("arch", Shape::Text),
    field("pid", Shape::Unsigned),
];

/// Keys of `head.app`.
pub const HEAD_APP: &[Field] = &[field("name", Shape::Text), field("version", Shape::Text)];

/// Keys of `head.os`.
pub const HEAD_OS: &[Field] = &[
    field("name", Shape::Text),
    field("version", Shape::Text),
    field("build", Shape::Text),
];

/// Keys of `event`.
pub const EVENT: &[Field] = &[
    field("type", Shape::Text),
    field("fatal", Shape::Bool),
    field("reason", Shape::Text),
    field("signal", Shape::Map),
    field("name", Shape::Text),
    field("message", Shape::Text),
    field("location", Shape::Text),
    field("class", Shape::Text),
    field("thresholds", Shape::Map),
];

/// Keys of `event.signal`.
pub const EVENT_SIGNAL: &[Field] = &[
    field("number", Shape::Unsigned),
    field("name", Shape::Text),
    field("code", Shape::Integer),
    field("code_name", Shape::Text),
    field("address", Shape::Unsigned),
];

/// Keys of `event.thresholds`.
pub const EVENT_THRESHOLDS: &[Field] = &[
    field("timeout", Shape::Unsigned),
    field("strikes", Shape::Unsigned),
];

/// Keys of `thread`.
pub const THREAD: &[Field] = &[
    field("id", Shape::Unsigned),
    field("name", Shape::Text),
    field("main", Shape::Bool),
    field("crashed", Shape::Bool),
    field("state", Shape::Text),
    field("syscall", Shape::Text),
    field("cpu", Shape::Unsigned),
    field("registers", Shape::Registers),
    field("frames", Shape::Frames),
    field("end", Shape::Text),
    field("omitted", Shape::Gap),
];

/// Keys of `image`.
pub const IMAGE: &[Field] = &[
    field("name", Shape::Text),
    field("id", Shape::Bin),
    field("base", Shape::Unsigned),
    field("stated", Shape::Unsigned),
    field("size", Shape::Unsigned),
    field("arch", Shape::Text),
    field("text_hash", Shape::Bin),
];

/// Keys of `sample`.
pub const SAMPLE: &[Field] = &[
    field("at", Shape::Unsigned),
    field("state", Shape::Text),
    field("count", Shape::Unsigned),
    field("keep", Shape::Unsigned),
    field("frames", Shape::Frames),
    field("end", Shape::Text),
    field("omitted", Shape::Gap),
];

/// Keys of `vitals`.
pub const VITALS: &[Field] = &[
    field("cpu", Shape::Map),
    field("memory", Shape::Map),
    field("frame_rate", Shape::Float),
    field("uptime", Shape::Unsigned),
    field("launch_time", Shape::Unsigned),
    field("launch_kind", Shape::Text),
    field("battery", Shape::Float),
    field("thermal", Shape::Text),
    field("low_power", Shape::Bool),
];

/// Keys of `vitals.cpu`.
pub const VITALS_CPU: &[Field] = &[
    field("process", Shape::Float),
    field("watchdog", Shape::Float),
    field("device", Shape::Float),
    field("cores", Shape::Unsigned),
];

/// Keys of `vitals.memory`.
pub const VITALS_MEMORY: &[Field] = &[
    field("resident", Shape::Unsigned),
    field("footprint", Shape::Unsigned),
    field("peak", Shape::Unsigned),
    field("device_total", Shape::Unsigned),
    field("device_free", Shape::Unsigned),
];

/// Keys of `context`.
pub const CONTEXT: &[Field] = &[
    field("keys", Shape::Values),
    field("breadcrumbs", Shape::Breadcrumbs),
    field("gauges", Shape::Floats),
    field("marks", Shape::Marks),
];

/// Keys of `memory`.
pub const MEMORY: &[Field] = &[
    field("of", Shape::Text),
    field("at", Shape::Unsigned),
    field("text", Shape::Text),
    field("bytes", Shape::Bin),
];

/// Keys of `stall_end`.
pub const STALL_END: &[Field] = &[
    field("duration", Shape::Unsigned),
    field("how", Shape::Text),
];

/// Keys of `capture`.
pub const CAPTURE: &[Field] = &[
    field("stopped", Shape::Unsigned),
    field("unwind", Shape::Unsigned),
    field("bytes", Shape::Unsigned),
    field("samples", Shape::Unsigned),
    field("cut", Shape::Any),
    field("unanswered", Shape::Unsigned),
];

/// Keys of `end`.
pub const END: &[Field] = &[
    field("crc32", Shape::Unsigned),
    field("sections", Shape::Unsigned),
    field("closed_by", Shape::Text),
];
