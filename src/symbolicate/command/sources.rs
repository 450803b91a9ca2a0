//! Source files that are not those that were compiled.

use rustc_hash::FxHashSet;

use crate::symbolicate::format::Sources;
use crate::symbolicate::frame::{Symbolicated, image_file_name};

/// Names the files for a report that end before a frame's line.
pub(super) fn changed(of: &Symbolicated, sources: &Sources) -> Vec<String> {
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
            if let (Some(path), Some(image)) = (sources.too_short(file), of.image(physical)) {
                let (path, image) = (path.display(), image_file_name(&image.name));
                changed.push(format!("{path}  (of {image})"));
            }
        }
    }
    changed
}
