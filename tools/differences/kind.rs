//! In a few words, how two chains of frames differ.

use crate::Frame;

/// How two chains differ; `same` if they do not.
pub fn of(ours: &[Frame], llvm: &[Frame]) -> &'static str {
    let unknown = |frames: &[Frame]| frames.iter().all(|f| f.0.is_empty() && f.1.is_empty());
    let plain = |frames: &[Frame]| -> Vec<Frame> {
        let name = |n: &str| {
            n.strip_prefix('_')
                .filter(|n| n.starts_with('_') || n.starts_with('$'))
                .unwrap_or(n)
                .to_owned()
        };
        frames
            .iter()
            .map(|f| (name(&f.0), normal(&f.1), f.2))
            .collect()
    };
    match (unknown(ours), unknown(llvm)) {
        (true, true) => return "same",
        (true, false) if llvm.iter().all(|f| f.1.is_empty()) => {
            return "only llvm, from the nearest symbol";
        }
        (true, false) => return "only llvm",
        (false, true) => return "only wedjat",
        _ => {}
    }
    let (mut ours, llvm) = (plain(ours), plain(llvm));
    // Merged code has all names: `names` looks for llvm-symbolizer's among them.
    if let (Some(own), Some(theirs)) = (ours.last_mut(), llvm.last())
        && own.0.starts_with("merged ")
    {
        own.0.clone_from(&theirs.0);
    }
    if ours == llvm {
        return "same";
    }
    if ours.len() != llvm.len() {
        return "other chain";
    }
    let pairs = || ours.iter().zip(&llvm);
    if pairs().all(|(a, b)| a.1 == b.1 && a.2 == b.2) {
        let last_alone = ours[..ours.len() - 1] == llvm[..llvm.len() - 1];
        return if last_alone {
            "other name of the outermost function"
        } else {
            "other name of an inlined function"
        };
    }
    if pairs().all(|(a, b)| a.0 == b.0 && a.1 == b.1) {
        return "other line";
    }
    if pairs().all(|(a, b)| a.0 == b.0 && a.2 == b.2) {
        return "other file";
    }
    if llvm.iter().all(|f| f.1.is_empty()) {
        return "only wedjat has lines";
    }
    "other function"
}

/// Paths without `.` and doubled slashes.
fn normal(path: &str) -> String {
    path.replace("/./", "/").replace("//", "/")
}
