//! Split DWARF whose units all name one file.

use super::{Workshop, limited};

/// Skeleton units.
const UNITS: usize = 150;
/// Bytes to which the file unpacks; it is a hundredth as large.
const UNPACKED: usize = 30_000_000;
/// Memory, KiB: each unit with a copy would take 4.5 GB.
const MEMORY: u32 = 1_500_000;

/// A program whose skeletons all have the one unit of the file for their other half, or only the first one has.
fn shop(same: bool) -> Workshop {
    let unit = |at: usize| {
        let id = if same { 1 } else { at + 1 };
        format!(
            ".long .Le{at} - .Lb{at}
             .Lb{at}: .value 5
             .byte 4, 8
             .long 0
             .quad {id}
             .uleb128 1
             .quad main
             .quad .Lend - main
             .asciz \"{}x.dwo\"
             .Le{at}:",
            "./".repeat(at % 7)
        )
    };
    let units: String = (0..UNITS).map(|at| unit(at) + "\n").collect();
    let shop = super::assembled(&format!(
        ".section .debug_abbrev,\"\",@progbits
         .uleb128 1, 0x4a
         .byte 0
         .uleb128 0x11, 1, 0x12, 7, 0x76, 8, 0, 0
         .uleb128 0
         .section .debug_info,\"\",@progbits
         {units}"
    ));
    let noise = super::noise(UNPACKED / 90);
    std::fs::write(shop.path("noise"), noise).unwrap();
    let zeros = UNPACKED - UNPACKED / 90;
    let half = format!(
        ".section .debug_abbrev.dwo,\"e\",@progbits
         .uleb128 1, 0x11
         .byte 0
         .uleb128 0x25, 8, 0, 0, 0
         .section .debug_info.dwo,\"e\",@progbits
         .long .Lend - .Lbegin
         .Lbegin: .value 5
         .byte 5, 8
         .long 0
         .quad 1
         .uleb128 1
         .asciz \"x\"
         .zero {zeros}
         .Lend:
         .section .debug_str.dwo,\"e\",@progbits
         .incbin \"noise\"
         .zero {zeros}\n"
    );
    std::fs::write(shop.path("x.s"), half).unwrap();
    shop.run("gcc -c -Wa,--compress-debug-sections=zlib x.s -o x.dwo");
    shop
}

#[test]
fn a_file_that_many_units_name_is_unpacked_once() {
    for same in [false, true] {
        let shop = shop(same);
        let size = shop.path("x.dwo").metadata().unwrap().len();
        assert!(size < UNPACKED as u64 / 20, "{size}");
        let main = format!("{:#x}", shop.address("a.so", "main"));
        let file = shop.path("a.so");
        let args = ["--address", &main, "--debug", file.to_str().unwrap()];
        let ran = limited(MEMORY, 20, args);
        assert_eq!(ran.code, Some(0), "{same}: {}", ran.err);
    }
}
