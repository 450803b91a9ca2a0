//! Effects of instructions, compared with objdump's listing; and bytes that are no instruction.

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2)
        .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
        .collect()
}

/// Compares with objdump's output for instructions of every shape in the C library and its neighbours.
#[test]
fn lengths_and_effects_are_those_that_objdump_prints() {
    let list = include_str!("../../../../testdata/instructions/x86_64.tsv");
    let mut wrong = Vec::new();
    let (mut count, mut stack) = (0, 0);
    for line in list.lines() {
        let (hex, text) = line.split_once('\t').unwrap();
        let code = bytes(hex);
        let mut longer = code.clone();
        longer.extend([0x90; 8]);
        let decoded = decode(&longer);
        let good = decoded
            .is_some_and(|(length, effect)| length == code.len() && is_as_printed(effect, text));
        if !good {
            wrong.push(format!("{line}: {decoded:?}"));
        }
        count += 1;
        stack += usize::from(decoded.is_some_and(|(_, effect)| effect != Effect::None));
    }
    assert!(
        wrong.is_empty(),
        "{} of {count}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(count > 1000 && stack > 100, "{count} {stack}");
}

/// Returns true if objdump's words (AT&T: source, then destination) allow the effect.
fn is_as_printed(effect: Effect, text: &str) -> bool {
    let name = text
        .split(' ')
        .find(|word| !PREFIXES.contains(word) && !word.starts_with("rex"))
        .unwrap_or("");
    let operands = text.split('#').next().unwrap_or("").trim_end();
    let to = operands.rsplit([',', ' ']).next().unwrap_or("");
    let number = |text: &str| -> i64 {
        let (sign, digits) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text),
        };
        let digits = digits.trim_start_matches("0x");
        sign * u64::from_str_radix(digits, 16).unwrap_or(0) as i64
    };
    let first = operands
        .split('$')
        .nth(1)
        .and_then(|rest| rest.split(',').next());
    match effect {
        Effect::Push { frame } => name.starts_with("push") && frame == (to == "%rbp"),
        Effect::Pop { frame } => name.starts_with("pop") && frame == (to == "%rbp"),
        Effect::Move(by) if name == "add" => to == "%rsp" && first.map(number) == Some(by),
        Effect::Move(by) if name == "sub" => to == "%rsp" && first.map(number) == Some(-by),
        Effect::Move(by) => name == "lea" && text.contains("(%rsp),%rsp") && by != 0,
        Effect::FrameFromStack(0) => text.ends_with("%rsp,%rbp") || text.contains("(%rsp),%rbp"),
        Effect::FrameFromStack(_) => name == "lea" && text.contains("(%rsp),%rbp"),
        Effect::StackFromFrame(0) => text.ends_with("%rbp,%rsp") || text.contains("(%rbp),%rsp"),
        Effect::StackFromFrame(_) => name == "lea" && text.contains("(%rbp),%rsp"),
        Effect::Leave => name.starts_with("leave"),
        Effect::Call => name.contains("call"),
        Effect::Return => name.contains("ret"),
        Effect::Jump(to) => name.contains("jmp") && to.is_none() == text.contains('*'),
        Effect::Branch(_) => name.starts_with(['j', 'l']) || name.starts_with("xbegin"),
        Effect::Stop => name.starts_with("ud") || ["hlt", "int3"].contains(&name),
        Effect::LosesStack => {
            is_part(to, STACK)
                || operands.contains("%rsp")
                || operands.contains("%esp")
                || name == "enter"
        }
        Effect::LosesFrame => {
            is_part(to, FRAME) || operands.contains("%ebp") || operands.contains("%rbp")
        }
        Effect::None => {
            let writes = ![
                "cmp", "test", "push", "nop", "bt", "mul", "imul", "div", "idiv", "ud", "xchg",
                "j", "call", "inv", "vm", "verr", "verw", "ptwrite", "wr", "out", "lldt", "ltr",
                "lmsw", "sahf", "cl", "rdrand", "prefetch", "mov ",
            ]
            .iter()
            .any(|other| name.starts_with(other));
            let whole = ["%rsp", "%rbp"].contains(&to);
            !(writes && whole)
        }
    }
}

const PREFIXES: &[&str] = &[
    "cs", "ds", "es", "ss", "fs", "gs", "lock", "rep", "repz", "repnz", "data16", "addr32", "bnd",
    "notrack", "xacquire", "xrelease",
];
const STACK: &[&str] = &["%rsp", "%esp", "%sp", "%spl"];
const FRAME: &[&str] = &["%rbp", "%ebp", "%bp", "%bpl"];

fn is_part(to: &str, names: &[&str]) -> bool {
    names.contains(&to)
}

#[test]
fn what_is_cut_or_no_instruction_is_refused() {
    let code = bytes("480fb6842400010000");
    for length in 0..code.len() {
        assert_eq!(decode(&code[..length]), None);
    }
    assert_eq!(decode(&code), Some((9, Effect::None)));
    assert_eq!(decode(&[0x66; 20]), None);
    assert_eq!(decode(&[0x06]), None);
    let mut seed = 1u64;
    for _ in 0..100_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let code = seed.wrapping_mul(seed | 1).to_le_bytes();
        if let Some((length, _)) = decode(&code) {
            assert!((1..=8).contains(&length));
        }
    }
}
