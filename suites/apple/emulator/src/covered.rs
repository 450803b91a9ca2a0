//! Which code of the program itself has been executed: its blocks, as stated addresses.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::Write;
use std::rc::Rc;

use crate::machine::Machine;

/// The blocks seen so far: where each begins, and its bytes.
pub type Blocks = Rc<RefCell<BTreeSet<(u64, u32)>>>;

/// Notes each block of the program's image from now on.
pub fn watch(m: &mut Machine) -> Blocks {
    let blocks = Blocks::default();
    let Some(image) = m.images.first() else {
        return blocks;
    };
    let (text, slide) = (image.text(), image.slide);
    let seen = blocks.clone();
    m.uc.add_block_hook(text.start, text.end - 1, move |_, pc, size| {
        seen.borrow_mut().insert((pc - slide, size));
    })
    .expect("a block hook");
    blocks
}

/// Adds them to a file, one a line: hexadecimal address, bytes.
pub fn write(blocks: &Blocks, path: &std::ffi::OsStr) -> std::io::Result<()> {
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)?;
    let mut file = std::io::BufWriter::new(file);
    for (at, size) in blocks.borrow().iter() {
        writeln!(file, "{at:x} {size}")?;
    }
    file.flush()
}
