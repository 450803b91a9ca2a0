//! Debug files from debuginfod servers, by build id.
//!
//! The protocol is `GET SERVER/buildid/HEX/debuginfo`, as elfutils' debuginfod(8) has it. A server whose address begins
//! with `unified+` or `symsrv+` is a plain store of files instead, of one of two layouts. Files are
//! kept in elfutils' own cache folder layout, so that what gdb fetched is not fetched again; as there,
//! an empty file means that no server had it a short while ago. A folder that others may write in is neither read nor
//! written to: no server is queried then.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use super::search::UUID;
use super::{object_file, owner};
use crate::symbolicate::frame::hex;
use crate::symbolicate::lock;

/// Largest answer that is accepted, bytes, by default.
const MAX_SIZE: u64 = 8 << 30;
/// Requests of a run that bring no file, of each server.
const MAX_MISSES: u32 = 1 << 10;
/// Time for which a file that no server has is not queried again, as in elfutils.
const MISS_LIFETIME: Duration = Duration::from_secs(600);

/// The servers to query, and where to keep their files. A server that cannot be reached or is slow is reported
/// once and not queried again. A file is kept only if it is a debug file of the build that was
/// requested; else the next server is queried.
#[derive(Clone)]
pub struct Debuginfod {
    servers: Vec<String>,
    cache: PathBuf,
    timeout: Duration,
    max_size: u64,
    watch: Option<Watch>,
    /// Requests that brought no file and the time that they took, by server; and warnings about folders that were given.
    misses: Arc<Mutex<BTreeMap<String, (u32, Duration)>>>,
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

/// Files that are not there in whole yet.
static PARTIAL: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Removes the files that are not there in whole, before the process ends.
pub(crate) fn remove_partial() {
    for path in std::mem::take(&mut *lock(&PARTIAL)) {
        let _ = fs::remove_file(path);
    }
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
            misses: Arc::default(),
        }
    }

    /// Reads the settings from the environment: `DEBUGINFOD_URLS` (separated by spaces; `unified+URL` and
    /// `symsrv+URL` are stores of files of these layouts), `DEBUGINFOD_CACHE_PATH`, `DEBUGINFOD_TIMEOUT` (seconds),
    /// `DEBUGINFOD_MAXSIZE` (bytes). `None` where no server is named: then no request is ever made.
    pub fn from_environment() -> Option<Debuginfod> {
        let urls = std::env::var("DEBUGINFOD_URLS").ok()?;
        // elfutils accepts words such as `ima:enforcing` between the servers.
        let servers = urls.split_whitespace().map(str::to_owned);
        let servers = servers.filter(|url| !url.starts_with("ima:"));
        let folder = super::owner::absolute_variable;
        let cache = folder("DEBUGINFOD_CACHE_PATH")
            .or_else(|| Some(folder("XDG_CACHE_HOME")?.join("debuginfod_client")))
            .or_else(|| Some(folder("HOME")?.join(".cache/debuginfod_client")))?;
        let mut debuginfod = Debuginfod::new(servers.collect(), &cache);
        let number = |name: &str| {
            let value = std::env::var(name).ok().and_then(|text| text.parse().ok());
            value.filter(|&number: &u64| number > 0)
        };
        let seconds = number("DEBUGINFOD_TIMEOUT").map(Duration::from_secs);
        debuginfod.timeout = seconds.unwrap_or(debuginfod.timeout);
        debuginfod.max_size = number("DEBUGINFOD_MAXSIZE").unwrap_or(MAX_SIZE);
        (!debuginfod.servers.is_empty()).then_some(debuginfod)
    }

    /// Sets the time to wait for a connection (at most 20 s), for the head of an answer, and for each 100 KB of it: 90 s by
    /// default. An answer that takes ten times as long has a megabyte a second. A server that is slower is not queried
    /// again, nor one whose answers without a file took that long together.
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
        let folder = self.cache.join(hex(id));
        let path = folder.join("debuginfo");
        let unsafe_folder = [&self.cache, &folder].into_iter().find_map(|folder| {
            let error = owner::check_folder(folder).err()?;
            (error.kind() != io::ErrorKind::NotFound).then_some(error)
        });
        if let Some(error) = unsafe_folder {
            let why = format!("{error}; no server is queried");
            let known = lock(&self.misses).insert(why.clone(), Default::default());
            if known.is_none() {
                self.failed("debuginfod", &why);
            }
            return None;
        }
        if let Ok(meta) = fs::symlink_metadata(&path)
            && meta.is_file()
            && !owner::is_strangers(&meta)
        {
            // A damaged file, whatever its origin, is fetched again.
            if meta.len() > 0 && check(&path, id).is_ok() {
                return Some(path);
            }
            let age = |at| SystemTime::now().duration_since(at).ok();
            let age = meta.modified().ok().and_then(age);
            if meta.len() == 0 && age.is_some_and(|age| age < MISS_LIFETIME) {
                return None;
            }
        }
        let mut all_answered = true;
        for server in &self.servers {
            let reply = self.ask(server, id, &folder, &path);
            if reply == Some(true) {
                return Some(path);
            }
            all_answered &= reply.is_some();
        }
        // An existing file that is not of that build is left as it is.
        let is_free = fs::symlink_metadata(&path)
            .map_or(true, |meta| owner::is_own(&meta) && meta.len() == 0);
        if all_answered && is_free && owner::make_folder(&folder).is_ok() {
            let miss = fs::File::options().append(true).create(true).open(&path);
            let _ = miss.and_then(|file| file.set_modified(SystemTime::now()));
        }
        None
    }

    /// Gets the file from one server, from the first of its addresses that has it. Returns false if it has none, `None` if it
    /// is not known.
    fn ask(&self, server: &str, id: &[u8], folder: &Path, path: &Path) -> Option<bool> {
        let mut reply = Some(false);
        let is_over = |(count, time)| count >= MAX_MISSES || time > self.timeout;
        for url in addresses(server, id) {
            let mut misses = lock(&self.misses).get(server).copied().unwrap_or_default();
            if is_over(misses) {
                return None;
            }
            let began = Instant::now();
            let result = self.fetch(&url, id, folder, path);
            misses = (misses.0 + 1, misses.1 + began.elapsed());
            match result {
                Ok(true) => return Some(true),
                Ok(false) if is_over(misses) => {
                    let (count, time) = misses;
                    let why = format!("{count} requests without a file took {time:.0?}");
                    self.failed(&url, &format!("{why}: it is not queried again"));
                }
                Ok(false) => {}
                Err(error) => {
                    let is_slow = error.kind() == io::ErrorKind::TimedOut;
                    misses.0 = misses.0.max([0, MAX_MISSES][usize::from(is_slow)]);
                    self.failed(&url, &error.to_string());
                    reply = None;
                }
            }
            lock(&self.misses).insert(server.to_owned(), misses);
        }
        reply
    }

    /// Gets `url` into `path`, whole or not at all. Returns false if the server does not have it.
    ///
    /// # Errors
    /// Of kind `TimedOut` if the server cannot be reached, or takes too long; of others if it sends no such file.
    fn fetch(&self, url: &str, id: &[u8], folder: &Path, path: &Path) -> io::Result<bool> {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_connect(Some(self.timeout.min(Duration::from_secs(20))))
            .timeout_recv_response(Some(self.timeout))
            .timeout_per_read(Some(self.timeout))
            .user_agent(concat!("wedjat/", env!("CARGO_PKG_VERSION")))
            .build()
            .into();
        let mut response = match agent.get(url).call() {
            Ok(response) => response,
            Err(ureq::Error::StatusCode(404)) => return Ok(false),
            Err(ureq::Error::StatusCode(code)) => {
                return Err(io::Error::other(format!("it answered {code}")));
            }
            Err(error) => return Err(io::Error::new(io::ErrorKind::TimedOut, error)),
        };
        owner::make_folder(folder)?;
        let mut temporary = tempfile::Builder::new();
        let temporary = temporary
            .prefix("debuginfo.")
            .suffix(".new")
            .tempfile_in(folder)?;
        lock(&PARTIAL).insert(temporary.path().to_owned());
        let received = self.receive(url, response.body_mut(), temporary.as_file());
        let result = received.and_then(|()| check(temporary.path(), id));
        lock(&PARTIAL).remove(temporary.path());
        if let Err(error) = result {
            drop(temporary);
            let _ = fs::remove_dir(folder); // unless something else is in it
            return Err(error);
        }
        temporary.persist(path)?;
        self.notify(&Fetching::Done { url });
        Ok(true)
    }

    /// Writes what comes to a file.
    fn receive(&self, url: &str, body: &mut ureq::Body, mut file: &fs::File) -> io::Result<()> {
        let (began, wait) = (Instant::now(), self.timeout.as_secs_f64());
        let of = body.content_length();
        let mut body = body.with_config().limit(u64::MAX).reader();
        let mut buffer = vec![0; 1 << 16];
        let (mut bytes, mut most) = (0, self.max_size);
        while bytes.max(of.unwrap_or(0)) <= most {
            self.notify(&Fetching::Received { url, bytes, of });
            let part = body.read(&mut buffer);
            let part = part.map_err(|error| io::Error::new(io::ErrorKind::TimedOut, error))?;
            file.write_all(&buffer[..part])?;
            if bytes < ELF_HEADER_BYTES && bytes + part as u64 >= ELF_HEADER_BYTES {
                most = most.min(largest(file)?);
            }
            bytes += part as u64;
            let time = began.elapsed().as_secs_f64();
            let least = [1e5 / wait, 1e6][usize::from(time > 10.0 * wait)];
            if part == 0 {
                return Ok(());
            } else if time > wait && (bytes as f64) < time * least {
                let slow = format!("it sent {bytes} bytes in {time:.0} s");
                return Err(io::Error::new(io::ErrorKind::TimedOut, slow));
            }
        }
        Err(io::Error::other(format!(
            "a file of more than {most} bytes is not taken"
        )))
    }

    fn failed(&self, url: &str, why: &str) {
        self.notify(&Fetching::Failed { url, why });
    }

    fn notify(&self, what: &Fetching<'_>) {
        if let Some(watch) = &self.watch {
            watch(what);
        }
    }
}

