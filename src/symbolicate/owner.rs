//! The owners that code may have.

/// Whose code a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Owner {
    /// The app's own: its workspace, and dependencies given by a path.
    App,
    /// A dependency from a registry, a git checkout, a vendored folder, a package manager.
    Library,
    /// The library and runtime of a programming language.
    Language,
    /// This recorder, or another one.
    Recorder,
    /// The operating system.
    System,
}

impl Owner {
    /// The word in machine-readable output.
    pub fn as_str(self) -> &'static str {
        match self {
            Owner::App => "app",
            Owner::Library => "library",
            Owner::Language => "language",
            Owner::Recorder => "recorder",
            Owner::System => "system",
        }
    }
}
