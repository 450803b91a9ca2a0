//! An image that its linker gave no build id.

use std::path::Path;

use wedjat::Monitor;

use crate::support::stall::is_child;
use crate::{builder, folder, reports};

/// What an image is that its linker gave no build id: here of a library in C, which calls back.
const WITHOUT_ID: &str = "
    static int sum;
    __attribute__((noinline)) void outer(void (*back)(void *), void *data) {
        back(data);
        sum++;
    }";

fn compile(source: &str, library: &Path) {
    let code = library.with_extension("c");
    std::fs::write(&code, source).unwrap();
    let made = std::process::Command::new("gcc")
        .args(["-g", "-O0", "-shared", "-fPIC", "-Wl,--build-id=none", "-o"])
        .args([library, &code])
        .status();
    assert!(made.unwrap().success());
}

/// The bytes of the first executable segment that an ELF file has, by the gABI's tables.
fn text_of(file: &[u8]) -> &[u8] {
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    let half = |at: usize| usize::from(u16::from_le_bytes(file[at..at + 2].try_into().unwrap()));
    let headers = (0..half(56)).map(|index| word(32) + index * half(54));
    let runs = |at: &usize| file[*at] == 1 && file[at + 4] & 1 != 0;
    let at = headers.clone().find(runs).unwrap();
    &file[word(at + 8)..][..word(at + 32)]
}

#[test]
fn an_image_without_a_build_id_is_known_by_its_text() {
    let test = "images::an_image_without_a_build_id_is_known_by_its_text";
    let folder = folder(test);
    let library = folder.with_extension("so");
    if is_child() {
        compile(WITHOUT_ID, &library);
        let name = std::ffi::CString::new(library.to_str().unwrap()).unwrap();
        // SAFETY: the library has no initialisers.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        // SAFETY: a handle that `dlopen` gave, and a name with its zero.
        let outer = unsafe { libc::dlsym(handle, c"outer".as_ptr()) };
        assert!(!outer.is_null());
        type Back = extern "C" fn(*const Monitor);
        // SAFETY: its prototype in the source above.
        let outer: extern "C" fn(Back, *const Monitor) = unsafe { std::mem::transmute(outer) };
        extern "C" fn back(monitor: *const Monitor) {
            // SAFETY: `outer` passes on what it was given, which lives meanwhile.
            unsafe { &*monitor }.record("within").unwrap();
        }
        let monitor = builder(&folder).install().unwrap();
        println!("ready");
        outer(back, &monitor);
        return;
    }
    let report = reports(test).remove(0);
    let of_library = |image: &&wedjat::report::Image| image.name == library.to_str().unwrap();
    let image = report.images.iter().find(of_library).unwrap();
    assert!(image.id.is_empty());
    let file = std::fs::read(&library).unwrap();
    let text = text_of(&file);
    let mut hash = crc32fast::hash(text).to_be_bytes().to_vec();
    hash.extend((text.len() as u64).to_be_bytes());
    assert_eq!(image.text_hash, Some(hash));
    assert!(report.images.iter().any(|image| !image.id.is_empty()));
    for image in report.images.iter().filter(|image| !image.id.is_empty()) {
        assert_eq!(image.text_hash, None, "{image:?}");
    }

    #[cfg(feature = "symbolicate")]
    {
        use wedjat::symbolicate::{DebugFiles, Symbolicator};
        let named = |files: DebugFiles| {
            let frames = &Symbolicator::new(files).symbolicate(report.clone()).threads[0].frames;
            let all = frames.iter().flat_map(|frame| frame.frames.iter());
            all.filter_map(|frame| frame.function.clone())
                .any(|function| function.contains("outer"))
        };
        let added = |path: &Path| {
            let mut files = DebugFiles::new().no_search();
            files.add(path).unwrap();
            files
        };
        assert!(
            !named(DebugFiles::new()),
            "a report's path is not looked at"
        );
        assert!(named(added(&library)), "where it was given");
        let kept = library.with_extension("kept");
        std::fs::rename(&library, &kept).unwrap();
        assert!(named(added(&kept)), "where it was kept");
        // Another build where it was: its functions are not those that ran.
        compile(&WITHOUT_ID.replace("sum++", "sum += 2"), &library);
        assert!(!named(DebugFiles::new()) && !named(added(&library)));
        std::fs::remove_file(kept).unwrap();
    }
    std::fs::remove_file(library.with_extension("c")).unwrap();
    std::fs::remove_file(library).unwrap();
}
