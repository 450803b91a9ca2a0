//! Memory near the crash, where the app asks for it: the code, the stack, and texts in registers.

use std::path::Path;

use object::{Object, ObjectSegment};
use wedjat::report::NearMemory;
use wedjat::{Crash, Monitor};

use crate::child::play;
use crate::{Tests, Way, install, outer, tests};

pub fn trials() -> Tests {
    tests(&[
        ("memory_near_the_crash_is_reported_by_choice", by_choice),
        ("memory_near_the_crash_is_left_out_otherwise", left_out),
        #[cfg(target_os = "linux")]
        (
            "memory_that_the_kernel_keeps_from_the_user_is_withheld",
            withheld,
        ),
    ])
}

const MARK: u64 = 0x6d61_726b_5f6f_6e5f;
/// Where the last mapped page ends: half of what lies around cannot be read.
const FAULT: u64 = 0x10;

pub fn role(role: &str, folder: &Path) -> bool {
    match role {
        "near" => {
            let _monitor = Monitor::builder("crash test", "1.0")
                .directory(folder)
                .crash(Crash::default().near_memory(true))
                .install()
                .unwrap();
            write_with_texts_in_registers();
        }
        #[cfg(target_os = "linux")]
        "not_dumpable" => {
            let _monitor = Monitor::builder("crash test", "1.0")
                .directory(folder)
                .crash(Crash::default().near_memory(true))
                .install()
                .unwrap();
            // As after the exec of a program with file capabilities.
            // SAFETY: no pointers.
            assert_eq!(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) }, 0);
            write_with_texts_in_registers();
        }
        "not_near" => {
            let _monitor = install(folder);
            outer(Way::Null);
        }
        _ => return false,
    }
    true
}

#[inline(never)]
fn write_with_texts_in_registers() {
    // SAFETY: none: the write is meant to go wrong.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!(
            "push {mark}", "mov byte ptr [{fault}], 1",
            mark = in(reg) MARK, fault = in(reg) FAULT,
            in("rdi") c"order 66".as_ptr(), in("rsi") c"Größe 42".as_ptr(), in("r8") c"abc".as_ptr(),
            options(noreturn)
        );
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!(
            "str {mark}, [sp, #-16]!", "strb wzr, [{fault}]", "brk #1",
            mark = in(reg) MARK, fault = in(reg) FAULT,
            in("x0") c"order 66".as_ptr(), in("x1") c"Größe 42".as_ptr(), in("x2") c"abc".as_ptr(),
            options(noreturn)
        );
    }
}

fn by_choice() {
    let report = play("near").report();
    let near = |of: &str| report.memory.iter().find(|near| near.of == of);
    let texts = if cfg!(target_arch = "x86_64") {
        ["rdi", "rsi", "r8"]
    } else {
        ["x0", "x1", "x2"]
    };
    let text = |of| near(of).and_then(|near: &NearMemory| near.text.as_deref());
    assert_eq!(text(texts[0]), Some("order 66"));
    assert_eq!(text(texts[1]), Some("Größe 42"));
    assert_eq!(text(texts[2]), None, "too short to be no number");

    let pc = report.threads[0].frames[0].pc;
    let code = near("pc").unwrap();
    assert!(code.at < pc && pc < code.at + code.bytes.len() as u64);
    assert_eq!(code.bytes, in_file(&report, code.at, code.bytes.len()));

    let stack = near("stack").unwrap();
    let registers = &report.threads[0].registers;
    let sp = registers
        .iter()
        .find(|(name, _)| matches!(&**name, "rsp" | "sp"));
    let at = usize::try_from(sp.unwrap().1 - stack.at).unwrap();
    assert_eq!(stack.bytes[at..at + 8], MARK.to_le_bytes());
    assert_eq!(near("address"), None, "nothing is mapped there");
}

#[cfg(target_os = "linux")]
fn withheld() {
    let memory = play("not_dumpable").report().memory;
    let [only] = &memory[..] else {
        panic!("{memory:?}")
    };
    assert_eq!(
        (&*only.of, only.at, &only.bytes[..]),
        ("withheld", 0, &[][..])
    );
    assert_eq!(only.text.as_deref(), Some("the process is not dumpable"));
}

fn left_out() {
    assert_eq!(play("not_near").report().memory, []);
}

/// The bytes of the image's file that are mapped at `at`.
fn in_file(report: &wedjat::report::Report, at: u64, length: usize) -> Vec<u8> {
    let image = report
        .images
        .iter()
        .find(|image| image.base <= at && at - image.base < image.size)
        .unwrap();
    let bytes = std::fs::read(&image.name).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let stated = at - image.base + image.base_svma;
    let found = file
        .segments()
        .find_map(|segment| segment.data_range(stated, length as u64).unwrap());
    found.unwrap().to_vec()
}
