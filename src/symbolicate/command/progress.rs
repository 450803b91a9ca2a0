//! A progress bar on standard error, where that is a terminal and the work takes long.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::inputs;
use super::interrupt;

/// Work that is done sooner needs no bar.
const SHOWN_AFTER: Duration = Duration::from_millis(700);
/// The line changes no more often than this.
const REDRAW_PERIOD: Duration = Duration::from_millis(100);

/// Shows how far the work has come.
pub(super) struct Progress {
    /// True if it is shown once the work takes long.
    is_shown: bool,
    begun: Instant,
    /// The time of the last drawing; `None` while no bar is there.
    drawn: Option<Instant>,
    done: u64,
    /// Count of all reports, as soon as that is known.
    total: Arc<AtomicU64>,
    paths_to_count: Option<Vec<PathBuf>>,
}

impl Progress {
    /// Of the reports that `paths` name. It is shown only if standard error is a terminal, and nothing is printed to a terminal
    /// meanwhile.
    pub fn new(paths: &[PathBuf], prints_at_end: bool) -> Progress {
        let is_shown = io::stderr().is_terminal() && (prints_at_end || !io::stdout().is_terminal());
        Progress {
            is_shown,
            begun: Instant::now(),
            drawn: None,
            done: 0,
            total: Arc::default(),
            paths_to_count: is_shown.then(|| paths.to_vec()),
        }
    }

    /// Adds to the count of reports that are done; 0 draws the bar anew.
    pub fn add(&mut self, reports: u64) {
        self.done += reports;
        let is_due = self.drawn.is_none_or(|at| at.elapsed() >= REDRAW_PERIOD);
        if !self.is_shown || self.begun.elapsed() < SHOWN_AFTER || !is_due {
            return;
        }
        // A stream's length is unknown.
        if let Some(paths) = self.paths_to_count.take()
            && !paths.iter().any(|path| path.as_os_str() == "-")
        {
            let total = self.total.clone();
            std::thread::spawn(move || {
                total.store(inputs::count(&paths, &interrupt::is_set), Ordering::Relaxed);
            });
        }
        self.drawn = Some(Instant::now());
        let (done, total) = (self.done, self.total.load(Ordering::Relaxed));
        let rate = done as f64 / self.begun.elapsed().as_secs_f64();
        let line = if total > done {
            let bar = "=".repeat((20 * done / total) as usize);
            let left = (total - done) as f64 / rate;
            format!("[{bar:<20}] {done} of {total} reports, {rate:.0}/s, {left:.0} s left")
        } else {
            format!("{done} reports, {rate:.0}/s")
        };
        show(&line);
    }

    /// Does something that writes to the terminal, with the bar out of the way.
    pub fn without_bar<R>(&mut self, what: impl FnOnce() -> R) -> R {
        self.finish();
        what()
    }

    /// Takes the bar away.
    pub fn finish(&mut self) {
        if self.drawn.take().is_some() {
            show("");
        }
    }
}

/// Shows a line in place of the last one. A terminal that is gone shows nothing.
fn show(line: &str) {
    let _ = write!(io::stderr(), "\r\x1b[K{line}");
}

/// Returns the function that shows progress of downloads from debuginfod servers: on a terminal one line that changes;
/// elsewhere two lines a file, if `DEBUGINFOD_PROGRESS` is set, as elfutils has it. A server that cannot be reached is
/// reported in any case.
#[cfg(feature = "debuginfod")]
pub(super) fn watch_downloads() -> impl Fn(&crate::symbolicate::Fetching<'_>) + Send + Sync + 'static
{
    use crate::symbolicate::format::plain;
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
                if drawn.is_some_and(|at| at.elapsed() < REDRAW_PERIOD) {
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
