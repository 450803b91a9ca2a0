//! A crash report that two threads wrote, each in a file of its own, becomes one.
//!
//! The scribe has written the first parts (`.partial`, or `.wedjat` where its own crash was closed),
//! the dying thread what was left (`.beside`, the same name otherwise).

use std::io::{self, Read};
use std::path::Path;

use super::{PARTIAL, WHOLE};
use crate::platform::{self, descriptors};
use crate::report::{self, ClosedBy, End, Found, Frame, Image, Report};

/// Joins `path` with the file that it lies beside. `false` where somebody still writes to one of them.
pub(super) fn join(path: &Path) -> io::Result<bool> {
    let whole = path.with_extension(WHOLE);
    let Some(rest) = Locked::open(path)? else {
        return Ok(false);
    };
    let firsts = [path.with_extension(PARTIAL), whole.clone()];
    let Some(first) = firsts.into_iter().find(|first| first.exists()) else {
        // The scribe had not even begun its file.
        let closed = rest.report.as_ref().is_some_and(|rest| rest.end.is_some());
        std::fs::rename(
            path,
            if closed {
                whole
            } else {
                path.with_extension(PARTIAL)
            },
        )?;
        return Ok(true);
    };
    let Some(found) = Locked::open(&first)? else {
        return Ok(false);
    };
    match (found.report, rest.report) {
        (Some(found), Some(rest)) => {
            // Put in place at once: a process that dies here loses nothing.
            let fresh = path.with_extension("joined");
            descriptors::write(&fresh, &report::to_bytes(&joined(found, rest)))?;
            std::fs::rename(&fresh, &whole)?;
            if first != whole {
                std::fs::remove_file(&first)?;
            }
            std::fs::remove_file(path)?;
        }
        // Of the first there is nothing that could be read.
        (None, Some(_)) => std::fs::rename(path, &first)?,
        (_, None) => std::fs::remove_file(path)?,
    }
    Ok(true)
}

/// A report that nobody writes to, for as long as this lives.
struct Locked {
    /// `None` where nothing in it can be read.
    report: Option<Report>,
    _file: descriptors::Opened,
}

impl Locked {
    /// `None` while it is written, and of what is no report.
    fn open(path: &Path) -> io::Result<Option<Locked>> {
        let mut file = descriptors::open_file(path, libc::O_RDWR)?;
        if !platform::file::try_lock(&file) {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        if !super::is_own_content(&bytes) {
            return Ok(None);
        }
        let reading = report::read(&bytes);
        Ok(Some(Locked {
            report: reading.ok().map(|reading| reading.report),
            _file: file,
        }))
    }
}

/// What `rest` has and `report` has not is added to it.
fn joined(mut report: Report, rest: Report) -> Report {
    // Frames of the first whose images were not written any more are matched by address again.
    let written = report.images.len();
    let mut places = Vec::new();
    for image in rest.images {
        let known = report
            .images
            .iter()
            .position(|known| known.base == image.base);
        places.push(known.unwrap_or(report.images.len()));
        if known.is_none() {
            report.images.push(image);
        }
    }
    let Report {
        threads, images, ..
    } = &mut report;
    for frame in threads.iter_mut().flat_map(|thread| &mut thread.frames) {
        if frame.image.is_some_and(|image| image as usize >= written) {
            frame.image = lies_in(images, frame);
        }
    }
    for mut thread in rest.threads {
        if report.threads.iter().any(|known| known.id == thread.id) {
            continue;
        }
        for frame in &mut thread.frames {
            let place = frame.image.and_then(|image| places.get(image as usize));
            frame.image = place.and_then(|&place| u32::try_from(place).ok());
        }
        // The one in question first.
        let place = if thread.crashed {
            0
        } else {
            report.threads.len()
        };
        report.threads.insert(place, thread);
    }
    report.event = report.event.or(rest.event);
    report.vitals = report.vitals.or(rest.vitals);
    report.context = report.context.or(rest.context);
    report.loss = report.loss.or(rest.loss);
    if report.memory.is_empty() {
        report.memory = rest.memory;
    }
    report.capture = match (report.capture, rest.capture) {
        (Some(mut first), Some(rest)) => {
            first.cut = first.cut.or(rest.cut);
            first.unwind = first.unwind.or(rest.unwind);
            first.bytes = first.bytes.or(rest.bytes);
            first.unanswered = first.unanswered.or(rest.unanswered);
            Some(first)
        }
        (first, rest) => first.or(rest),
    };
    report.unknown.extend(rest.unknown);
    // The dying thread has come to its end, or nobody has.
    report.end = Some(rest.end.unwrap_or_else(|| End {
        closed_by: ClosedBy::NextLaunch.as_str().to_owned(),
        ..End::default()
    }));
    report
}

fn lies_in(images: &[Image], frame: &Frame) -> Option<u32> {
    let back = u64::from(frame.found != Found::Context);
    let pc = frame.pc.saturating_sub(back);
    let holds = |image: &Image| (image.base..image.base.saturating_add(image.size)).contains(&pc);
    let place = images.iter().position(holds)?;
    u32::try_from(place).ok()
}
