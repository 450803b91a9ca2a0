//! The table of a whole file answers as the debug information does, of mutated files, too.

use object::{Object as _, ObjectSection as _};

use super::*;
use crate::symbolicate::files::object_file;
use crate::symbolicate::names::plain_name;

#[cfg(target_os = "linux")]
mod names;

#[test]
fn a_table_stays_when_its_file_is_closed() {
    let options = Arc::new(options());
    let history = Arc::<Mutex<FileHistory>>::default();
    let mut all = Vec::new();
    for opening in 0..3 {
        let object = object_file::open(KIOSK.as_ref()).unwrap().remove(0);
        let (start, end) = object.code[0];
        let file = DebugFile::new(object, None, options.clone(), history.clone());
        assert_eq!(file.has_table(), opening > 0);
        let answers = (start..end).map(|svma| match opening {
            0 => file.lookup_directly(svma),
            _ => file.lookup(svma),
        });
        all.push(format!("{:?}", answers.collect::<Vec<_>>()));
        file.make_table_for(usize::MAX);
    }
    assert!(all[0] == all[1] && all[1] == all[2]);
}

/// A file for both ways, and its table; `None` where no table can be made of it.
fn engines(object: ObjectFile) -> Option<(DebugFile, FullTable)> {
    let debug_file = DebugFile::new(object, None, Arc::new(options()), Arc::default());
    let file = &debug_file;
    let sections = Arc::new(DwarfSections::load(&file.object)?);
    let (table, damaged) = convert(&file.object, &sections, file.symbols()).ok()?;
    let table = FullTable::new(SharedBytes::from(table), damaged, file.object.base).unwrap();
    Some((debug_file, table))
}

/// Returns the differences between the two ways, and the count of known addresses.
fn differences(path: &str) -> (Vec<String>, usize) {
    let object = object_file::open(path.as_ref()).unwrap().remove(0);
    let code = object.code.clone();
    let (debug_file, table) = engines(object).unwrap();
    let file = &debug_file;
    let (mut differ, mut known) = (Vec::new(), 0);
    for address in code.iter().flat_map(|&(start, end)| start..end) {
        let direct = file.lookup_directly(address);
        let of_table = table.lookup(address);
        let plain = |answer: &Option<Resolved>| format!("{answer:?}");
        if plain(&direct) != plain(&of_table) {
            differ.push(format!("{address:#x}: {direct:?}, not {of_table:?}"));
        }
        known += usize::from(direct.is_some());
    }
    (differ, known)
}

fn options() -> DebugFileOptions {
    DebugFileOptions {
        jobs: 1,
        cache: None,
        search: true,
        max_size: u64::MAX,
        making: Arc::default(),
    }
}

/// A dSYM.
const KIOSK: &str = "testdata/macho/arm64/kiosk.dSYM/Contents/Resources/DWARF/kiosk";

/// Every address of an image, looked up in its debug information directly and in the full table.
#[test]
fn the_full_table_answers_as_the_debug_information_does() {
    for arch in ["arm64", "x86_64"] {
        let path = format!("testdata/macho/{arch}/kiosk.dSYM/Contents/Resources/DWARF/kiosk");
        let (differ, known) = differences(&path);
        assert_eq!(differ, [""; 0], "{arch}");
        assert!(known > 500, "{arch}: only {known} are known");
    }
}

/// The same of what gcc makes: names that begin as Rust's mangled ones do, those of local functions that only
/// symbols have whole, and code of an inlined function in front of the first row of its section.
#[cfg(target_os = "linux")]
#[test]
fn the_full_table_answers_as_the_debug_information_of_gcc_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let source = "namespace { struct Price { int cents; }; }
template <class T> struct _Rb_tree {
    T *of; int count;
    __attribute__((noinline)) _Rb_tree(T *of, int count) : of(of), count(count) {}
};
volatile int sink;
static inline __attribute__((always_inline)) int twice(int n) { return n * 3 + sink; }
__attribute__((noinline)) int outer(int n) { return twice(n) + 1; }
int main(int argc, char **argv) {
    Price price = {argc};
    return _Rb_tree<Price>(&price, outer(argc)).count;
}
";
    std::fs::write(path("a.cc"), source).unwrap();
    let gcc = |line: &str| {
        let mut gcc = std::process::Command::new("g++");
        gcc.current_dir(folder.path()).args(line.split(' '));
        assert!(gcc.status().unwrap().success(), "g++ {line}");
    };
    for flags in [
        "-gdwarf-4 -O0",
        "-gdwarf-5 -O0",
        "-gdwarf-4 -O1",
        "-gdwarf-5 -O1",
    ] {
        gcc(&format!(
            "-S {flags} -gno-variable-location-views -ffunction-sections a.cc"
        ));
        // No row for `outer` but the last.
        let text = std::fs::read_to_string(path("a.s")).unwrap();
        let begin = text.find("\n_Z5outeri:").unwrap();
        let end = begin + text[begin..].find(".cfi_endproc").unwrap();
        let is_row = |line: &str| line.starts_with("\t.loc ");
        let last = text[begin..end].rfind("\n\t.loc ").unwrap();
        let lines = text[begin..begin + last].split_inclusive('\n');
        let outer: String = lines.filter(|line| !is_row(line)).collect();
        let rest = &text[begin + last..];
        std::fs::write(path("a.s"), [&text[..begin], &outer, rest].concat()).unwrap();
        gcc("a.s -o program");
        let (differ, known) = differences(&path("program"));
        assert_eq!(differ, [""; 0], "{flags}");
        assert!(known > 50, "{flags}: only {known} are known");
    }
}

/// Addresses with a line in one engine alone: straight from DWARF, and in the table.
#[derive(Debug, Default, PartialEq)]
struct Alone {
    direct: u64,
    table: u64,
}

