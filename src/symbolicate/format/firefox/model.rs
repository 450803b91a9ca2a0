//! The processes of a profile, made from reports.

/// One report as a process.
#[derive(Debug)]
pub struct Process {
    pub(super) name: String,
    pub(super) pid: u64,
    pub(super) start: u64,
    pub(super) product: String,
    pub(super) end: Option<u64>,
    pub(super) threads: Vec<ProfileThread>,
    pub(super) markers: Vec<Marker>,
    /// Name, path, debug id, architecture.
    pub(super) libs: Vec<[String; 4]>,
}

/// Something that was noted with its time: nanoseconds from the profile's beginning.
#[derive(Debug)]
pub(super) struct Marker {
    pub(super) name: String,
    pub(super) text: String,
    pub(super) from: u64,
    /// `None` for a moment.
    pub(super) to: Option<u64>,
}

#[derive(Debug)]
pub(super) struct ProfileThread {
    pub(super) name: String,
    pub(super) main: bool,
    pub(super) tid: u64,
    pub(super) samples: Vec<ProfileSample>,
}

#[derive(Debug)]
pub(super) struct ProfileSample {
    pub(super) at: u64,
    pub(super) count: u64,
    /// Outermost first.
    pub(super) frames: Vec<ProfileFrame>,
}

#[derive(Debug, PartialEq, Eq, Hash, Clone)]
pub(super) struct ProfileFrame {
    pub(super) function: String,
    pub(super) file: Option<String>,
    pub(super) line: Option<u32>,
    /// In the image, from its base.
    pub(super) address: Option<u64>,
    /// Index into [`Process::libs`].
    pub(super) lib: Option<usize>,
    /// Count of the functions into which it is inlined.
    pub(super) depth: u64,
    pub(super) own: bool,
}
