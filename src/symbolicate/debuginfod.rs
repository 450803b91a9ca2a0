//! Debug files from debuginfod servers, by build id.
//!
//! The protocol is `GET SERVER/buildid/HEX/debuginfo`, as elfutils' debuginfod(8) has it. Files are
//! kept in elfutils' own cache folder layout, so that what gdb fetched is not fetched again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Larger answers are no debug files.
const MAX_SIZE: u64 = 8 << 30;

/// The servers to ask, and where to keep what they gave.
#[derive(Debug, Clone)]
pub struct Debuginfod {
    servers: Vec<String>,
    cache: PathBuf,
    timeout: Duration,
}

impl Debuginfod {
    /// These servers, with files kept in `cache`.
    pub fn new(servers: Vec<String>, cache: &Path) -> Debuginfod {
        Debuginfod {
            servers,
            cache: cache.to_owned(),
            timeout: Duration::from_secs(90),
        }
    }

    /// As the environment has it: `DEBUGINFOD_URLS` (separated by spaces), `DEBUGINFOD_CACHE_PATH`,
    /// `DEBUGINFOD_TIMEOUT` (seconds). `None` where no server is named.
    pub fn from_environment() -> Option<Debuginfod> {
        let urls = std::env::var("DEBUGINFOD_URLS").ok()?;
        let servers: Vec<String> = urls.split_whitespace().map(str::to_owned).collect();
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

    /// How long to wait for the first byte of an answer, and for each one after it (90 s).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Debuginfod {
        self.timeout = timeout;
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
        if fs::metadata(&path).is_ok_and(|meta| meta.len() > 0) {
            return Some(path);
        }
        let fetch = |server: &String| {
            let url = format!("{}/buildid/{hex}/debuginfo", server.trim_end_matches('/'));
            self.fetch(&url, &folder, &path).ok()
        };
        self.servers.iter().find_map(fetch)?;
        Some(path)
    }

    /// Gets `url` into `path`, whole or not at all.
    fn fetch(&self, url: &str, folder: &Path, path: &Path) -> io::Result<()> {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_connect(Some(self.timeout.min(Duration::from_secs(20))))
            .timeout_recv_response(Some(self.timeout))
            .timeout_recv_body(Some(self.timeout.saturating_mul(10)))
            .user_agent(concat!("wedjat/", env!("CARGO_PKG_VERSION")))
            .build()
            .into();
        let mut response = agent.get(url).call().map_err(io::Error::other)?;
        fs::create_dir_all(folder)?;
        let temporary = folder.join(format!("debuginfo.{}.new", std::process::id()));
        let result = (|| {
            let mut body = response.body_mut().with_config().limit(MAX_SIZE).reader();
            let mut file = fs::File::create(&temporary)?;
            io::copy(&mut body, &mut file)?;
            fs::rename(&temporary, path)
        })();
        if result.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        result
    }
}
