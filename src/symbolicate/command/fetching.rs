//! Progress of downloads from debuginfod servers, on standard error.
//!
//! On a terminal one line that changes; elsewhere two lines a file, if `DEBUGINFOD_PROGRESS` is set, as
//! elfutils has it. A server that cannot be reached is reported in any case.

use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::symbolicate::Fetching;
use crate::symbolicate::format::plain;
use crate::symbolicate::lock;

/// The line changes no more often than this.
const REDRAW: Duration = Duration::from_millis(100);

/// Returns the function to call while something is fetched.
pub(super) fn watch() -> impl Fn(&Fetching<'_>) + Send + Sync + 'static {
    let terminal = io::stderr().is_terminal();
    let lines = std::env::var_os("DEBUGINFOD_PROGRESS").is_some();
    let drawn: Mutex<Option<Instant>> = Mutex::new(None);
    move |what| {
        let mut errors = io::stderr().lock();
        let mut drawn = lock(&drawn);
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

fn line(url: &str, bytes: u64, of: Option<u64>) -> String {
    let url = plain(url);
    let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
    match of {
        Some(of) => format!("fetching {url}: {:.1} of {:.1} MiB", mib(bytes), mib(of)),
        None => format!("fetching {url}: {:.1} MiB", mib(bytes)),
    }
}
