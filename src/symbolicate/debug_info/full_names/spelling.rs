//! Names with template arguments, which compilers spell in their own way, as the demangler spells them: `Box<long>` for
//! `Box<long int>`, `char const*` for `const char*`.

/// Signs of operators that look like arguments.
const SIGNS: [&str; 9] = ["<=>", "->*", "->", "<<", ">>", "<=", ">=", "<", ">"];

/// Returns true for a name with template arguments.
pub(super) fn has_arguments(name: &str) -> bool {
    let (_, rest) = operator(name);
    rest.ends_with('>') && rest.contains('<')
}

/// A name with the types in its arguments as the demangler spells them.
pub(super) fn demangled_spelling(name: &str) -> String {
    let (sign, rest) = operator(name);
    match respelled(rest) {
        Some(text) if rest.contains('<') => format!("{sign}{text}"),
        _ => name.to_owned(),
    }
}

/// A base type by the name that the demangler has for it.
pub(super) fn spelling(name: &str) -> &str {
    match name {
        "long int" => "long",
        "long unsigned int" => "unsigned long",
        "long long int" => "long long",
        "long long unsigned int" => "unsigned long long",
        "short int" => "short",
        "short unsigned int" => "unsigned short",
        other => other,
    }
}

/// An operator's sign, and what follows it; of other names nothing, and all.
fn operator(name: &str) -> (&str, &str) {
    let Some(rest) = name.strip_prefix("operator") else {
        return ("", name);
    };
    let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
    name.split_at("operator".len() + sign.map_or(0, |sign| sign.len()))
}

/// A type with the types in its arguments; `None` if it is no type, as values and functions in arguments.
fn respelled(text: &str) -> Option<String> {
    let (is_const, text) = match text.strip_prefix("const ") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mut base, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(['<', '(', '*', '&']) {
        base.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix(ANONYMOUS) {
            base.push_str(ANONYMOUS);
            rest = after;
            continue;
        }
        if !rest.starts_with('<') {
            break;
        }
        let (arguments, after) = arguments(rest)?;
        let all: Vec<String> = arguments
            .iter()
            .map(|&of| respelled(of).unwrap_or_else(|| of.to_owned()))
            .collect();
        let end = if all.last().is_some_and(|last| last.ends_with('>')) {
            " >"
        } else {
            ">"
        };
        base.push_str(&format!("<{}{end}", all.join(", ")));
        rest = after;
    }
    if rest.starts_with('(') {
        return None;
    }
    let signs = rest.find(['*', '&']).unwrap_or(rest.len());
    base.push_str(&rest[..signs]);
    let (of, mut words) = match base.strip_suffix(" const") {
        Some(of) => (of, " const"),
        None => (&*base, ""),
    };
    if is_const {
        words = " const";
    }
    Some(format!("{}{words}{}", spelling(of), &rest[signs..]))
}

const ANONYMOUS: &str = "(anonymous namespace)";

/// The arguments with which a text begins, and what follows them; `None` where they do not end.
fn arguments(text: &str) -> Option<(Vec<&str>, &str)> {
    let (mut depth, mut begin, mut found) = (0usize, 1, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' if text[..at].ends_with('-') => {}
            '>' | ')' | ']' | '}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    found.push(text[begin..at].trim());
                    return Some((found, &text[at + 1..]));
                }
            }
            ',' if depth == 1 => {
                found.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    None
}

/// Returns true for a name that is no part of a C++ one, though it is in a C++ file: methods of Objective-C, blocks, and the
/// functions that compilers make for them and for global variables. In symbol tables they stand as they are.
pub(super) fn is_whole(name: &str) -> bool {
    let begins = [
        "__copy_helper_block_",
        "__destroy_helper_block_",
        "__cxx_global_",
        "_GLOBAL__",
    ];
    let has = ["-[", "+[", "_block_invoke"];
    begins.iter().any(|begin| name.starts_with(begin)) || has.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_have_no_arguments_by_their_own_signs() {
        for name in [
            "operator<",
            "operator>",
            "operator>>",
            "operator<<",
            "operator->",
            "operator<=>",
            "operator->*",
            "pay",
        ] {
            assert!(!has_arguments(name), "{name}");
            assert_eq!(demangled_spelling(name), name);
        }
        for name in [
            "pay<int>",
            "operator< <int>",
            "operator()<long>",
            "operator-><int>",
            "Box<Box<int> >",
        ] {
            assert!(has_arguments(name), "{name}");
            assert_eq!(demangled_spelling(name), name);
        }
    }

    #[test]
    fn types_are_spelled_as_the_demangler_does() {
        for (name, expected) in [
            ("Box<long int>", "Box<long>"),
            (
                "Box<long unsigned int, const char*>",
                "Box<unsigned long, char const*>",
            ),
            (
                "Pair<short int const, Box<long long int>>",
                "Pair<short const, Box<long long> >",
            ),
            (
                "Map<const std::pair<const K, long int>&, 3>",
                "Map<std::pair<K const, long> const&, 3>",
            ),
            (
                "Box<app::(anonymous namespace)::K, (Color)1>",
                "Box<app::(anonymous namespace)::K, (Color)1>",
            ),
            ("Call<void (*)(const char*)>", "Call<void (*)(const char*)>"),
            ("Box<long int>::In", "Box<long>::In"),
            ("operator< <short int>", "operator< <short>"),
            ("Box<long int", "Box<long int"),
            ("Box>long int<", "Box>long int<"),
            ("long int", "long int"),
        ] {
            assert_eq!(demangled_spelling(name), expected);
        }
    }

    #[test]
    fn methods_of_objective_c_and_blocks_are_no_part_of_a_cpp_name() {
        for whole in [
            "-[ArrayAdapter count]",
            "+[Caches get:isolate:]",
            "-[NSArray(Adapter) objectAtIndex:]",
            "__36-[ArrayAdapter initWithJSObject:]_block_invoke",
            "__main_block_invoke_2",
            "__copy_helper_block_8_32s",
            "__destroy_helper_block_8_32s",
            "__cxx_global_var_init",
            "__cxx_global_array_dtor",
            "_GLOBAL__sub_I_main.mm",
        ] {
            assert!(is_whole(whole), "{whole}");
        }
        for part in [
            "join_row",
            "operator()",
            "operator-",
            "operator[]",
            "operator+=",
            "~Price",
            "get<-1>",
            "__static_initialization_and_destruction_0",
        ] {
            assert!(!is_whole(part), "{part}");
        }
    }
}
