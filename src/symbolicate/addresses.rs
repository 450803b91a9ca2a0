//! Single addresses of one image, in place of `atos`.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use super::Error;
use super::debug_files::{DebugFiles, FoundObject};
use super::frame::{Resolved, SourceFrame, Unread, image_file_name};
use super::image_files::ImageFiles;

/// One image, to look addresses up in. `Send + Sync`.
pub struct Addresses {
    files: Arc<ImageFiles>,
    name: String,
    /// Difference from an address as given to its svma.
    slide: u64,
}

impl Addresses {
    /// The image in `files`; the one of `arch`, where there are several. `load_address` is the avma
    /// of its first byte; without it, addresses are taken as svmas.
    ///
    /// # Errors
    /// Fails if there is no image, no image of `arch`, or more than one. The error's text lists the images.
    pub fn new(
        files: &DebugFiles,
        arch: Option<&str>,
        load_address: Option<u64>,
    ) -> Result<Addresses, Ambiguous> {
        let all = files.images();
        let same =
            |image: &&FoundObject| arch.is_none_or(|arch| image.object.arch == known_as(arch));
        let mut fitting: Vec<_> = all.iter().filter(same).collect();
        if fitting.len() > 1 {
            // The part that dwz made several programs share has none.
            fitting.retain(|image| image.object.has_code);
        }
        let [image] = fitting[..] else {
            let is_other = |image: &&FoundObject| image.object.arch != fitting[0].object.arch;
            let several = fitting.iter().any(is_other);
            let which = "several images: say which with --arch";
            let (what, images) = match (fitting.is_empty(), arch) {
                (true, Some(arch)) => (
                    format!("no image of architecture {arch}"),
                    all.iter().collect(),
                ),
                (true, None) => ("no debug file".into(), Vec::new()),
                (false, None) if several => (which.into(), fitting),
                (false, _) => ("several images: give one".into(), fitting),
            };
            let images = images.into_iter().map(FoundObject::describe).collect();
            return Err(Ambiguous { what, images });
        };
        let unreadable = || Ambiguous {
            what: "the file can no longer be read".into(),
            images: Vec::new(),
        };
        let files = files.open_listed(image).ok_or_else(unreadable)?;
        let slide = load_address.map_or(0, |avma| files.base().wrapping_sub(avma));
        Ok(Addresses {
            files,
            name: image.name().into_owned(),
            slide,
        })
    }

    /// The image's name.
    pub fn image(&self) -> &str {
        image_file_name(&self.name)
    }

    /// Returns what was not read, as far as look-ups led there.
    pub(crate) fn unread(&self) -> Unread {
        self.files.unread()
    }

    /// True if there is debug information, and not symbols alone.
    pub(crate) fn has_debug_info(&self) -> bool {
        self.files.has_debug_info()
    }

    /// Returns the frames at exactly this address (nothing is subtracted), innermost first. Empty if they are unknown.
    pub fn frames(&self, address: u64) -> Frames<'_> {
        self.answer(address).0
    }

    /// The frames, and how far into the outermost function the address lies.
    pub(crate) fn answer(&self, address: u64) -> (Frames<'_>, Option<u64>) {
        let svma = address.wrapping_add(self.slide);
        let answer = self.files.lookup(svma);
        let entry = answer.as_ref().and_then(|answer| answer.entry);
        let offset = entry.and_then(|entry| svma.checked_sub(entry));
        (Frames(answer), offset)
    }
}

/// The frames of an address, a slice. Those of an address that is looked up often are borrowed: to count references would be
/// most of the time of such a look-up.
#[derive(Debug, Clone)]
pub struct Frames<'a>(Option<Cow<'a, Resolved>>);

impl Deref for Frames<'_> {
    type Target = [SourceFrame];

    fn deref(&self) -> &[SourceFrame] {
        self.0.as_ref().map_or(&[], |answer| &answer.frames)
    }
}

/// An architecture by the name that it has here, from those that it has elsewhere.
fn known_as(arch: &str) -> &str {
    match arch {
        "aarch64" => "arm64",
        "x86_64h" | "x86-64" | "amd64" => "x86_64",
        "i686" | "x86" => "i386",
        _ if arch.starts_with("armv") => "arm",
        other => other,
    }
}

/// The reason why no single image was found.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Ambiguous {
    /// The reason why the file can't be used as it is.
    pub what: String,
    /// The images there are: name, architecture, id.
    pub images: Vec<String>,
}

impl std::fmt::Display for Ambiguous {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)?;
        self.images
            .iter()
            .try_for_each(|image| write!(f, "\n  {image}"))
    }
}

impl std::error::Error for Ambiguous {}

impl From<Ambiguous> for Error {
    fn from(ambiguous: Ambiguous) -> Error {
        Error::BadFile {
            path: "--debug".into(),
            what: ambiguous.to_string(),
        }
    }
}
