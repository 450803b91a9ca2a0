//! Parses demangled Swift names, in the simplified form that reports of other recorders have, into summaries. They have as
//! much of a mangled name's summary as the text shows.

use swift_name::{Role, Summary};

use super::swift_full::simplify;

/// Prefixes of versions, parts and thunks of a function, with true for thunks.
const BEFORE: [(&str, bool); 12] = [
    ("specialized ", false),
    ("merged ", false),
    ("override ", false),
    ("dynamic ", false),
    ("@objc ", true),
    ("@nonobjc ", true),
    ("partial apply for ", true),
    ("partial apply forwarder for ", true),
    ("dispatch thunk of ", true),
    ("curry thunk of ", true),
    ("distributed thunk ", true),
    ("back deployment fallback for ", true),
];

/// Prefixes of code and data that belong to no function.
const GLUE: [&str; 12] = [
    "thunk for ",
    "reabstraction thunk ",
    "outlined ",
    "type metadata ",
    "lazy ",
    "protocol witness table ",
    "associated type ",
    "value witness table ",
    "demangling cache ",
    "nominal type descriptor ",
    "one-time initialization ",
    "partial apply",
];

/// Returns the reason of a trap, by the name of the pseudo-function that Swift's compiler inlines there.
pub(crate) fn runtime_failure(name: &str) -> Option<&str> {
    name.strip_prefix("Swift runtime failure: ")
}

/// Returns the summary of a name in the simplified form; `None` for text that may be of another language.
pub(crate) fn summary(text: &str) -> Option<Summary> {
    let mut found = Summary::default();
    let mut rest = text;
    if let Some(of) = async_part(rest) {
        found.is_async_part = true;
        rest = of;
    }
    while let Some((before, is_thunk)) = BEFORE.iter().find(|(before, _)| rest.starts_with(before))
    {
        found.is_specialized |= *before == "specialized ";
        found.is_merged |= *before == "merged ";
        found.is_thunk |= is_thunk;
        rest = &rest[before.len()..];
    }
    // The full form, as older tools print it.
    if rest.starts_with("generic specialization <") {
        found.is_specialized = true;
        rest = rest.rsplit_once("> of ")?.1;
    }
    let has_attribute = rest.len() < text.len();
    if rest.starts_with("Swift.") {
        found.role = Role::Function;
        found.module = Some("Swift".to_owned());
        found.function = Some(rest.to_owned());
        return Some(found);
    }
    if GLUE.iter().any(|glue| rest.starts_with(glue)) {
        return Some(found);
    }
    if let Some(witness) = rest.strip_prefix("protocol witness for ") {
        let (requirement, conforming) = witness.split_once(" in conformance ")?;
        found.is_thunk = true;
        found.role = Role::Function;
        let (module, requirement) = simplify(requirement).unzip();
        let requirement = requirement.as_deref();
        found.function = Some(match (requirement, conforming.split_once('.')) {
            // Its own module is before the type, too.
            (Some(requirement), Some((_, of))) => witness_of(requirement, of),
            _ => witness_of(witness.split_once(" in conformance ")?.0, conforming),
        });
        found.module = module.flatten();
    } else if closure(rest).is_some() {
        let mut function = String::new();
        while let Some((kind, within)) = closure(rest) {
            function.push_str(kind);
            function.push_str(" in ");
            rest = within;
        }
        found.role = Role::Closure;
        let (module, simplified) = simplify(rest).unzip();
        found.module = module.flatten();
        found.function = Some(function + simplified.as_deref().unwrap_or(rest));
    } else if let Some((module, simplified)) = simplify(rest) {
        found.role = Role::Function;
        found.module = module;
        found.function = Some(simplified);
    } else if has_attribute || is_function(rest) {
        found.role = Role::Function;
        found.function = Some(rest.to_owned());
    } else {
        return None;
    }
    Some(found)
}

/// Returns the function of a part of an async function: the text after `(3) suspend resume partial function for `.
fn async_part(text: &str) -> Option<&str> {
    let (number, of) = text.strip_prefix('(')?.split_once(") ")?;
    let of = of
        .strip_prefix("suspend ")
        .or_else(|| of.strip_prefix("await "))?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    of.strip_prefix("resume partial function for ")
        .filter(|_| is_number)
}

