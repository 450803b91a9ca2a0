//! The destination of results: standard output, or a file that is put in place once it is whole.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::args::Args;
use super::interrupt;
use crate::symbolicate::error::plain_words;
use crate::symbolicate::files::object_file::{is_shared_cache, looks_like_object};
use crate::symbolicate::files::owner::{self, Identity, descriptor, identity, identity_of_stream};

const BUFFER: usize = 1 << 16;
/// As many links as the system follows.
const MAX_LINKS: usize = 40;

/// Takes the results. What goes to a file is in another next to it until [`Output::finish`]; dropped before, it leaves
/// nothing.
pub(super) enum Output {
    /// Standard output, a pipe, a device.
    Stream(BufWriter<Box<dyn Write>>),
    /// A file, and where it is to be.
    File(BufWriter<NamedTempFile>, PathBuf),
}

impl Output {
    pub fn open(args: &Args) -> io::Result<Output> {
        let Some(path) = &args.output else {
            return Ok(Output::stream(io::stdout().lock()));
        };
        let in_words = |error: io::Error| {
            let text = format!("{}: {}", path.display(), plain_words(&error));
            io::Error::new(error.kind(), text)
        };
        Output::open_path(path).map_err(in_words)
    }

    fn open_path(path: &Path) -> io::Result<Output> {
        match Destination::of(path) {
            Destination::Descriptor(1, _) => Ok(Output::stream(io::stdout().lock())),
            // The descriptor's earlier contents stay.
            Destination::Descriptor(_, path) => {
                Ok(Output::stream(File::options().append(true).open(path)?))
            }
            Destination::Special(path) => {
                Ok(Output::stream(File::options().write(true).open(path)?))
            }
            Destination::File(path) => Output::temporary(path),
        }
    }

    fn stream(to: impl Write + 'static) -> Output {
        Output::Stream(BufWriter::with_capacity(BUFFER, Box::new(to)))
    }

    fn temporary(path: PathBuf) -> io::Result<Output> {
        // A file that may not be written to is not replaced either.
        let before = match File::options().write(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            before => Some(before?.metadata()?),
        };
        let is_named = |folder: &&Path| !folder.as_os_str().is_empty();
        let folder = path.parent().filter(is_named).unwrap_or(Path::new("."));
        let mut fresh = tempfile::Builder::new();
        fresh.prefix(".symbolicate-").suffix(".tmp");
        let mut options = File::options();
        options.read(true).write(true).create_new(true).mode(0o600);
        // By its name, so that it is never there without a handler to remove it.
        let file = fresh.make_in(folder, |path| {
            interrupt::remove_at_end(path);
            options.open(path).inspect_err(|_| interrupt::keep_at_end())
        })?;
        if let Some(before) = before {
            // If the owner cannot be kept, the file is the writing user's.
            let _ = fchown(file.as_file(), Some(before.uid()), Some(before.gid()));
            file.as_file().set_permissions(before.permissions())?;
        }
        Ok(Output::File(BufWriter::with_capacity(BUFFER, file), path))
    }

    /// Puts the file in place.
    pub fn finish(self) -> io::Result<()> {
        match self {
            Output::Stream(mut stream) => stream.flush(),
            Output::File(writer, path) => {
                let file = writer.into_inner().map_err(|error| error.into_error())?;
                // Else a loss of power could leave neither the old nor the new.
                file.as_file().sync_data()?;
                file.persist(path).map(drop).map_err(|error| error.error)
            }
        }
    }

    /// The file that is to be, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Output::Stream(_) => None,
            Output::File(_, path) => Some(path),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::Stream(to) => to.write(bytes),
            Output::File(to, _) => to.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::Stream(to) => to.flush(),
            Output::File(to, _) => to.flush(),
        }
    }
}

/// The target of a path.
enum Destination {
    /// An open descriptor of this process, and a name of it.
    Descriptor(u32, PathBuf),
    /// Something to write into as it is: a pipe, a device.
    Special(PathBuf),
    /// A regular file, or none yet.
    File(PathBuf),
}

impl Destination {
    /// Follows links: it is the file that is replaced, not the link to it.
    fn of(path: &Path) -> Destination {
        let mut last = path.to_owned();
        for path in links(path) {
            if let Some(number) = descriptor(&path) {
                return Destination::Descriptor(number, path);
            }
            last = path;
        }
        match fs::metadata(&last) {
            Ok(meta) if !meta.is_file() => Destination::Special(last),
            _ => Destination::File(last),
        }
    }
}

/// The file that results go to, as far as it may be one of the inputs.
#[derive(Debug, Clone, Default)]
pub(super) struct Target(Option<Identity>);

impl Target {
    pub fn of(args: &Args) -> Target {
        let Some(path) = &args.output else {
            return Target(identity_of_stream(io::stdout()));
        };
        match Destination::of(path) {
            Destination::Descriptor(1, _) => Target(identity_of_stream(io::stdout())),
            Destination::Descriptor(_, path) | Destination::File(path) if path.is_file() => {
                Target(identity(&path))
            }
            _ => Target(None),
        }
    }

    /// Returns true if a path leads to it.
    pub fn is(&self, path: &Path) -> bool {
        self.0.is_some() && identity(path) == self.0
    }

    /// Returns true if one of these is it.
    pub fn is_among(&self, others: &[Identity]) -> bool {
        self.0.is_some_and(|target| others.contains(&target))
    }

    /// Why the output cannot be what it is, if that is known before anything is read.
    pub fn refusal(&self, args: &Args) -> Option<String> {
        if let Some(path) = args.output.as_ref().filter(|path| is_strangers(path)) {
            let path = path.display();
            return Some(format!("--output {path}: it belongs to another user"));
        }
        self.0.as_ref()?;
        let named = args.reports.iter().chain(&args.debug);
        if let Some(input) = { named }.find(|input| self.is(input)) {
            return Some(refusal(&input.display().to_string()));
        }
        let reads_input = args.reports.iter().any(|path| path.as_os_str() == "-")
            || args.address.iter().any(|address| address == "-");
        if reads_input && identity_of_stream(io::stdin()) == self.0 {
            return Some(refusal("standard input"));
        }
        // Those in folders among them, and those that no option names.
        let path = args.output.as_ref()?;
        let mut front = [0; 8];
        let read = File::open(path).and_then(|mut file| file.read_exact(&mut front));
        let what = "it is a program, a library or a debug file; it stays as it is";
        let is_object = read.is_ok() && (looks_like_object(&front) || is_shared_cache(&front));
        is_object.then(|| format!("--output {}: {what}", path.display()))
    }
}

/// Returns true if a path leads through another user's link, or to another user's file or pipe. Terminals and other
/// devices are anyone's.
fn is_strangers(path: &Path) -> bool {
    let mut links = links(path).map_while(|path| {
        let meta = fs::symlink_metadata(&path).ok()?;
        // The system's own, of open descriptors, belong to whoever runs the process.
        let is_anyones = descriptor(&path).is_some() || meta.file_type().is_char_device();
        (!is_anyones).then(|| owner::is_strangers(&meta))
    });
    links.any(|is_strangers| is_strangers)
}

/// The path, and those that links lead to from there.
fn links(path: &Path) -> impl Iterator<Item = PathBuf> {
    let next = |path: &PathBuf| {
        let target = fs::read_link(path).ok()?;
        Some(path.parent().unwrap_or(Path::new("")).join(target))
    };
    std::iter::successors(Some(path.to_owned()), next).take(MAX_LINKS)
}

/// The message about an input that the output would take the place of.
pub(super) fn refusal(input: &str) -> String {
    format!("the output would take the place of an input, {input}: name another file")
}
