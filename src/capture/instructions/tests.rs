//! Lifted instructions, compared with objdump's listing; and bytes that are no instruction.

use super::*;
use crate::capture::tests::bytes;

/// Compares with objdump's output for instructions of every shape in the C library and its neighbours.
#[test]
fn x86_64_instructions_do_what_objdump_prints() {
    let list = include_str!("../../../testdata/instructions/x86_64.tsv");
    let mut wrong = Vec::new();
    let (mut count, mut moving) = (0, 0);
    for line in list.lines() {
        let (hex, text) = line.split_once('\t').unwrap();
        let mut code = bytes(hex);
        let length = code.len() as u64;
        code.extend([0x90; 8]);
        let lifted = lift(Arch::X86_64, &code, 0);
        if !lifted.is_some_and(|i| i.length == length && is_as_printed(&i, text)) {
            wrong.push(format!("{line}: {lifted:?}"));
        }
        count += 1;
        moving += usize::from(lifted.is_some_and(|i| i.writes(SP) || i.writes(FP)));
    }
    assert!(
        wrong.is_empty(),
        "{} of {count}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(count > 1000 && moving > 100, "{count} {moving}");
}

const SP: u8 = 7;
const FP: u8 = 6;

/// Each general register by its parts, in the order of DWARF's numbers.
const NAMES: [&str; 16] = [
    "rax eax ax al ah",
    "rdx edx dx dl dh",
    "rcx ecx cx cl ch",
    "rbx ebx bx bl bh",
    "rsi esi si sil",
    "rdi edi di dil",
    "rbp ebp bp bpl",
    "rsp esp sp spl",
    "r8 r8d r8w r8b",
    "r9 r9d r9w r9b",
    "r10 r10d r10w r10b",
    "r11 r11d r11w r11b",
    "r12 r12d r12w r12b",
    "r13 r13d r13w r13b",
    "r14 r14d r14w r14b",
    "r15 r15d r15w r15b",
];

/// The whole of a register.
fn name(register: u8) -> &'static str {
    NAMES[usize::from(register)].split(' ').next().unwrap()
}

fn named(operand: &str) -> Option<u8> {
    let wanted = operand.strip_prefix('%')?;
    let found = NAMES
        .iter()
        .position(|names| names.split(' ').any(|name| name == wanted));
    found.map(|number| number as u8)
}

/// Instructions whose last operand is not written, as far as it is a register.
const READING: &[&str] = &[
    "bt", "call", "clflush", "cmp", "div", "idiv", "imull", "incssp", "inv", "j", "lldt", "lmsw",
    "ltr", "mul", "nop", "out", "prefetch", "ptwrite", "push", "sahf", "test", "ud", "verr",
    "verw", "vm", "wr",
];
/// Those whose name begins so, and that write it nevertheless.
const WRITING: &[&str] = &["btc", "btr", "bts", "cmpxchg", "mulx"];

/// Returns true if objdump's words (AT&T: source, then destination) allow these effects.
fn is_as_printed(i: &Instruction, text: &str) -> bool {
    let words = text.split(' ').filter(|word| !word.is_empty());
    let mut words = words.skip_while(|word| PREFIXES.contains(word) || word.starts_with("rex"));
    let mnemonic = words.next().unwrap_or("");
    let operands = words.next().unwrap_or("");
    let to = operands.rsplit(',').next().unwrap_or("");
    let is_one_of = |names: &[&str]| names.iter().any(|other| mnemonic.starts_with(other));
    let reads = is_one_of(READING) && !is_one_of(WRITING);
    let one_operand = mnemonic == "imul" && !operands.contains(',');
    let written = named(to).is_none_or(|to| i.writes(to) || reads || one_operand);
    let mentions = |register: u8| {
        let parts = NAMES[usize::from(register)].split(' ');
        parts
            .into_iter()
            .any(|part| operands.contains(&format!("%{part}")))
    };
    let by_name = is_one_of(&["push", "pop", "call", "ret", "leave", "enter"]);
    let moved = [SP, FP]
        .into_iter()
        .all(|register| !i.writes(register) || mentions(register) || by_name);
    let effects = i
        .ops
        .iter()
        .all(|op| is_op_as_printed(*op, mnemonic, operands));
    written && moved && effects && is_next_as_printed(i.next, mnemonic, operands)
}