/// Returns the function of a type that fulfils a requirement: `static Failure.== infix(_:_:)` for `static
/// Equatable.== infix(_:_:)`.
fn witness_of(requirement: &str, conforming: &str) -> String {
    let signed = conforming.split(" : ").next().unwrap_or(conforming);
    // Without the signature before the type, and its own arguments.
    let generic = signed.rsplit("> ").next().unwrap_or(signed);
    let type_name = generic.split('<').next().unwrap_or(generic);
    let (modifier, entity) = match requirement.strip_prefix("static ") {
        Some(entity) => ("static ", entity),
        None => ("", requirement),
    };
    match entity.split_once('.') {
        Some((_, name)) => format!("{modifier}{type_name}.{name}"),
        None => requirement.to_owned(),
    }
}

/// Returns the kind of a closure and its function: `closure` and `openScreen(_:)` for `closure #1 in openScreen(_:)`.
fn closure(text: &str) -> Option<(&'static str, &str)> {
    let (kind, numbered) = match text.strip_prefix("implicit ") {
        Some(rest) => ("implicit closure", rest),
        None => ("closure", text),
    };
    let (number, within) = numbered.strip_prefix("closure #")?.split_once(" in ")?;
    // In the full form its signature is after the number.
    let number = number.split(' ').next().unwrap_or(number);
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some((kind, within))
}

/// Returns true for a name with argument labels, `Cart.add(_:to:)`, or of a type's function or accessor without
/// arguments, `Cart.total()`, `Cart.total.getter`. Line tables alone name an accessor without its type: `subscript.modify`.
fn is_function(text: &str) -> bool {
    let Some((name, labels)) = text
        .strip_suffix(')')
        .and_then(|text| text.rsplit_once('('))
    else {
        let accessors = [".getter", ".setter", ".modify", ".read"];
        let mut property = accessors.iter().filter_map(|end| text.strip_suffix(end));
        return property.any(|name| name.contains('.'))
            || text.ends_with(".deinit")
            || text.ends_with(".__deallocating_deinit");
    };
    let is_label =
        |label: &str| !label.is_empty() && label.bytes().all(|byte| !b" ,<>*&".contains(&byte));
    let labels = match labels.strip_suffix(':') {
        Some(labels) => labels.split(':').all(is_label),
        None => labels.is_empty() && name.contains('.'),
    };
    labels && !name.contains("::") && !name.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As text, a name says the same but for its module.
    #[test]
    fn text_has_the_function_that_it_leads_to() {
        use Role::{Closure, Function, Glue};
        for (text, role, function) in [
            ("Cart.add(_:to:)", Function, "Cart.add(_:to:)"),
            ("specialized Cart.add(_:to:)", Function, "Cart.add(_:to:)"),
            ("@objc Cart.add(_:to:)", Function, "Cart.add(_:to:)"),
            (
                "static Cart.< infix(_:_:)",
                Function,
                "static Cart.< infix(_:_:)",
            ),
            ("Cart.total.getter", Function, "Cart.total.getter"),
            ("Cart.deinit", Function, "Cart.deinit"),
            (
                "partial apply for specialized closure #1 in foo(_:)",
                Closure,
                "closure in foo(_:)",
            ),
            (
                "closure #2 in closure #1 in Cart.foo()",
                Closure,
                "closure in closure in Cart.foo()",
            ),
            (
                "protocol witness for Source.next() in conformance Local",
                Function,
                "Local.next()",
            ),
            (
                "protocol witness for Sequence.split(_:) in conformance <A> Enumerated<A>",
                Function,
                "Enumerated.split(_:)",
            ),
            ("thunk for @escaping @callee_guaranteed () -> ()", Glue, ""),
            ("type metadata accessor for Cart", Glue, ""),
            (
                "generic specialization <Swift.Int> of till.Row.sum",
                Function,
                "till.Row.sum",
            ),
            (
                "Swift._assertionFailure() -> Never",
                Function,
                "Swift._assertionFailure() -> Never",
            ),
        ] {
            let found = summary(text).expect(text);
            assert_eq!(found.role, role, "{text}");
            assert_eq!(found.function.unwrap_or_default(), function, "{text}");
        }
        for text in [
            "main",
            "till::pay()",
            "void till::Shop::open<int>(int)",
            "foo(int, char)",
            "foo()",
            "-[Shop open:]",
            "<app::Shop as core::fmt::Debug>::fmt",
            "kfun:till.Shop#open(kotlin.Int){}kotlin.Unit",
            "operator()",
            "subscript.modify",
            "total.read",
        ] {
            assert_eq!(summary(text), None, "{text}");
        }
    }
}
