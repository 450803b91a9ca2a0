//! Debug files from debuginfod servers, by build id.
//!
//! The protocol is `GET SERVER/buildid/HEX/debuginfo`, as elfutils' debuginfod(8) has it. A server whose address begins
//! with `unified+` or `symsrv+` is a plain store of files instead, of one of two layouts (`store.rs`). Files are
//! kept in elfutils' own cache folder layout, so that what gdb fetched is not fetched again; as there,
//! an empty file means that no server had it a short while ago. A folder that others may write in is neither read nor
//! written to: no server is queried then.

mod store;

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use super::{object_file, own};
use crate::symbolicate::frame::hex;
use crate::symbolicate::lock;

/// Largest answer that is accepted, bytes, by default.
const MAX_SIZE: u64 = 8 << 30;
/// Time for which a file that no server has is not queried again, as in elfutils.
const MISS: Duration = Duration::from_secs(600);

/// The servers to query, and where to keep their files. A server that cannot be reached is reported
/// once and not queried again. A file is kept only if it is a debug file of the build that was
/// requested; else the next server is queried.
#[derive(Clone)]
pub struct Debuginfod {
    servers: Vec<String>,
    cache: PathBuf,
    timeout: Duration,
    max_size: u64,
    watch: Option<Watch>,
    /// Servers that could not be reached and are not queried again, and warnings about folders that were given once.
    silent: Arc<Mutex<HashSet<String>>>,
}

type Watch = Arc<dyn Fn(&Fetching<'_>) + Send + Sync>;

/// Progress of a download, for the thread that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fetching<'a> {
    /// Bytes have come.
    Received {
        /// The address that is fetched.
        url: &'a str,
        /// Bytes so far.
        bytes: u64,
        /// Bytes in all, where the server reports it.
        of: Option<u64>,
    },
    /// All has come.
    Done {
        /// The address that was fetched.
        url: &'a str,
    },
    /// The server could not be reached or broke off; the others are queried.
    Failed {
        /// The address that was to be fetched.
        url: &'a str,
        /// The reason why it was not fetched.
        why: &'a str,
    },
}

/// The result of querying one server.
enum Reply {
    Fetched,
    NotThere,
    Failed,
}

impl Debuginfod {
    /// Queries `servers`, and keeps files in `cache`.
    pub fn new(servers: Vec<String>, cache: &Path) -> Debuginfod {
        Debuginfod {
            servers,
            cache: cache.to_owned(),
            timeout: Duration::from_secs(90),
            max_size: MAX_SIZE,
            watch: None,
            silent: Arc::default(),
        }
    }

    /// Reads the settings from the environment: `DEBUGINFOD_URLS` (separated by spaces; `unified+URL` and
    /// `symsrv+URL` are stores of files of these layouts), `DEBUGINFOD_CACHE_PATH`, `DEBUGINFOD_TIMEOUT` (seconds),
    /// `DEBUGINFOD_MAXSIZE` (bytes). `None` where no server is named: then no request is ever made.
    pub fn from_environment() -> Option<Debuginfod> {
        let urls = std::env::var("DEBUGINFOD_URLS").ok()?;
        // elfutils accepts words such as `ima:enforcing` between the servers.
        let servers = urls
            .split_whitespace()
            .filter(|url| !url.starts_with("ima:"));
        let servers: Vec<String> = servers.map(str::to_owned).collect();
        let folder = super::own::absolute_variable;
        let cache = folder("DEBUGINFOD_CACHE_PATH")
            .or_else(|| Some(folder("XDG_CACHE_HOME")?.join("debuginfod_client")))
            .or_else(|| Some(folder("HOME")?.join(".cache/debuginfod_client")))?;
        let mut debuginfod = Debuginfod::new(servers, &cache);
        let number = |name: &str| {
            let value = std::env::var(name).ok().and_then(|text| text.parse().ok());
            value.filter(|&number: &u64| number > 0)
        };
        if let Some(seconds) = number("DEBUGINFOD_TIMEOUT") {
            debuginfod.timeout = Duration::from_secs(seconds);
        }
        if let Some(bytes) = number("DEBUGINFOD_MAXSIZE") {
            debuginfod.max_size = bytes;
        }
        (!debuginfod.servers.is_empty()).then_some(debuginfod)
    }

