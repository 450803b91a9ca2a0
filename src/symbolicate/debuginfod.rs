//! Debug files from debuginfod servers, by build id.
//!
//! The protocol is `GET SERVER/buildid/HEX/debuginfo`, as elfutils' debuginfod(8) has it. Files are
//! kept in elfutils' own cache folder layout, so that what gdb fetched is not fetched again; as there,
//! an empty file means that no server had it a short while ago.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Larger answers are no debug files.
const MAX_SIZE: u64 = 8 << 30;
/// That no server has a file is believed for so long, as elfutils does.
const MISS: Duration = Duration::from_secs(600);

/// The servers to ask, and where to keep what they gave. A server that cannot be reached is told of
/// once and not asked again.
#[derive(Clone)]
pub struct Debuginfod {
    servers: Vec<String>,
    cache: PathBuf,
    timeout: Duration,
    watch: Option<Watch>,
    /// Servers that could not be reached.
    silent: Arc<Mutex<HashSet<String>>>,
}

type Watch = Arc<dyn Fn(&Fetching<'_>) + Send + Sync>;

/// How a download goes, for whoever waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fetching<'a> {
    /// So many bytes have come.
    Received {
        /// What is fetched.
        url: &'a str,
        /// Bytes so far.
        bytes: u64,
        /// Bytes in all, where the server said so.
        of: Option<u64>,
    },
    /// All has come.
    Done {
        /// What was fetched.
        url: &'a str,
    },
    /// The server could not be reached or broke off; the others are asked.
    Failed {
        /// What was to be fetched.
        url: &'a str,
        /// Why it was not.
        why: &'a str,
    },
}

/// What came of asking one server.
enum Outcome {
    Fetched,
    NotThere,
    Failed,
}

impl Debuginfod {
    /// These servers, with files kept in `cache`.
    pub fn new(servers: Vec<String>, cache: &Path) -> Debuginfod {
        Debuginfod {
            servers,
            cache: cache.to_owned(),
            timeout: Duration::from_secs(90),
            watch: None,
            silent: Arc::default(),
        }
    }