/// A file with these bytes: which addresses have a line in one engine alone, and how many in both. `None` where
/// it is refused as a whole, or no table can be made of it.
fn compare(bytes: Vec<u8>) -> Option<(Alone, u64)> {
    let objects = object_file::open_bytes("mutated".as_ref(), SharedBytes::from(bytes)).ok()?;
    let object = objects.into_iter().next()?;
    let code = object.code.clone();
    let (debug_file, table) = engines(object)?;
    let file = &debug_file;
    let (mut alone, mut both) = (Alone::default(), 0);
    let has_line = |answer: Option<Resolved>| answer.is_some_and(|of| of.frames[0].line.is_some());
    let addresses = code.iter();
    for address in addresses.flat_map(|&(start, end)| (start..end).step_by(16)) {
        let direct = has_line(file.lookup_directly(address));
        match (direct, has_line(table.lookup(address))) {
            (true, false) => alone.direct += 1,
            (false, true) => alone.table += 1,
            (both_have, _) => both += u64::from(both_have),
        }
    }
    Some((alone, both))
}

/// `MUTATIONS=10000` tries so many.
#[test]
fn no_line_of_a_mutated_file_is_lost_in_one_engine() {
    let whole =
        std::fs::read("testdata/macho/arm64/kiosk.dSYM/Contents/Resources/DWARF/kiosk").unwrap();
    let ranges: Vec<(String, std::ops::Range<usize>)> = {
        let file = object::File::parse(&*whole).unwrap();
        let sections = file.sections().filter_map(|section| {
            let (start, size) = section.file_range()?;
            let range = start as usize..(start + size) as usize;
            Some((section.name().ok()?.to_owned(), range))
        });
        sections.collect()
    };
    let range = |name: &str| {
        let found = ranges.iter().find(|(known, _)| known == name);
        found.unwrap_or_else(|| panic!("{ranges:?}")).1.clone()
    };
    let (plain, both) = compare(whole.clone()).unwrap();
    assert_eq!((plain, both > 100), (Alone::default(), true));
    let count = std::env::var("MUTATIONS").map_or(80, |count| count.parse().unwrap());
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    let mut refused = 0;
    let mut differ = Vec::new();
    for number in 0..count.max(6943) {
        let (name, most) = [
            ("__debug_line", 1),
            ("__debug_line", 4),
            ("__debug_info", 1),
            ("__debug_ranges", 1),
        ][number % 4];
        let (range, mut changed) = (range(name), whole.clone());
        let mut at = 0;
        for _ in 0..1 + next(most) {
            at = range.start + next(range.len());
            changed[at] = [0, 0xff, 0x7f, 0x80, next(256) as u8][next(5)];
        }
        // In these two a function ends within another.
        if number >= count && ![3858, 6942].contains(&number) {
            continue;
        }
        match compare(changed) {
            Some((alone, _)) if alone != Alone::default() => {
                differ.push((number, name, at - range.start, alone));
            }
            Some(_) => {}
            None => refused += 1,
        }
    }
    assert_eq!(differ, [], "{refused} of {count} refused");
}

/// The symbols of a program, by address.
#[cfg(target_os = "linux")]
fn marks(path: &str) -> std::collections::BTreeMap<String, u64> {
    use object::ObjectSymbol as _;
    let bytes = std::fs::read(path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let symbols = file.symbols().filter_map(|symbol| {
        let mark = symbol.name().ok()?.strip_prefix("mark_")?.to_owned();
        Some((mark, symbol.address()))
    });
    symbols.collect()
}

/// Functions that have no linkage name and are inlined: their names have the scopes that their symbols have where they are
/// not inlined, one spelling, and are the same in the full table.
#[cfg(target_os = "linux")]
#[test]
fn names_of_inlined_internal_functions_have_the_scopes_of_their_symbols() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/src/symbolicate/debug_info/debug_file/scoped.cc"
    );
    let compile = |compiler: &str, flags: &str, name: &str| {
        let mut command = std::process::Command::new(compiler);
        command
            .args(["-std=c++17", "-w", "-g", "-no-pie"])
            .args(flags.split_whitespace());
        command.args(["-o", &path(name), source]);
        assert!(command.status().unwrap().success(), "{compiler} {flags}");
        path(name)
    };
    for flags in ["-O2 -gdwarf-4", "-O1 -gdwarf-5", "-O2 -flto"] {
        let kept = compile("g++", &format!("{flags} -DKEEP"), "kept");
        let inlined = compile("g++", flags, "inlined");
        let name = |file: &DebugFile, address: u64| {
            let answer = file.lookup_directly(address).unwrap();
            answer.frames[0].function.clone().unwrap().to_string()
        };
        let (truth, _) = engines(object_file::open(kept.as_ref()).unwrap().remove(0)).unwrap();
        let (file, table) =
            engines(object_file::open(inlined.as_ref()).unwrap().remove(0)).unwrap();
        let (kept_marks, marks) = (marks(&kept), marks(&inlined));
        assert!(marks.len() >= 19, "{flags}: {marks:?}");
        let mut wrong = Vec::new();
        for (mark, &address) in &marks {
            let truth = name(&truth, kept_marks[mark]);
            let found = name(&file, address);
            if plain_name(&found) != plain_name(&truth) {
                wrong.push(format!("{mark}: {found}, not {truth}"));
            }
            let of_table = table.lookup(address).unwrap();
            assert_eq!(
                of_table.frames[0].function.as_deref(),
                Some(&*found),
                "{flags} {mark}"
            );
        }
        assert_eq!(wrong, [""; 0], "{flags}");
        assert_eq!(differences(&inlined).0, [""; 0], "{flags}");
    }
}
