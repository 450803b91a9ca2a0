//! Builder of a monitor: the app's options, then the install.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use super::reports::OnReport;
use crate::recorder::{MAX_THREADS, OnStall, StallEvent};
use crate::store::Limits;
use crate::trigger::load::Loads;
use crate::trigger::{CpuLoad, Crash, MemoryLoad, RateLimit, SlowFrames, Stall};

/// Describes a monitor; [`MonitorBuilder::install`] makes it. A trigger that is not set is off.
#[must_use = "nothing is recorded before `install`"]
pub struct MonitorBuilder {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) directory: Option<PathBuf>,
    pub(super) shared_directory: bool,
    pub(super) stall: Option<Stall>,
    pub(super) crash: Option<Crash>,
    pub(super) limits: Limits,
    pub(super) rate_limit: RateLimit,
    pub(super) loads: Loads,
    pub(super) resolve_names: bool,
    pub(super) all_images: bool,
    pub(super) capture_signal: Option<i32>,
    pub(super) stop_budget: Duration,
    /// Threads in a report besides the first, at most.
    pub(super) max_other_threads: usize,
    pub(super) on_stall: Option<OnStall>,
    pub(super) on_report: Option<OnReport>,
}

impl std::fmt::Debug for MonitorBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MonitorBuilder")
            .field("name", &self.name)
            .field("version", &self.version)
            .field("directory", &self.directory)
            .field("stall", &self.stall)
            .field("crash", &self.crash)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl MonitorBuilder {
    pub(super) fn new(name: String, version: String) -> MonitorBuilder {
        MonitorBuilder {
            name,
            version,
            directory: None,
            shared_directory: false,
            stall: None,
            crash: None,
            limits: Limits::default(),
            rate_limit: RateLimit::default(),
            loads: Loads::default(),
            resolve_names: false,
            all_images: false,
            capture_signal: None,
            stop_budget: Duration::from_millis(1),
            max_other_threads: MAX_THREADS,
            on_stall: None,
            on_report: None,
        }
    }

    /// Sets the folder of the reports, such as `~/.local/state/myapp/reports` on Linux. `install` makes it if it is
    /// missing, for this user alone (mode 0700), and keeps it open.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> MonitorBuilder {
        self.directory = Some(directory.into());
        self
    }

    /// Sets the folder of the reports to the one that the system has for the state of `app`:
    /// `$XDG_STATE_HOME/APP/reports` on Linux (`~/.local/state/APP/reports` without that variable, or if it is a relative path),
    /// `~/Library/Application Support/APP/reports` on Apple platforms. [`Monitor::directory`](crate::Monitor::directory)
    /// returns it.
    ///
    /// If there is no home folder, or `app` is not the name of one folder, `install` fails with
    /// [`InstallError::NoDirectory`](crate::InstallError::NoDirectory).
    pub fn directory_for(mut self, app: &str) -> MonitorBuilder {
        self.directory = reports_of(app);
        self
    }

    /// Accepts a folder in which others may write: its group, all users, or another user who owns it. Without this it
    /// is an error, [`InstallError::SharedDirectory`](crate::InstallError). Others can then remove reports, and forge
    /// how the last launch ended. wedjat never touches links and files of other users.
    pub fn shared_directory(mut self, shared: bool) -> MonitorBuilder {
        self.shared_directory = shared;
        self
    }

    /// Watches the installing thread for stalls.
    pub fn stall(mut self, stall: Stall) -> MonitorBuilder {
        // The fields may have been set to what their setters do not let through.
        self.stall = Some(stall.timeout(stall.timeout).strikes(stall.strikes));
        self
    }

    /// Reports fatal signals and Rust panics.
    pub fn crash(mut self, crash: Crash) -> MonitorBuilder {
        self.crash = Some(crash);
        self
    }

    /// Limits of the folder; the oldest reports are removed first.
    pub fn limits(mut self, limits: Limits) -> MonitorBuilder {
        self.limits = limits;
        self
    }

    /// Reports when the process uses much CPU for long: with the hottest threads, and samples of the
    /// hottest one.
    pub fn cpu(mut self, cpu: CpuLoad) -> MonitorBuilder {
        self.loads.cpu = Some(cpu);
        self
    }

    /// Reports when the process has much memory of its own.
    pub fn memory(mut self, memory: MemoryLoad) -> MonitorBuilder {
        self.loads.memory = Some(memory);
        self
    }

    /// Reports when the frame rate stays low while the installing thread is busy: a stall of the class
    /// `slow_frames`. The app reports its frames by [`Monitor::frame`](crate::Monitor::frame).
    pub fn slow_frames(mut self, frames: SlowFrames) -> MonitorBuilder {
        self.loads.frames = Some(frames);
        self
    }

    /// Names frames in the app, from the images' symbol and export tables, in all reports but those of crashes. The
    /// names are looked up after the thread runs again. This allocates: if the watched thread hangs inside the
    /// allocator with its lock, the watchdog waits for that lock too.
    pub fn resolve_names(mut self, resolve: bool) -> MonitorBuilder {
        self.resolve_names = resolve;
        self
    }

    /// Lists all images of the process in each report, not only the main one and those that frames point
    /// into. An image takes some 100 bytes. Tools with addresses of their own need it.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("wedjat-images-{}", std::process::id()));
    /// let builder = wedjat::Monitor::builder("MyApp", "1").directory(&dir);
    /// let monitor = builder.all_images(true).install()?;
    /// let path = monitor.record("which libraries")?;
    /// let report = wedjat::report::read(&std::fs::read(&path)?)?.report;
    /// # #[cfg(target_os = "linux")]
    /// assert!(report.images.iter().any(|image| image.name.contains("ld-linux")));
    /// # drop(monitor);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn all_images(mut self, all: bool) -> MonitorBuilder {
        self.all_images = all;
        self
    }

    /// Bounds the time for which a capture stops a thread, about 1 ms by default. A copy of the stack that takes longer
    /// is cut short, as `capture.cut` of the report shows. Crash reports are not bound by it.
    pub fn stop_budget(mut self, budget: Duration) -> MonitorBuilder {
        self.stop_budget = budget;
        self
    }

    /// Sets the real-time signal (`SIGRTMIN` to `SIGRTMAX`) by which captures stop threads on Linux. The default is the
    /// first one from `SIGRTMIN + 4` on without a handler. The next one without a handler is used, too, for threads whose
    /// alternate stack is not known to be there. Both handlers stay until the process ends: an answer may come late. On
    /// other systems this does nothing.
    ///
    /// [`install`](MonitorBuilder::install) fails if it is no real-time signal, if it has a handler already, or if an
    /// earlier monitor of this process took another one.
    pub fn capture_signal(mut self, signal: i32) -> MonitorBuilder {
        self.capture_signal = Some(signal);
        self
    }

    /// Bounds how many threads a report holds besides the one in question, 1024 by default. The main thread comes
    /// first, then the others in the system's order. If some were omitted, `capture.cut` is `limit`.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("wedjat-threads-{}", std::process::id()));
    /// let builder = wedjat::Monitor::builder("MyApp", "1").directory(&dir);
    /// let monitor = builder.max_other_threads(0).install()?;
    /// let path = monitor.record("this thread alone")?;
    /// let report = wedjat::report::read(&std::fs::read(&path)?)?.report;
    /// assert_eq!(report.threads.len(), 1);
    /// # drop(monitor);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_other_threads(mut self, most: usize) -> MonitorBuilder {
        self.max_other_threads = most;
        self
    }

    /// Calls `callback` on the watchdog's thread when a stall is certain, and again when it is over. It is called for
    /// stalls that the rate limit holds back, too. Don't block in it: nothing is watched meanwhile.
    pub fn on_stall(
        mut self,
        callback: impl FnMut(&StallEvent<'_>) + Send + 'static,
    ) -> MonitorBuilder {
        self.on_stall = Some(Box::new(callback));
        self
    }

    /// Limits how much is recorded: equal stalls are reported ever more rarely, and the reports, bytes and captures of an
    /// hour are bounded.
    pub fn rate_limit(mut self, rate_limit: RateLimit) -> MonitorBuilder {
        self.rate_limit = rate_limit;
        self
    }

    /// Calls `callback` with the path of each finished report of a stall, of load (CPU, memory, slow frames) or of a
    /// caught panic. The calls come one after the other, on a thread of their own: it may take its time, and
    /// [`on_stall`](MonitorBuilder::on_stall) may report the same stall's end before or after. Reports of crashes are found
    /// at the next launch, by [`store::reports`](crate::store::reports); [`Monitor::record`](crate::Monitor::record) returns
    /// the path of its own.
    ///
    /// One that panics is called again for the next report. One that drops the monitor is not called again.
    pub fn on_report(mut self, callback: impl FnMut(&Path) + Send + 'static) -> MonitorBuilder {
        self.on_report = Some(Box::new(callback));
        self
    }
}

