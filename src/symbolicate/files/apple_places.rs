//! Debug files of Apple platforms where its tools leave them: beside the binary, in Spotlight's index, in Xcode's archives
//! and products, and in the folders that Xcode copies from devices.

use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use object::Object as _;
use rustc_hash::FxHashMap;
use walkdir::{DirEntry, WalkDir};

use super::archives::quoted;
use super::object_file::{self, ObjectFile};
use super::owner::absolute_variable;
use super::search;
use crate::symbolicate::frame::id_text;
use crate::symbolicate::lock;

/// Below the home folder.
const XCODE: &str = "Library/Developer/Xcode";
/// Folders of Xcode's in which dSYMs lie, and how deep.
const BUILT: [(&str, usize); 2] = [("Archives", 5), ("DerivedData", 7)];
/// Time that one question to Spotlight may take; after one that takes longer none is put.
const SPOTLIGHT_TIMEOUT: Duration = Duration::from_secs(10);

/// The places of one user.
#[derive(Default)]
pub(crate) struct ApplePlaces {
    /// dSYMs in Xcode's folders by UUID, once one was looked for.
    built: OnceLock<FxHashMap<Vec<u8>, Vec<PathBuf>>>,
    spotlight: Mutex<Spotlight>,
}

/// The answers of `mdfind` so far.
#[derive(Default)]
struct Spotlight {
    program: Option<Option<PathBuf>>,
    answers: FxHashMap<Vec<u8>, Vec<PathBuf>>,
}

impl ApplePlaces {
    /// Files that may be the debug file with this UUID, Spotlight's first.
    pub(crate) fn find(&self, uuid: &[u8]) -> Vec<PathBuf> {
        if uuid.len() != 16 {
            return Vec::new();
        }
        let found = lock(&self.spotlight).ask(uuid);
        let built = || self.built.get_or_init(xcode_dsyms).get(uuid).cloned();
        if found.is_empty() {
            built().unwrap_or_default()
        } else {
            found
        }
    }
}

/// Files that may be the system library with this path, out of what Xcode copied from devices: of devices with the same
/// build of the system first.
pub(crate) fn in_device_support(path: &str, build: Option<&str>) -> Vec<PathBuf> {
    let Some(xcode) = xcode() else {
        return Vec::new();
    };
    let mut parts = Path::new(path).components();
    let is_plain = parts.next() == Some(Component::RootDir)
        && parts.all(|part| matches!(part, Component::Normal(_)));
    if !is_plain {
        return Vec::new();
    }
    let mut devices: Vec<PathBuf> = device_support(&xcode)
        .iter()
        .flat_map(|kind| folders(kind))
        .collect();
    // As `iPhone14,2 17.0 (21A329)`.
    let build = build.map(|build| format!("({build})"));
    let is_other = |device: &PathBuf| {
        let name = device.file_name().unwrap_or_default().to_string_lossy();
        build
            .as_ref()
            .is_none_or(|build| !name.contains(build.as_str()))
    };
    devices.sort_by_cached_key(|device| (is_other(device), device.clone()));
    let symbols = devices
        .into_iter()
        .map(|device| device.join("Symbols").join(&path[1..]));
    symbols.filter(|file| file.is_file()).collect()
}

/// Files that may be the debug file of a binary, beside it or beside its bundle:
/// `Kiosk.app.dSYM/Contents/Resources/DWARF/Kiosk`.
pub(crate) fn dsyms_beside(binary: &Path) -> Vec<PathBuf> {
    let Some(name) = binary.file_name() else {
        return Vec::new();
    };
    let is_bundle = |folder: &&Path| {
        let end = folder.extension().and_then(|end| end.to_str());
        end.is_some_and(|end| BUNDLES.contains(&end))
    };
    let bundles = binary.ancestors().skip(1).take(5).filter(is_bundle);
    let dsyms = std::iter::once(binary).chain(bundles).map(|of| {
        let mut dsym = of.as_os_str().to_owned();
        dsym.push(".dSYM");
        PathBuf::from(dsym)
            .join("Contents/Resources/DWARF")
            .join(name)
    });
    dsyms.filter(|file| file.is_file()).collect()
}

const BUNDLES: [&str; 6] = ["app", "appex", "framework", "bundle", "xpc", "plugin"];

/// Returns what to do with the image at `path` if it has a debug map (`N_OSO` symbols, as cargo's and Xcode's debug builds leave
/// it), no debug information of its own, and no dSYM beside it.
pub(crate) fn dsymutil_hint(path: &Path) -> Option<String> {
    let objects = object_file::open(path).ok()?;
    let is_without = |object: &&ObjectFile| object.is_mach_o() && !object.has_dwarf;
    let maps = objects
        .iter()
        .filter(is_without)
        .filter_map(|object| object.parse());
    let files = maps.map(|file| file.object_map().objects().len());
    let count = files.max().filter(|&count| count > 0)?;
    let (shown, command) = (path.display(), quoted(&path.display().to_string()));
    let files = if count == 1 { "file" } else { "files" };
    dsyms_beside(path).is_empty().then(|| {
        format!("{shown}: its debug information lies in {count} object {files}; make a dSYM of it: dsymutil {command}")
    })
}

/// The places that are there, in words.
pub(crate) fn searched() -> Vec<String> {
    let mut places = Vec::new();
    places.extend(program().map(|program| format!("Spotlight ({})", program.display())));
    let Some(xcode) = xcode() else {
        return places;
    };
    let built = BUILT.map(|(folder, _)| xcode.join(folder));
    let all = built.into_iter().chain(device_support(&xcode));
    places.extend(
        all.filter(|folder| folder.is_dir())
            .map(|folder| folder.display().to_string()),
    );
    places
}

