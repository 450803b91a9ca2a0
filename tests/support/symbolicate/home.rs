//! A folder full of a user's own things, among them some that look like ours.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use wedjat::new;
use wedjat::report;
use wedjat::report::{End, Event, EventKind, Found};

use super::Workshop;

const SOURCE: &str = "volatile int sink;
__attribute__((noinline)) static void hidden(int n) {
    sink = n;
    __asm__ volatile(\"mark: nop\" ::: \"memory\");
}
int main(int argc, char **argv) { hidden(argc); return 0; }
";

/// A folder of a user's: a program with its source, reports of it, and whatever else people have.
pub struct Home {
    pub shop: Workshop,
    pub before: BTreeMap<PathBuf, Thing>,
}

/// A file's inode, mode, bytes and time of change; a link's target.
pub type Thing = (u64, u32, Vec<u8>, Option<SystemTime>);

impl Home {
    pub fn new() -> Home {
        let shop = Workshop::new(&[("a.c", SOURCE)]);
        shop.run("gcc -g -O1 -Wl,--build-id=sha1 a.c -o program");
        let mark = shop.address("program", "mark");
        let mut report = shop.report("program", &[(mark, Found::Context)]);
        report.event = Some(new!(Event {
            kind: EventKind::Live,
        }));
        report.end = Some(new!(End {
            closed_by: "writer".into(),
        }));
        let bytes = report::to_bytes(&report);
        std::fs::create_dir(shop.path("reports")).unwrap();
        std::fs::create_dir(shop.path("photos")).unwrap();
        let table = b"wdjcache and more of it";
        let files: &[(&str, &[u8])] = &[
            ("a.wedjat", &bytes),
            ("reports/b.wedjat", &bytes),
            ("letter.txt", b"Dear Ann"),
            (".profile", b"umask 22"),
            ("photos/1.jpg", b"\xff\xd8\xff\xe0"),
            ("large.iso", &vec![7; 3 << 20]),
            // Names that the cache gives, and bytes that are not its own.
            ("0011aabb-1000-v2.table", b"my own table"),
            ("0011aabb-1000-v2.lock", b"my own lock"),
            ("0011aabb-1000-v2.table.Ab12.new", b"new"),
            ("00112233-10-v2.folder", b"{}"),
            // Bytes as its own have, and other names.
            ("mine.table", table),
            ("notes-v2.table", table),
            ("debuginfo", b""),
        ];
        let long_ago = SystemTime::now() - Duration::from_secs(90 * 24 * 3600);
        for (name, bytes) in files {
            std::fs::write(shop.path(name), bytes).unwrap();
            let file = std::fs::File::open(shop.path(name)).unwrap();
            file.set_modified(long_ago).unwrap();
        }
        symlink("mine.table", shop.path("44556677-9-v2.table")).unwrap();
        symlink("nowhere", shop.path("55556677-9-v2.table")).unwrap();
        let before = things(&shop.path(""));
        Home { shop, before }
    }

    pub fn path(&self, name: &str) -> String {
        self.shop.path(name).display().to_string()
    }

    /// Everything that was there is there, as it was. What is new is given.
    #[track_caller]
    pub fn check(&self, after: &str) -> Vec<PathBuf> {
        let mut now = things(&self.shop.path(""));
        for (path, before) in &self.before {
            let found = now.remove(path);
            assert!(
                found.as_ref() == Some(before),
                "{after}: {} is {}",
                path.display(),
                if found.is_some() { "changed" } else { "gone" }
            );
        }
        now.into_keys().collect()
    }
}

/// Everything below a folder but the folders.
pub fn things(root: &Path) -> BTreeMap<PathBuf, Thing> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        let meta = path.symlink_metadata().unwrap();
        if meta.is_dir() {
            found.extend(things(&path));
            continue;
        }
        let bytes = if meta.is_file() {
            std::fs::read(&path).unwrap()
        } else {
            std::fs::read_link(&path)
                .map_or(Vec::new(), |to| to.into_os_string().into_encoded_bytes())
        };
        let changed = meta.is_file().then(|| meta.modified().unwrap());
        found.insert(path, (meta.ino(), meta.mode(), bytes, changed));
    }
    found
}