/// Returns the folder for the reports of `app`, or `None` without a home folder, or where `app` is not the name of one
/// folder.
fn reports_of(app: &str) -> Option<PathBuf> {
    reports_in(app, |variable| std::env::var_os(variable))
}

fn reports_in(app: &str, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let mut parts = Path::new(app).components();
    let is_name = matches!(parts.next(), Some(Component::Normal(_))) && parts.next().is_none();
    // A relative path would depend on the current folder; the XDG specification says to ignore it.
    let folder = |name: &str| {
        let path = PathBuf::from(variable(name)?);
        path.is_absolute().then_some(path)
    };
    let state = if cfg!(target_vendor = "apple") {
        folder("HOME").map(|home| home.join("Library/Application Support"))
    } else {
        let in_home = || folder("HOME").map(|home| home.join(".local/state"));
        folder("XDG_STATE_HOME").or_else(in_home)
    };
    state
        .filter(|_| is_name)
        .map(|state| state.join(app).join("reports"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports(app: &str, variables: &[(&str, &str)]) -> Option<PathBuf> {
        reports_in(app, |wanted| {
            let mut all = variables.iter();
            let (_, value) = all.find(|(name, _)| *name == wanted)?;
            Some(value.into())
        })
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn on_linux_reports_lie_in_the_state_folder_of_the_xdg_specification() {
        let home = ("HOME", "/home/ann");
        let in_home = Some(PathBuf::from("/home/ann/.local/state/myapp/reports"));
        assert_eq!(reports("myapp", &[home]), in_home);
        for ignored in ["", "state", "./state"] {
            let variables = [home, ("XDG_STATE_HOME", ignored)];
            assert_eq!(reports("myapp", &variables), in_home, "{ignored:?}");
        }
        let state = [home, ("XDG_STATE_HOME", "/var/state")];
        let expected = PathBuf::from("/var/state/myapp/reports");
        assert_eq!(reports("myapp", &state), Some(expected));
    }

    #[cfg(target_vendor = "apple")]
    #[test]
    fn on_apple_platforms_reports_lie_in_application_support() {
        let expected = "/Users/ann/Library/Application Support/org.example.app/reports";
        let variables = [("HOME", "/Users/ann"), ("XDG_STATE_HOME", "/var/state")];
        assert_eq!(
            reports("org.example.app", &variables),
            Some(expected.into())
        );
    }

    #[test]
    fn without_a_home_or_a_name_there_is_no_folder() {
        assert_eq!(reports("myapp", &[]), None);
        assert_eq!(reports("myapp", &[("HOME", "ann")]), None);
        for name in ["", ".", "..", "../app", "a/b", "/etc"] {
            assert_eq!(reports(name, &[("HOME", "/home/ann")]), None, "{name:?}");
        }
    }
}
