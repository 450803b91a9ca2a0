//! Symbols that are packed in a stripped ELF file (`.gnu_debugdata`), as Fedora's packages have them.

use crate::deadline::symbolicate;
use crate::support::symbolicate::Workshop;

const SOURCE: &str = "volatile int sink;
__attribute__((noinline)) static int hidden(int n) { sink = n; return n * 3; }
__attribute__((noinline)) static int _Z6secretd(int n) { sink = n; return n * 5; }
__attribute__((noinline)) int exported(int n) { sink = n; return hidden(n) + _Z6secretd(n + 1); }
int main(int argc, char **argv) { return exported(argc); }
";

/// A program, and its symbols as GDB's manual packs them: those that the dynamic ones lack.
const MAKE: &str = "gcc -O1 -rdynamic -Wl,--build-id a.c -o program
nm -D program --format=posix --defined-only | cut -d' ' -f1 | sort > dynamic
nm program --format=posix --defined-only | awk '$2 == \"T\" || $2 == \"t\" || $2 == \"D\" { print $1 }' | sort > all
comm -13 dynamic all > kept
objcopy --only-keep-debug program program.debug
objcopy -S --remove-section .comment --keep-symbols=kept program.debug mini
strip --strip-all -R .comment program -o stripped
";

fn shop() -> Workshop {
    let shop = Workshop::new(&[("a.c", SOURCE), ("make", MAKE)]);
    shop.run("sh -e make");
    shop
}

/// Puts the file `packed` into the stripped program.
fn add(shop: &Workshop, packed: &str) {
    shop.run(&format!(
        "objcopy --add-section .gnu_debugdata={packed} stripped with"
    ));
}

#[test]
fn local_functions_have_the_names_that_are_packed() {
    let shop = shop();
    let at = |name: &str| shop.address("program", name);
    let (hidden, secret, exported) = (at("hidden"), at("_Z6secretd"), at("exported"));
    assert_eq!(shop.chain(&["stripped"], exported), ["exported:0"]);
    assert!(shop.chain(&["stripped"], hidden).is_empty());
    for options in [
        "",
        "-9e",
        "--check=none",
        "--check=crc32",
        "--check=sha256",
        "--block-size=4KiB",
        "--x86 --lzma2",
    ] {
        shop.run(&format!("xz --force --keep {options} mini"));
        add(&shop, "mini.xz");
        for (address, name) in [
            (hidden, "hidden:0"),
            (hidden + 1, "hidden:0"),
            (secret, "secret(double):0"),
            (exported, "exported:0"),
        ] {
            assert_eq!(shop.chain(&["with"], address), [name], "{options}");
        }
    }
    // Without dynamic symbols they are all that there is.
    shop.run("gcc -static -nostdlib -Wl,--build-id -O1 -Dmain=_start a.c -o program");
    shop.run("objcopy --only-keep-debug program mini");
    shop.run("xz --force mini");
    shop.run("strip --strip-all program -o stripped");
    add(&shop, "mini.xz");
    let hidden = shop.address("program", "hidden");
    assert_eq!(shop.chain(&["with"], hidden), ["hidden:0"]);
}

/// What cannot be unpacked, or unpacks to far too much, is said; the dynamic symbols stay.
#[test]
fn damaged_packed_symbols_are_said() {
    let shop = shop();
    let hidden = shop.address("program", "hidden");
    let exported = shop.address("program", "exported");
    shop.run("xz --keep mini");
    let whole = std::fs::read(shop.path("mini.xz")).unwrap();
    let mut changed = whole.clone();
    let middle = changed.len() / 2;
    changed[middle] ^= 0x10;
    std::fs::write(shop.path("zeros"), vec![0; 64 << 20]).unwrap();
    shop.run("xz -1 zeros");
    let zeros = std::fs::read(shop.path("zeros.xz")).unwrap();
    assert!(zeros.len() < 128 << 10, "{}", zeros.len());
    for packed in [&whole[..whole.len() / 2], &changed, &zeros, b"no xz"] {
        std::fs::write(shop.path("damaged"), packed).unwrap();
        add(&shop, "damaged");
        assert!(shop.chain(&["with"], hidden).is_empty());
        assert_eq!(shop.chain(&["with"], exported), ["exported:0"]);
        let file = shop.path("with").display().to_string();
        let run = |address: u64| {
            let address = format!("{address:#x}");
            symbolicate([
                "--no-cache",
                "--debug",
                &file,
                "--address",
                &address,
                "--strict",
            ])
        };
        let ran = run(hidden);
        assert_ne!(ran.code, Some(0));
        assert!(
            ran.err.contains("1 of its units or sections not read"),
            "{}",
            ran.err
        );
    }
}
