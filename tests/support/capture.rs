//! What several capture tests share.
#![allow(dead_code, reason = "each test program uses some of it")]

use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

/// Where a function of this program lies: its symbol's size is read by an independent library.
pub fn range_of(function: *const ()) -> Range<u64> {
    static SIZES: OnceLock<HashMap<u64, u64>> = OnceLock::new();
    let sizes = SIZES.get_or_init(|| {
        use object::{Object, ObjectSymbol};
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let exe = std::fs::read_link("/proc/self/exe").unwrap();
        let line = maps
            .lines()
            .find(|line| line.ends_with(exe.to_str().unwrap()))
            .unwrap();
        let slide = u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
        let sized = file.symbols().filter(|symbol| symbol.size() != 0);
        sized
            .map(|symbol| (symbol.address() + slide, symbol.size()))
            .collect()
    });
    let size = sizes
        .get(&(function as u64))
        .expect("the executable has a symbol table");
    function as u64..function as u64 + size
}
