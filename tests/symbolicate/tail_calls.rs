//! Callers that a jump removed from the stack: code in assembly, of which each path is known.

use std::process::Command;

use wedjat::report::{Found, Frame, Image, Report, Thread};
use wedjat::symbolicate::{DebugFiles, SourceFrame, Symbolicator};

/// Functions that `first` may end with, and each of these once more.
const WIDTH: usize = 24;
/// Instructions of one byte in each function before its jumps, and before one that stays within.
const LENGTH: usize = 3000;

fn function(name: &str, body: &str) -> String {
    let mark = format!(".globl {name}\n.type {name}, @function\n");
    format!("{mark}{name}:\n{body}\n.size {name}, . - {name}\n")
}

/// `top` calls `first`, which ends with one of many `second`, which ends with its `third`, one of which ends with `last`.
fn code(way: usize) -> String {
    let mut code = String::from(".text\n");
    let mut function = |name: &str, body: &str| code += &function(name, body);
    let rest = format!("1: .skip {LENGTH}, 0x90\n.rept 200\njne 1b\n.endr");
    let ways: String = (0..WIDTH).map(|at| format!("jne second_{at}\n")).collect();
    function("top", "nop\ncall first\nafter: ret\n.globl after");
    function("first", &format!("{rest}\n{ways}jmp leaf"));
    for at in 0..WIDTH {
        function(&format!("second_{at}"), &format!("{rest}\njmp third_{at}"));
        let target = if at == way { "last" } else { "leaf" };
        function(&format!("third_{at}"), &format!("{rest}\njmp {target}"));
    }
    function("leaf", "ret");
    function("last", "nop\nret");
    code
}

/// The names of the functions between the one where the thread stands and `top`, innermost first.
fn callers(code: &str, stands_in: &str) -> Option<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.s"), code).unwrap();
    let line = "cc -shared -nostdlib -Wl,-Bsymbolic -Wl,--build-id=0x5757 a.s -o a.so && nm a.so";
    let mut command = Command::new("sh");
    let output = command.args(["-c", line]).current_dir(&folder).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    let symbols = String::from_utf8(output.stdout).unwrap();
    let address = |name: &str| {
        let mut lines = symbols.lines();
        let line = lines
            .find(|line| line.split(' ').next_back() == Some(name))
            .unwrap();
        u64::from_str_radix(&line[..16], 16).unwrap()
    };
    let mut image = Image::default();
    image.name = "/app/a.so".into();
    image.id = vec![0x57, 0x57];
    image.size = 1 << 28;
    let (mut report, mut thread) = (Report::default(), Thread::default());
    report.images.push(image);
    let stack = [(stands_in, Found::Context), ("after", Found::UnwindInfo)];
    for (name, found) in stack {
        let mut frame = Frame::default();
        frame.pc = address(name);
        frame.found = found;
        frame.image = Some(0);
        thread.frames.push(frame);
    }
    report.threads.push(thread);
    let mut files = DebugFiles::new().no_search();
    assert_eq!(files.add(folder.path()).unwrap().objects, 1);
    let named = Symbolicator::new(files).symbolicate(report);
    let frames = &named.threads[0].frames;
    let callers = frames[0].tail_callers.as_ref()?;
    let name = |frame: &SourceFrame| frame.function.as_deref().unwrap().to_owned();
    Some(callers.iter().map(name).collect())
}

#[test]
fn the_way_of_jumps_is_found_among_many_functions_that_loop() {
    for way in [0, WIDTH - 1] {
        let names = [
            format!("third_{way}"),
            format!("second_{way}"),
            "first".into(),
        ];
        assert_eq!(callers(&code(way), "last"), Some(names.to_vec()));
    }
}

#[test]
fn no_way_is_found_where_no_function_jumps_there() {
    assert_eq!(callers(&code(WIDTH), "last"), None);
}

#[test]
fn a_function_that_ends_with_another_one_of_its_name_is_a_caller() {
    let code = [
        function("top", "nop\ncall _Z4openi\nafter: ret\n.globl after"),
        function("_Z4openi", "nop\njmp _Z4openl"),
        function("_Z4openl", "nop\nret"),
    ]
    .concat();
    let code = format!(".text\n{code}");
    assert_eq!(callers(&code, "_Z4openl"), Some(vec!["open(int)".into()]));
}

#[test]
fn a_jump_into_the_cold_part_of_a_function_is_no_call() {
    let code = [
        function("top", "nop\ncall first\nafter: ret\n.globl after"),
        function(
            "first",
            &format!("jne first.cold\n.skip {LENGTH}, 0x90\njl first.cold\nret\n.skip 200"),
        ),
        function("first.cold", "nop\njmp last"),
        function("last", "nop\nret"),
    ]
    .concat();
    let code = format!(".text\n{code}");
    assert_eq!(callers(&code, "first.cold"), None);
    assert_eq!(callers(&code, "last"), Some(vec!["first.cold".into()]));
}