/// Bytes of the header of an ELF file, which has the offset of the section headers at 40.
const ELF_HEADER_BYTES: u64 = 64;

/// The most bytes of a file that begins like this one: in nearly all ELF files the section headers come last.
///
/// # Errors
/// If neither an ELF nor a Mach-O file begins like this.
fn largest(file: &fs::File) -> io::Result<u64> {
    let mut front = [0; ELF_HEADER_BYTES as usize];
    file.read_exact_at(&mut front, 0)?;
    if !object_file::looks_like_object(&front) {
        return Err(io::Error::other("it sent a file that is not a debug file"));
    }
    let offset = front[40..48].try_into().map_or(0, u64::from_le_bytes);
    let is_stated = front.starts_with(b"\x7fELF\x02\x01") && offset > 0;
    let bound = offset.saturating_mul(2).saturating_add(1 << 20);
    Ok([u64::MAX, bound][usize::from(is_stated)])
}

/// The addresses at which a server may have the debug file with this id, by the layout of its store.
///
/// Unified: `ab/cdef…/debuginfo`, by the id's digits. SymSrv, as LLDB, Sentry and Breakpad's tools know it:
/// `NAME/KEY/NAME`, where a debug file is named by its id alone (`_.dwarf/mach-uuid-sym-…/_.dwarf`,
/// `_.debug/elf-buildid-sym-…/_.debug`).
fn addresses(server: &str, id: &[u8]) -> Vec<String> {
    let digits = hex(id);
    let at = |server: &str, path: String| {
        let scheme = ["http://", ""][usize::from(server.contains("://"))];
        format!("{scheme}{}/{path}", server.trim_end_matches('/'))
    };
    if let Some(server) = server.strip_prefix("unified+") {
        let (first, rest) = digits.split_at(digits.len().min(2));
        return vec![at(server, format!("{first}/{rest}/debuginfo"))];
    }
    if let Some(server) = server.strip_prefix("symsrv+") {
        let elf = format!("_.debug/elf-buildid-sym-{digits}/_.debug");
        let mach_o = format!("_.dwarf/mach-uuid-sym-{digits}/_.dwarf");
        let all = [Some(mach_o).filter(|_| id.len() == UUID), Some(elf)];
        let all = all.into_iter().flatten();
        return all.map(|path| at(server, path)).collect();
    }
    vec![at(server, format!("buildid/{digits}/debuginfo"))]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_layout_has_its_addresses() {
        let id = [0xab; 20];
        let digits = "ab".repeat(20);
        let rest = "ab".repeat(19);
        for (server, expected) in [
            (
                "https://a/",
                format!("https://a/buildid/{digits}/debuginfo"),
            ),
            ("a:80", format!("http://a:80/buildid/{digits}/debuginfo")),
            (
                "unified+https://a",
                format!("https://a/ab/{rest}/debuginfo"),
            ),
            (
                "symsrv+https://a",
                format!("https://a/_.debug/elf-buildid-sym-{digits}/_.debug"),
            ),
        ] {
            assert_eq!(addresses(server, &id), [expected]);
        }
        let mach_o = addresses("symsrv+https://a", &[0xcd; 16]);
        let digits = "cd".repeat(16);
        assert_eq!(
            mach_o[0],
            format!("https://a/_.dwarf/mach-uuid-sym-{digits}/_.dwarf")
        );
        assert_eq!(mach_o.len(), 2);
    }
}
