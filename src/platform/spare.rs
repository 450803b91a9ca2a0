//! A report file that is made beforehand, for a process that can open none any more when it crashes.

use std::ffi::{CStr, CString};

use super::file::{File, Folder};
use super::process_id;

/// An empty file, open and locked, under a name that is no report's.
#[derive(Debug)]
pub struct Spare {
    file: File,
    name: CString,
    /// Id of the process that made it.
    process: u32,
}

impl Spare {
    /// Makes one in `folder`, which must outlive it; `name` must not be there. The error is an `errno`.
    pub fn new(folder: &Folder, name: CString) -> Result<Spare, i32> {
        Ok(Spare {
            file: folder.create(&name)?,
            name,
            process: process_id(),
        })
    }

    /// The name that it has until it is given another one. Signal-safe.
    pub fn name(&self) -> &CStr {
        &self.name
    }

    /// The file, to be written to from its beginning. `None` where it is not what it was: removed, closed
    /// by the app, written to already, or that of a parent of this process. Signal-safe.
    pub fn take(&self) -> Option<File> {
        (self.is_ours() && self.file.is_unused()).then(|| self.file.borrowed())
    }

    /// Makes it what it was before [`Spare::take`], where it has this name in its folder by now.
    /// Signal-safe.
    pub fn take_back(&self, folder: &Folder, name: &CStr) {
        if self.is_ours() && self.file.has_name(folder, name) {
            let named = name == self.name() || folder.rename(name, &self.name).is_ok();
            if named {
                // One that stays as it is serves no more.
                let _ = self.file.truncate(0);
            }
        }
    }

    /// Removes it, unless it has become a report. Signal-safe.
    pub fn remove(&self, folder: &Folder) {
        if self.take().is_some() && self.file.has_name(folder, &self.name) {
            // A file that cannot be removed now is removed by the next launch.
            let _ = folder.remove(&self.name);
        }
    }

    fn is_ours(&self) -> bool {
        self.process == process_id()
    }
}