    /// Sets the time to wait for a connection (at most 20 s) and for the first byte of an answer (90 s by
    /// default); the whole of it may take ten times as long.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Debuginfod {
        self.timeout = timeout;
        self
    }

    /// Sets the size of the largest file to accept, in bytes (8 GiB by default).
    #[must_use]
    pub fn max_size(mut self, bytes: u64) -> Debuginfod {
        self.max_size = bytes;
        self
    }

    /// Calls `watch` while a file is fetched, on the thread that waits for it.
    #[must_use]
    pub fn watch(mut self, watch: impl Fn(&Fetching<'_>) + Send + Sync + 'static) -> Debuginfod {
        self.watch = Some(Arc::new(watch));
        self
    }

    /// The servers that are queried.
    pub(crate) fn servers(&self) -> &[String] {
        &self.servers
    }

    /// Returns the debug file with this build id, from the cache or from the first server that has it.
    pub(crate) fn find(&self, id: &[u8]) -> Option<PathBuf> {
        if id.len() < 8 {
            return None; // too short to be one
        }
        let hex = hex(id);
        let folder = self.cache.join(&hex);
        let path = folder.join("debuginfo");
        let unsafe_folder = [&self.cache, &folder].into_iter().find_map(|folder| {
            let error = own::check_folder(folder).err()?;
            (error.kind() != io::ErrorKind::NotFound).then_some(error)
        });
        if let Some(error) = unsafe_folder {
            let why = format!("{error}; no server is queried");
            if lock(&self.silent).insert(why.clone()) {
                self.failed("debuginfod", &why);
            }
            return None;
        }
        if let Ok(meta) = fs::symlink_metadata(&path)
            && meta.is_file()
            && !own::is_strangers(&meta)
        {
            // A damaged file, whatever its origin, is fetched again.
            if meta.len() > 0 && check(&path, id).is_ok() {
                return Some(path);
            }
            let age = |at| SystemTime::now().duration_since(at).ok();
            let age = meta.modified().ok().and_then(age);
            if meta.len() == 0 && age.is_some_and(|age| age < MISS) {
                return None;
            }
        }
        let mut all_answered = true;
        for server in &self.servers {
            if lock(&self.silent).contains(server) {
                all_answered = false;
                continue;
            }
            match self.ask(server, id, &folder, &path) {
                Ok(Reply::Fetched) => return Some(path),
                Ok(Reply::NotThere) => {}
                Ok(Reply::Failed) => all_answered = false,
                Err((url, error)) => {
                    all_answered = false;
                    lock(&self.silent).insert(server.clone());
                    let why = error.to_string();
                    self.notify(&Fetching::Failed {
                        url: &url,
                        why: &why,
                    });
                }
            }
        }
        // An existing file that is not of that build is left as it is.
        let is_free =
            fs::symlink_metadata(&path).map_or(true, |meta| own::is_own(&meta) && meta.len() == 0);
        if all_answered && is_free && own::make_folder(&folder).is_ok() {
            let miss = fs::File::options().append(true).create(true).open(&path);
            let _ = miss.and_then(|file| file.set_modified(SystemTime::now()));
        }
        None
    }

    /// Gets the file from one server, from the first of its addresses that has it.
    ///
    /// # Errors
    /// As [`fetch`](Self::fetch), with the address.
    fn ask(
        &self,
        server: &str,
        id: &[u8],
        folder: &Path,
        path: &Path,
    ) -> Result<Reply, (String, io::Error)> {
        let mut reply = Reply::NotThere;
        for url in store::addresses(server, id) {
            match self.fetch(&url, id, folder, path) {
                Ok(Reply::NotThere) => {}
                Ok(Reply::Fetched) => return Ok(Reply::Fetched),
                Ok(Reply::Failed) => reply = Reply::Failed,
                Err(error) => return Err((url, error)),
            }
        }
        Ok(reply)
    }

    /// Gets `url` into `path`, whole or not at all.
    ///
    /// # Errors
    /// If the server cannot be reached, or takes too long.
    fn fetch(&self, url: &str, id: &[u8], folder: &Path, path: &Path) -> io::Result<Reply> {
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
            Err(ureq::Error::StatusCode(404)) => return Ok(Reply::NotThere),
            Err(ureq::Error::StatusCode(code)) => {
                return Ok(self.failed(url, &format!("it answered {code}")));
            }
            Err(error) => return Err(io::Error::other(error)),
        };
        let of = response.body().content_length();
        let too_large = || format!("a file of more than {} bytes is not taken", self.max_size);
        if of.is_some_and(|bytes| bytes > self.max_size) {
            return Ok(self.failed(url, &too_large()));
        }
        own::make_folder(folder)?;
        let count = COUNTER.fetch_add(1, Relaxed);
        let temporary = folder.join(format!("debuginfo.{}-{count}.new", std::process::id()));
        let result = (|| {
            let mut body = response.body_mut().with_config().limit(u64::MAX).reader();
            let mut file = fs::File::create_new(&temporary)?;
            let mut buffer = vec![0; 1 << 16];
            let mut bytes: u64 = 0;
            loop {
                self.notify(&Fetching::Received { url, bytes, of });
                match body.read(&mut buffer)? {
                    0 => break,
                    n => {
                        file.write_all(&buffer[..n])?;
                        bytes += n as u64;
                        if bytes > self.max_size {
                            return Err(io::Error::other(too_large()));
                        }
                    }
                }
            }
            check(&temporary, id)?;
            fs::rename(&temporary, path)
        })();
        if let Err(error) = result {
            let _ = fs::remove_file(&temporary);
            let _ = fs::remove_dir(folder); // unless something else is in it
            return match error.kind() {
                io::ErrorKind::TimedOut => Err(error),
                _ => Ok(self.failed(url, &error.to_string())),
            };
        }
        self.notify(&Fetching::Done { url });
        Ok(Reply::Fetched)
    }

    /// Reports the failure of one server. The next one is queried.
    fn failed(&self, url: &str, why: &str) -> Reply {
        self.notify(&Fetching::Failed { url, why });
        Reply::Failed
    }

    fn notify(&self, what: &Fetching<'_>) {
        if let Some(watch) = &self.watch {
            watch(what);
        }
    }
}

/// Fails unless the file at `path` is one of the build `id`.
fn check(path: &Path, id: &[u8]) -> io::Result<()> {
    let objects = object_file::open(path).map_err(|error| match error {
        crate::symbolicate::Error::BadFile { what, .. } => {
            io::Error::other(format!("it sent a file that is not a debug file: {what}"))
        }
        other => io::Error::other(other),
    })?;
    if objects.iter().any(|object| object.id == id) {
        return Ok(());
    }
    Err(io::Error::other("it sent the file of another build"))
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