fn xcode() -> Option<PathBuf> {
    Some(absolute_variable("HOME")?.join(XCODE)).filter(|folder| folder.is_dir())
}

/// `iOS DeviceSupport` and the like.
fn device_support(xcode: &Path) -> Vec<PathBuf> {
    let all = folders(xcode).into_iter();
    let is_it = |folder: &PathBuf| {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(" DeviceSupport")
    };
    all.filter(is_it).collect()
}

/// The folders in one, in order.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    folders.retain(|path| path.is_dir());
    folders.sort();
    folders
}

/// All dSYMs that Xcode has built and archived.
fn xcode_dsyms() -> FxHashMap<Vec<u8>, Vec<PathBuf>> {
    let mut found: FxHashMap<Vec<u8>, Vec<PathBuf>> = FxHashMap::default();
    let Some(xcode) = xcode() else {
        return found;
    };
    for (folder, depth) in BUILT {
        let all = WalkDir::new(xcode.join(folder))
            .max_depth(depth)
            .sort_by_file_name();
        let mut all = all.into_iter().filter_entry(leads_to_dsyms);
        while let Some(entry) = all.next() {
            if let Ok(entry) = entry.as_ref()
                && is_dsym(entry.path())
            {
                all.skip_current_dir();
                add_dsym(entry.path(), &mut found);
            }
        }
    }
    found
}

/// Returns false for folders in which no dSYM lies, and there are many files.
fn leads_to_dsyms(entry: &DirEntry) -> bool {
    let name = entry.file_name().to_string_lossy();
    let end = Path::new(&*name).extension().and_then(|end| end.to_str());
    let is_bundle = end.is_some_and(|end| BUNDLES.contains(&end) || end == "noindex");
    let others = ["Index", "Logs", "SourcePackages", "Products"];
    // `Build/Products` has those of DerivedData, `NAME.xcarchive/Products` the app.
    let is_other = others.contains(&&*name)
        && (name != "Products"
            || !entry
                .path()
                .parent()
                .is_some_and(|of| of.ends_with("Build")));
    entry.file_type().is_dir() && !is_bundle && !is_other
}

fn is_dsym(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "dSYM")
}

/// Adds the files in a dSYM, by their UUIDs.
fn add_dsym(dsym: &Path, found: &mut FxHashMap<Vec<u8>, Vec<PathBuf>>) {
    let entries = std::fs::read_dir(dsym.join("Contents/Resources/DWARF"));
    for entry in entries.into_iter().flatten().flatten() {
        let path = entry.path();
        let objects = search::objects(&path).unwrap_or_default();
        for object in objects.into_iter().filter(|object| !object.id.is_empty()) {
            let paths = found.entry(object.id).or_default();
            paths.push(path.clone());
        }
    }
}

impl Spotlight {
    /// The files with DWARF in what Spotlight knows by this UUID.
    fn ask(&mut self, uuid: &[u8]) -> Vec<PathBuf> {
        if let Some(known) = self.answers.get(uuid) {
            return known.clone();
        }
        let Some(program) = self.program.get_or_insert_with(program).clone() else {
            return Vec::new();
        };
        let answer = ask(&program, uuid);
        if answer.is_none() {
            self.program = Some(None);
        }
        let mut files: FxHashMap<Vec<u8>, Vec<PathBuf>> = FxHashMap::default();
        let answer = answer.unwrap_or_default();
        let is_known =
            |path: &&Path| is_dsym(path) || path.extension() == Some("xcarchive".as_ref());
        for path in answer.lines().map(Path::new).filter(is_known) {
            let below = WalkDir::new(path).max_depth(3).sort_by_file_name();
            let below = below
                .into_iter()
                .flatten()
                .filter(|entry| is_dsym(entry.path()));
            below.for_each(|entry| add_dsym(entry.path(), &mut files));
        }
        let found = files.remove(uuid).unwrap_or_default();
        self.answers.insert(uuid.to_owned(), found.clone());
        found
    }
}

/// The program that asks Spotlight, where there is one.
fn program() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let programs = std::env::split_paths(&folders).filter(|folder| folder.is_absolute());
    programs
        .map(|folder| folder.join("mdfind"))
        .find(|program| program.is_file())
}

/// Asks for the paths of dSYMs and archives with this UUID; `None` where there is no answer in time.
fn ask(program: &Path, uuid: &[u8]) -> Option<String> {
    let mut command = Command::new(program);
    command.arg(format!("com_apple_xcode_dsym_uuids == {}", id_text(uuid)));
    command.stdin(Stdio::null()).stderr(Stdio::null());
    let (answer, answers) = std::sync::mpsc::channel();
    // It may hang, as may what it has begun.
    std::thread::spawn(move || answer.send(command.output()));
    let output = answers.recv_timeout(SPOTLIGHT_TIMEOUT).ok()?.ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dsym_lies_beside_the_binary_or_its_bundle() {
        let all = tempfile::tempdir().unwrap();
        let make = |path: &str| {
            let path = all.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "x").unwrap();
            path
        };
        let tool = make("tool");
        assert!(dsyms_beside(&tool).is_empty());
        let dsym = make("tool.dSYM/Contents/Resources/DWARF/tool");
        assert_eq!(dsyms_beside(&tool), [dsym]);
        let app = make("Kiosk.app/Contents/MacOS/Kiosk");
        let dsym = make("Kiosk.app.dSYM/Contents/Resources/DWARF/Kiosk");
        assert_eq!(dsyms_beside(&app), [dsym]);
        let inner = make("Kiosk.app/Frameworks/Till.framework/Till");
        let dsym = make("Kiosk.app/Frameworks/Till.framework.dSYM/Contents/Resources/DWARF/Till");
        assert_eq!(dsyms_beside(&inner), [dsym]);
    }
}
