//! `head`: which app, which system, which process, when.

use super::optional_text;
use crate::report::encode::MapEncoder;

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
