//! A progress bar on standard error, where that is a terminal and the work takes long.

use std::fmt;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::inputs;
use super::interrupt;

/// Work that is done sooner needs no bar.
const LONG: Duration = Duration::from_millis(700);

/// Shows how far the work has come.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    begun: Instant,
    /// Count of all reports, as soon as that is known.
    total: Arc<AtomicU64>,
    counting: Option<Vec<PathBuf>>,
}

impl Progress {
    /// Of the reports that `paths` name. It is shown only if standard error is a terminal, and nothing is printed to a terminal
    /// meanwhile.
    pub fn new(paths: &[PathBuf], prints_at_end: bool) -> Progress {
        let seen = io::stderr().is_terminal() && (prints_at_end || !io::stdout().is_terminal());
        Progress {
            bar: seen.then(|| {
                let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
                bar.set_style(style("{spinner} {pos} reports, {rate}"));
                bar
            }),
            begun: Instant::now(),
            total: Arc::new(AtomicU64::new(0)),
            counting: seen.then(|| paths.to_vec()),
        }
    }

    /// Adds to the count of reports that are done; 0 draws the bar anew.
    pub fn add(&mut self, reports: u64) {
        let Some(bar) = &self.bar else {
            return;
        };
        bar.inc(reports);
        if self.begun.elapsed() < LONG {
            return;
        }
        if let Some(paths) = self.counting.take() {
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
            // A stream's length is unknown.
            if !paths.iter().any(|path| path.as_os_str() == "-") {
                let total = self.total.clone();
                std::thread::spawn(move || {
                    let count = inputs::count(&paths, &interrupt::came);
                    total.store(count, Ordering::Relaxed);
                });
            }
        }
        let total = self.total.load(Ordering::Relaxed);
        if total > 0 && bar.length() != Some(total) {
            bar.set_length(total);
            let template = "[{bar:40}] {pos} of {len} reports, {rate}, {eta} left";
            bar.set_style(style(template));
        }
    }

    /// Does something that writes to the terminal, with the bar out of the way.
    pub fn aside<R>(&self, what: impl FnOnce() -> R) -> R {
        match &self.bar {
            Some(bar) => bar.suspend(what),
            None => what(),
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    let write = |state: &ProgressState, text: &mut dyn fmt::Write| {
        let _ = write!(text, "{:.0}/s", state.per_sec());
    };
    style.with_key("rate", write).progress_chars("=> ")
}

/// The line of a download changes no more often than this.
#[cfg(feature = "debuginfod")]
const REDRAW: Duration = Duration::from_millis(100);

/// Returns the function that shows progress of downloads from debuginfod servers: on a terminal one line that changes;
/// elsewhere two lines a file, if `DEBUGINFOD_PROGRESS` is set, as elfutils has it. A server that cannot be reached is
/// reported in any case.
#[cfg(feature = "debuginfod")]
pub(super) fn watch_downloads() -> impl Fn(&crate::symbolicate::Fetching<'_>) + Send + Sync + 'static
{
    use crate::symbolicate::format::plain;
    use std::io::Write;
    let terminal = io::stderr().is_terminal();
    let lines = std::env::var_os("DEBUGINFOD_PROGRESS").is_some();
    let drawn: std::sync::Mutex<Option<Instant>> = std::sync::Mutex::new(None);
    move |what| {
        use crate::symbolicate::Fetching;
        let mut errors = io::stderr().lock();
        let mut drawn = crate::symbolicate::lock(&drawn);
        let clear = if terminal { "\r\x1b[K" } else { "" };
        let _ = match what {
            Fetching::Failed { url, why } => {
                let (url, why) = (plain(url), plain(why));
                writeln!(errors, "{clear}symbolicate: warning: {url}: {why}")
            }
            Fetching::Received { url, bytes, of } if terminal => {
                if drawn.is_some_and(|at| at.elapsed() < REDRAW) {
                    return;
                }
                *drawn = Some(Instant::now());
                write!(errors, "{clear}{}", line(url, *bytes, *of)).and_then(|()| errors.flush())
            }
            Fetching::Received { url, bytes: 0, of } if lines => {
                writeln!(errors, "{}", line(url, 0, *of))
            }
            Fetching::Done { .. } if terminal => write!(errors, "{clear}"),
            Fetching::Done { url } if lines => writeln!(errors, "fetched {}", plain(url)),
            _ => Ok(()),
        };
    }
}

#[cfg(feature = "debuginfod")]
fn line(url: &str, bytes: u64, of: Option<u64>) -> String {
    let url = crate::symbolicate::format::plain(url);
    let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
    match of {
        Some(of) => format!("fetching {url}: {:.1} of {:.1} MiB", mib(bytes), mib(of)),
        None => format!("fetching {url}: {:.1} MiB", mib(bytes)),
    }
}