    /// As the environment has it: `DEBUGINFOD_URLS` (separated by spaces), `DEBUGINFOD_CACHE_PATH`,
    /// `DEBUGINFOD_TIMEOUT` (seconds). `None` where no server is named.
    pub fn from_environment() -> Option<Debuginfod> {
        let urls = std::env::var("DEBUGINFOD_URLS").ok()?;
        // elfutils takes words as `ima:enforcing` between the servers.
        let servers = urls
            .split_whitespace()
            .filter(|url| !url.starts_with("ima:"));
        let servers: Vec<String> = servers.map(str::to_owned).collect();
        let folder = |name: &str| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .filter(|p| p.is_absolute())
        };
        let cache = folder("DEBUGINFOD_CACHE_PATH")
            .or_else(|| Some(folder("XDG_CACHE_HOME")?.join("debuginfod_client")))
            .or_else(|| Some(folder("HOME")?.join(".cache/debuginfod_client")))?;
        let mut debuginfod = Debuginfod::new(servers, &cache);
        let timeout = std::env::var("DEBUGINFOD_TIMEOUT")
            .ok()
            .and_then(|t| t.parse().ok());
        if let Some(seconds) = timeout.filter(|&seconds| seconds > 0) {
            debuginfod.timeout = Duration::from_secs(seconds);
        }
        (!debuginfod.servers.is_empty()).then_some(debuginfod)
    }

    /// How long to wait for a connection (at most 20 s) and for the first byte of an answer (90 s by
    /// default); the whole of it may take ten times as long.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Debuginfod {
        self.timeout = timeout;
        self
    }

    /// Calls `watch` while a file is fetched, on the thread that waits for it.
    #[must_use]
    pub fn watch(mut self, watch: impl Fn(&Fetching<'_>) + Send + Sync + 'static) -> Debuginfod {
        self.watch = Some(Arc::new(watch));
        self
    }

    /// The debug file with this build id: from the cache, else from the first server that has it.
    pub(crate) fn find(&self, id: &[u8]) -> Option<PathBuf> {
        if id.len() < 8 {
            return None; // too short to be one
        }
        let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let folder = self.cache.join(&hex);
        let path = folder.join("debuginfo");
        if let Ok(meta) = fs::metadata(&path) {
            if meta.len() > 0 {
                return Some(path);
            }
            let age = |at| SystemTime::now().duration_since(at).ok();
            if meta
                .modified()
                .ok()
                .and_then(age)
                .is_some_and(|age| age < MISS)
            {
                return None;
            }
        }
        let mut all_answered = true;
        for server in &self.servers {
            if lock(&self.silent).contains(server) {
                all_answered = false;
                continue;
            }
            let scheme = if server.contains("://") {
                ""
            } else {
                "http://"
            };
            let server_url = server.trim_end_matches('/');
            let url = format!("{scheme}{server_url}/buildid/{hex}/debuginfo");
            match self.fetch(&url, &folder, &path) {
                Ok(Outcome::Fetched) => return Some(path),
                Ok(Outcome::NotThere) => {}
                Ok(Outcome::Failed) => all_answered = false,
                Err(error) => {
                    all_answered = false;
                    lock(&self.silent).insert(server.clone());
                    let why = error.to_string();
                    self.tell(&Fetching::Failed {
                        url: &url,
                        why: &why,
                    });
                }
            }
        }
        if all_answered && fs::create_dir_all(&folder).is_ok() {
            let _ = fs::File::create(&path).and_then(|file| file.set_modified(SystemTime::now()));
        }
        None
    }

    /// Gets `url` into `path`, whole or not at all.
    ///
    /// # Errors
    /// If the server cannot be reached, or takes too long.
    fn fetch(&self, url: &str, folder: &Path, path: &Path) -> io::Result<Outcome> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_connect(Some(self.timeout.min(Duration::from_secs(20))))
            .timeout_recv_response(Some(self.timeout))
            .timeout_recv_body(Some(self.timeout.saturating_mul(10)))
            .user_agent(concat!("wedjat/", env!("CARGO_PKG_VERSION")))
            .build()
            .into();
        let mut response = match agent.get(url).call() {
            Ok(response) => response,
            Err(ureq::Error::StatusCode(404)) => return Ok(Outcome::NotThere),
            Err(ureq::Error::StatusCode(code)) => {
                let why = format!("it answered {code}");
                self.tell(&Fetching::Failed { url, why: &why });
                return Ok(Outcome::Failed);
            }
            Err(error) => return Err(io::Error::other(error)),
        };
        let of = response.body().content_length();
        fs::create_dir_all(folder)?;
        let count = COUNTER.fetch_add(1, Relaxed);
        let temporary = folder.join(format!("debuginfo.{}-{count}.new", std::process::id()));
        let result = (|| {
            let mut body = response.body_mut().with_config().limit(MAX_SIZE).reader();
            let mut file = fs::File::create(&temporary)?;
            let mut buffer = vec![0; 1 << 16];
            let mut bytes = 0;
            loop {
                self.tell(&Fetching::Received { url, bytes, of });
                match body.read(&mut buffer)? {
                    0 => break,
                    n => {
                        file.write_all(&buffer[..n])?;
                        bytes += n as u64;
                    }
                }
            }
            fs::rename(&temporary, path)
        })();
        if result.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        result?;
        self.tell(&Fetching::Done { url });
        Ok(Outcome::Fetched)
    }

    fn tell(&self, what: &Fetching<'_>) {
        if let Some(watch) = &self.watch {
            watch(what);
        }
    }
}

impl fmt::Debug for Debuginfod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Debuginfod")
            .field("servers", &self.servers)
            .field("cache", &self.cache)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