fn is_op_as_printed(op: Op, mnemonic: &str, operands: &str) -> bool {
    let number = |number: i64| format!("$0x{number:x}");
    let stack = |register| register == SP;
    match op {
        Op::Nothing | Op::Other => true,
        Op::Set(16, Written::Sum(from, 0)) => operands == format!("*%{}", name(from)),
        Op::Set(to, Written::Sum(from, 0)) if mnemonic == "mov" => {
            operands == format!("%{},%{}", name(from), name(to))
        }
        Op::Set(to, Written::Sum(from, by)) if mnemonic == "lea" => {
            operands.ends_with(&format!("(%{}),%{}", name(from), name(to)))
                && displacement(operands) == Some(by)
        }
        Op::Set(to, Written::Sum(from, by)) if ["add", "sub"].contains(&mnemonic) => {
            let by = if mnemonic == "add" { by } else { -by };
            to == from && operands == format!("{},%{}", number(by), name(to))
        }
        Op::Set(SP, Written::Sum(SP, by)) => match &mnemonic[..3] {
            "pus" => by == -8,
            "pop" | "ret" => by == 8,
            _ => false,
        },
        Op::Set(SP, Written::Sum(FP, 8)) => mnemonic.starts_with("leave"),
        Op::Set(to, Written::PcRelative(_)) => {
            mnemonic == "lea" && operands.ends_with(&format!("(%rip),%{}", name(to)))
        }
        Op::Set(to, Written::Number(0)) if ["xor", "sub"].contains(&mnemonic) => {
            let mut both = operands.split(',').map(named);
            both.next() == both.next() && operands.contains(&name(to)[1..])
        }
        Op::Set(to, Written::Number(value)) => {
            mnemonic.starts_with("mov")
                && operands.split(',').next_back().and_then(named) == Some(to)
                && operands.starts_with(&number(value as i64))
        }
        Op::Set(to, Written::Bits { of, keep, set }) if ["bts", "btr"].contains(&mnemonic) => {
            let bit = !keep;
            let is_set = if mnemonic == "bts" {
                set == bit
            } else {
                set == 0
            };
            let place = number(bit.trailing_zeros().into());
            bit.is_power_of_two()
                && is_set
                && to == of
                && operands == format!("{place},%{}", name(to))
        }
        Op::Set(to, Written::Bits { of, keep, set }) => {
            let mask = if mnemonic == "or" { set } else { keep };
            let is_whole = if mnemonic == "or" {
                keep == !set
            } else {
                mnemonic == "and" && set == 0
            };
            is_whole && to == of && operands == format!("{},%{}", number(mask as i64), name(to))
        }
        Op::Set(to, Written::Of(operation, a, b)) => {
            let expected = match operation {
                Operation::Add => "add",
                Operation::Subtract => "sub",
                Operation::Or => "or",
                Operation::Xor => "xor",
            };
            mnemonic == expected && to == a && operands == format!("%{},%{}", name(b), name(to))
        }
        Op::Load([Some(to), None], from) => match &mnemonic[..3] {
            "mov" => is_place(operands, from) && operands.ends_with(&format!(",%{}", name(to))),
            "pop" => stack(from.base) && operands == format!("%{}", name(to)),
            "lea" => to == FP && stack(from.base) && from.offset == -8,
            "ret" => to == 16 && stack(from.base),
            "jmp" => to == 16 && is_place(operands, from),
            _ => false,
        },
        Op::Set(..) | Op::Load(..) => false,
        Op::Store {
            from: [from, _],
            to: Some(to),
            ..
        } => {
            let pushed = stack(to.base) && to.offset == 0 && mnemonic.starts_with("push");
            let stored = from.is_none_or(|from| operands.starts_with(&format!("%{}", name(from))));
            stored && (pushed || is_place(operands, to))
        }
        Op::Store { .. } => {
            operands.contains('(') || operands.contains(",%fs:") || operands.contains(",0x")
        }
        Op::Compare(a, b) => {
            mnemonic == "cmp"
                && (operands == format!("%{},%{}", name(b), name(a))
                    || operands == format!("%{},%{}", name(a), name(b)))
        }
    }
}

/// The number before a place in memory.
fn displacement(operands: &str) -> Option<i64> {
    let before = operands.split('(').next()?.trim_start_matches('*');
    let before = before.rsplit(',').next()?;
    let (sign, digits) = match before.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, before),
    };
    let digits = digits.strip_prefix("0x").unwrap_or("0");
    i64::from_str_radix(digits, 16)
        .ok()
        .map(|number| sign * number)
}

/// Returns true if operands name a place in memory.
fn is_place(operands: &str, place: MemoryOperand) -> bool {
    let base = format!("(%{}", name(place.base));
    operands.contains(&base) && displacement(operands) == Some(place.offset.into())
}

fn is_next_as_printed(next: Successor, mnemonic: &str, operands: &str) -> bool {
    let indirect = operands.contains('*');
    match next {
        Successor::FallThrough => !["call", "jmp", "ret", "hlt", "ud2", "int3"].contains(&mnemonic),
        Successor::Call(to) => mnemonic.contains("call") && to.is_none() == indirect,
        Successor::Jump(_) => mnemonic.contains("jmp") && !indirect,
        Successor::Indirect => mnemonic.contains("jmp") && indirect,
        Successor::Branch { unless_equal, .. } => {
            mnemonic.starts_with(['j', 'l']) && unless_equal == mnemonic.starts_with("jne")
                || mnemonic.starts_with("xbegin")
        }
        Successor::Return => mnemonic.starts_with("ret"),
        Successor::Stop => {
            mnemonic.starts_with("ud")
                || ["hlt", "int3"].contains(&mnemonic)
                || mnemonic.contains("ret")
        }
    }
}

const PREFIXES: &[&str] = &[
    "cs", "ds", "es", "ss", "fs", "gs", "lock", "rep", "repz", "repnz", "data16", "addr32", "bnd",
    "notrack", "xacquire", "xrelease",
];

#[test]
fn what_is_cut_or_no_instruction_is_refused() {
    let arch = Arch::X86_64;
    let code = bytes("480fb6842400010000");
    for length in 0..code.len() {
        assert_eq!(lift(arch, &code[..length], 0), None);
    }
    assert_eq!(
        lift(arch, &code, 0).map(|i| (i.length, i.clobbers)),
        Some((9, 1))
    );
    assert_eq!(lift(arch, &[0x66; 20], 0), None);
    assert_eq!(lift(arch, &[0x06], 0), None);
    let mut seed = 1u64;
    for _ in 0..100_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let code = seed.wrapping_mul(seed | 1).to_le_bytes();
        if let Some(i) = lift(arch, &code, seed) {
            assert!((1..=8).contains(&i.length));
        }
        assert!(lift(Arch::Arm64, &code, seed).is_some_and(|i| i.length == 4));
    }
}
