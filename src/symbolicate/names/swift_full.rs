//! Names in the full form, with modules and types, as older tools print them, to the simplified form.

use super::plain::{depths, split_top};

/// The module and the simplified form of a function or accessor in the full form: `static till.Shop.open(from: Swift.Int)
/// throws -> ()` is `static Shop.open(from:)` of `till`. `None` for any other text.
pub(super) fn simplify(text: &str) -> Option<(Option<String>, String)> {
    let (modifier, rest) = match text.strip_prefix("static ") {
        Some(rest) => ("static ", rest),
        None => ("", text),
    };
    let extension = rest.strip_prefix("(extension in ");
    let (extension, rest) = match extension.and_then(|rest| rest.split_once("):")) {
        Some((module, rest)) => (Some(module), rest),
        None => (None, rest),
    };
    let (path, labels) = match split_top(rest, " -> ") {
        Some((head, _)) => {
            let head = without_effects(head).strip_suffix(')')?;
            let opens = |&(at, depth): &(usize, usize)| depth == 1 && head[at..].starts_with('(');
            let (open, _) = depths(head).filter(opens).last()?;
            (&head[..open], labels(&head[open + 1..]))
        }
        None => (split_top(rest, " : ")?.0, String::new()),
    };
    let fixities = [" infix", " prefix", " postfix"];
    let is_operator = fixities.iter().any(|fixity| path.ends_with(fixity));
    let whole = Some(path.to_owned()).filter(|_| is_operator);
    let path = whole.unwrap_or_else(|| without_arguments(path));
    let is_word = |c: char| !c.is_whitespace() && !matches!(c, ':' | '(' | ')' | '<' | '>');
    if !is_operator && !path.chars().all(is_word) {
        return None;
    }
    let (module, name) = path.split_once('.')?;
    let module = extension.unwrap_or(module).to_owned();
    Some((Some(module), format!("{modifier}{name}{labels}")))
}

fn without_effects(head: &str) -> &str {
    let mut head = head;
    let effects = [" async", " throws", " rethrows"];
    while let Some(rest) = effects.iter().find_map(|effect| head.strip_suffix(effect)) {
        head = rest;
    }
    head
}

/// `from: Swift.Int, Swift.String` as labels: `(from:_:)`.
fn labels(arguments: &str) -> String {
    let mut labels = String::from("(");
    let mut rest = arguments;
    while !rest.is_empty() {
        let (argument, next) = split_top(rest, ", ").unwrap_or((rest, ""));
        let label = argument.split_once(": ").map(|(label, _)| label);
        let is_word = |label: &&str| label.chars().all(|c| c.is_alphanumeric() || c == '_');
        labels.push_str(label.filter(is_word).unwrap_or("_"));
        labels.push(':');
        rest = next;
    }
    labels + ")"
}

/// A path without generic arguments: `till.Box<A>.get<B>` is `till.Box.get`.
fn without_arguments(path: &str) -> String {
    let mut depth = 0_usize;
    let kept = |c: &char| {
        let before = depth;
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        before == 0 && depth == 0
    };
    path.chars().filter(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::super::swift_text::summary;
    use super::*;

    #[test]
    fn a_name_in_full_is_the_simplified_one_of_its_module() {
        for (text, simplified) in [
            ("till.load(from: Swift.String) -> ()", "load(from:)"),
            ("till.load() async throws -> ()", "load()"),
            ("static till.Shop.open() -> ()", "static Shop.open()"),
            (
                "till.Cart.add(Swift.Int, to: (Swift.Int, b: Swift.Int) -> ()) -> Swift.Int",
                "Cart.add(_:to:)",
            ),
            ("till.Box<A>.get<B>(B) -> [A : B]", "Box.get(_:)"),
            ("till.+ infix(till.A, till.A) -> till.A", "+ infix(_:_:)"),
            ("till.Shop.total.getter : Swift.Int", "Shop.total.getter"),
        ] {
            let full = simplify(text);
            assert_eq!(
                full,
                Some((Some("till".into()), simplified.into())),
                "{text}"
            );
        }
        let (module, name) = simplify("(extension in till):Swift.String.open() -> ()").unwrap();
        assert_eq!(
            (module.as_deref(), name.as_str()),
            (Some("till"), "String.open()")
        );
        for text in [
            "<fn(i32) -> i32 as till::Shop>::open",
            "till::pay(int) -> int",
            "a -> b",
            "main",
            "-[Shop open:with:]",
        ] {
            assert_eq!(simplify(text), None, "{text}");
        }
    }

    /// Older tools print parts, closures and witnesses in full.
    #[test]
    fn parts_closures_and_witnesses_in_full_are_of_their_function() {
        for (text, function) in [
            (
                "(3) suspend resume partial function for till.load() async throws -> ()",
                "load()",
            ),
            (
                "(1) await resume partial function for closure #2 () async -> () in till.load() -> ()",
                "closure in load()",
            ),
            (
                "closure #1 (Swift.Int) -> () in till.load(x: Swift.Int) -> ()",
                "closure in load(x:)",
            ),
            (
                "protocol witness for till.Open.open() -> Swift.Int in conformance till.Shop : till.Open in till",
                "Shop.open()",
            ),
            (
                "generic specialization <Swift.Int> of till.Row.sum(Swift.Int) -> Swift.Int",
                "Row.sum(_:)",
            ),
        ] {
            let function_of = summary(text).and_then(|summary| summary.function);
            assert_eq!(function_of.as_deref(), Some(function), "{text}");
        }
    }
}
