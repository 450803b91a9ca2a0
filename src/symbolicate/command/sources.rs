//! Source code that was shown, or was to be, and is not what was compiled.

use rustc_hash::FxHashSet;

use crate::symbolicate::DebugFiles;
use crate::symbolicate::format::Sources;
use crate::symbolicate::frame::{Symbolicated, image_file_name};

/// Names the files for a report whose sums are not those in its debug files, or that end before a frame's line.
pub(super) fn changed(of: &Symbolicated, sources: &Sources, files: &DebugFiles) -> Vec<String> {
    let (mut changed, mut known) = (Vec::new(), FxHashSet::default());
    let stacks = of.threads.iter().chain(&of.samples);
    let own = stacks.clone().flat_map(|stack| &stack.frames);
    let awaiting = stacks.flat_map(|stack| &stack.tasks);
    let awaiting = awaiting.flat_map(|tasks| &tasks.callers);
    for physical in own.chain(awaiting) {
        for file in physical
            .frames
            .iter()
            .filter_map(|frame| frame.file.as_deref())
        {
            if !known.insert((physical.image, file)) {
                continue;
            }
            let (Some(shown), Some(image)) = (sources.shown(file), of.image(physical)) else {
                continue;
            };
            let compiled = || files.find(image, of.report.head.os.build.as_deref());
            let is_other = || compiled()?.source_sum(file).map(|sum| sum != shown.sum);
            if shown.lacks_line || is_other() == Some(true) {
                let (path, image) = (shown.path.display(), image_file_name(&image.name));
                changed.push(format!("{path}  (of {image})"));
            }
        }
    }
    changed
}
