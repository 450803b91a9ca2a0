//! Names without what compilers, languages and builds add to them.

use std::borrow::Cow;

/// Returns true if a function, by its [`plain_name`], is the entry point of a program.
pub(super) fn is_entry(name: &str) -> bool {
    matches!(
        name,
        "main" | "_main" | "start" | "_start" | "static" | "thread_start" | "start_thread"
    ) || ["::main", ".main", ".$main"]
        .iter()
        .any(|end| name.ends_with(end))
}

/// Returns true if a [`plain_name`] is one that functions of any kind share: `{async_block}`, `{closure}`, `{lambda}`,
/// `operator()`, `invoke`.
pub(super) fn says_nothing(name: &str) -> bool {
    #[rustfmt::skip]
    const SHARED: [&str; 7] = [
        CALL, "_FUN", "__invoke", "invoke", "lambda", "<anonymous>", "anonymous",
    ];
    let is_in_braces = |part: &str| part.starts_with('{') && part.ends_with('}');
    name.split("::")
        .all(|part| is_in_braces(part) || SHARED.contains(&part))
}

/// The name as the source code has it, whichever compiler, build or mangling it went through:
///
/// - without suffixes of clones and parts (`.llvm.123`, `.cold`, `.isra.0`, ` [clone …]`), hashes and crate
///   disambiguators;
/// - without generic and template arguments, parameters and return types, which hold closures' types;
/// - closures, lambdas, blocks and local functions without their numbers;
/// - Rust's methods the same in both manglings: `<app::Shop>::open` and `app::Shop::open` are one.
pub(crate) fn plain_name(name: &str) -> Cow<'_, str> {
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b':');
    let name = without_hash(without_clones(name), "::h", 16);
    if let Some(name) = kotlin(name).or_else(|| block(name)) {
        return Cow::Owned(name);
    }
    // Objective-C's methods have no arguments but their selectors.
    if name.bytes().all(is_plain) || name.starts_with("-[") || name.starts_with("+[") {
        return Cow::Borrowed(name);
    }
    Cow::Owned(simplify(name, 0))
}

/// `kfun:till.Shop#open(kotlin.Int){}kotlin.Unit`, `kfun:till.Shop.open$lambda$0#internal`: Kotlin/Native.
fn kotlin(name: &str) -> Option<String> {
    let name = name.strip_prefix("kfun:")?;
    let name = name.split(['(', '{']).next().unwrap_or(name);
    let name = name.strip_suffix("#internal").unwrap_or(name);
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
    let parts = name.split('$').filter(|part| !is_number(part));
    let parts = parts.map(|part| match part.strip_prefix("lambda-") {
        Some(_) => "lambda",
        None => part,
    });
    Some(parts.collect::<Vec<_>>().join("$"))
}

/// `foo.llvm.123`, `foo.isra.0.cold`, `foo.1`, `foo [clone .part.0]`, `foo() (.llvm.123)`.
pub(crate) fn without_clones(name: &str) -> &str {
    #[rustfmt::skip]
    const CLONE_SUFFIXES: [&str; 22] = [
        "llvm", "cold", "hot", "warm", "unlikely", "isra", "part", "constprop", "lto_priv",
        "__uniq", "localalias", "resume", "destroy", "cleanup", "specialized", "extracted",
        "outlined", "split", "sra", "clone", "thinlto", "exit",
    ];
    let mut name = name;
    for suffix in [" [clone ", " (."] {
        let at = memchr::memmem::find(name.as_bytes(), suffix.as_bytes()).filter(|at| *at > 0);
        name = &name[..at.unwrap_or(name.len())];
    }
    while let Some((front, suffix)) = name.rsplit_once('.') {
        let is_number = !suffix.is_empty() && suffix.bytes().all(|c| c.is_ascii_digit());
        if front.is_empty() || !(is_number || CLONE_SUFFIXES.contains(&suffix)) {
            break;
        }
        name = front;
    }
    name
}

/// Without Rust's `::h0123456789abcdef`, or the like.
pub(super) fn without_hash<'a>(name: &'a str, before: &str, digits: usize) -> &'a str {
    let is_hash = |hash: &str| hash.len() == digits && hash.bytes().all(|c| c.is_ascii_hexdigit());
    let parts = name.rsplit_once(before).filter(|(_, hash)| is_hash(hash));
    parts.map_or(name, |(front, _)| front)
}

/// `__34-[A b]_block_invoke_2` without its numbers, that of the name's length, too.
fn block(name: &str) -> Option<String> {
    let (front, number) = name.rsplit_once("_block_invoke")?;
    let number = number.trim_start_matches(['_', '.']);
    let is_number = number.bytes().all(|c| c.is_ascii_digit());
    let of = front.strip_prefix("__").unwrap_or(front);
    let of = of.trim_start_matches(|c: char| c.is_ascii_digit());
    is_number.then(|| format!("{of}_block_invoke"))
}

/// Returns the full name of a lambda of C++ whose entry in the debug information says `operator()` alone, from the template that
/// calls it: of `std::__invoke<till::pay(int)::{lambda(int)#1}&>` that is `till::pay(int)::{lambda(int)#1}::operator()`.
pub(super) fn lambda_called_by(template: &str) -> Option<String> {
    let template = template.replace(" const::", "::");
    let heads = ["::{lambda(", "::<lambda("];
    let at = heads.iter().filter_map(|head| template.find(head)).min()?;
    let own = depths(&template[..at]).last().map_or(0, |(_, depth)| depth);
    let is_end = |at: usize| b"<( ,&*".contains(&template.as_bytes()[at]);
    let ends = depths(&template).filter(|&(at, depth)| depth < own || depth == own && is_end(at));
    let mut ends = ends.map(|(end, _)| end);
    let begin = ends.clone().take_while(|&end| end < at).last();
    let end = ends.find(|&end| end > at).unwrap_or(template.len());
    let lambda = &template[begin.map_or(0, |begin| begin + 1)..end];
    Some(format!("{lambda}::{CALL}"))
}

/// Nesting deeper than this is left as it is.
const MAX_DEPTH: usize = 16;

pub(super) const CALL: &str = "operator()";
const ANONYMOUS: &str = "(anonymous namespace)";

fn simplify(name: &str, depth: usize) -> String {
    if depth > MAX_DEPTH {
        return name.to_owned();
    }
    let mut stripping = Stripping {
        rest: name,
        out: String::with_capacity(name.len()),
        depth,
    };
    while let Some(c) = stripping.rest.chars().next() {
        // Of a type in Rust further traits, in the older mangling with their associated types.
        let is_trait = depth > 0 && stripping.rest.trim_start().starts_with('+');
        if stripping.is_at_operator() {
            // A lambda may be in it.
            let operator = operator_name(stripping.rest);
            stripping.out.push_str(operator);
            stripping.rest = stripping.rest[operator.len()..].trim_start();
        } else if is_trait || stripping.rest.starts_with(" -> ") {
            let ends = [",", ";"]
                .into_iter()
                .filter_map(|end| top_level(stripping.rest, end));
            stripping.skip(ends.min().unwrap_or(stripping.rest.len()));
        } else if !stripping.strip() {
            stripping.out.push(c);
            stripping.skip(c.len_utf8());
        }
    }
    // Types of Rust have words: `&mut T`, `dyn T`.
    if depth > 0 || stripping.out.starts_with('<') {
        return stripping.out;
    }
    let mut out = stripping.out.trim_end().to_owned();
    // A lambda as a pointer to a function; g++ calls some lambdas unnamed types.
    let called = ["::_FUN", "::__invoke", "::operator()"]
        .iter()
        .find_map(|end| out.strip_suffix(end));
    let ends = ["{unnamed type}", "{lambda}"];
    let called = called.and_then(|of| ends.iter().find_map(|end| of.strip_suffix(end)));
    if let Some(front) = called {
        out = format!("{front}{{lambda}}::{CALL}");
    }
    // Return types, `static` and the like stand before the last space in no brackets, as those of `(anonymous namespace)` are.
    let front = out.split("operator ").next().unwrap_or(&out);
    let spaces = depths(front).filter(|&(at, depth)| depth == 0 && front.as_bytes()[at] == b' ');
    out[spaces.last().map_or(0, |(at, _)| at + 1)..].to_owned()
}

/// A name that is read from first to last, and what is kept of it.
struct Stripping<'n> {
    rest: &'n str,
    out: String,
    depth: usize,
}

impl<'n> Stripping<'n> {
    fn skip(&mut self, length: usize) {
        self.rest = self.rest.get(length..).unwrap_or("");
    }

    /// Skips the brackets at the front, and returns the text within them.
    fn skip_brackets(&mut self) -> &'n str {
        let inner = bracketed(self.rest);
        self.skip(inner.len() + 2);
        inner
    }

    /// Returns true where a part of the name begins, or the type that a reference is to.
    fn begins(&self) -> bool {
        self.out.is_empty() || self.out.ends_with("::") || self.out.ends_with([' ', '&'])
    }

    fn is_at_operator(&self) -> bool {
        let after = self.rest.strip_prefix("operator");
        self.begins() && after.is_some_and(|after| !is_word(after) && !after.starts_with(':'))
    }

    /// Takes the text at the front that is not kept as it is; returns false without such text.
    fn strip(&mut self) -> bool {
        let (rest, begins) = (self.rest, self.begins());
        let is_type = begins && (rest.starts_with("<impl ") || !self.out.ends_with("::"));
        match rest.as_bytes() {
            // GCC's lambda in template arguments; in another one it has no `operator()` between.
            [b'<', ..] if begins && rest.starts_with("<lambda") => {
                self.skip_brackets();
                self.out.push_str("{lambda}");
                if self.rest.starts_with("::<lambda") {
                    self.out.push_str("::operator()");
                }
            }
            [b'<', ..] if is_type => self.qualified_type(),
            [b'<', ..] => self.type_arguments(),
            [b'(', ..] if rest.starts_with(ANONYMOUS) => {
                self.out.push_str(ANONYMOUS);
                self.skip(ANONYMOUS.len());
            }
            [b'(', ..] if !begins => self.parameters(),
            [b'(' | b'[', ..] if begins && self.depth > 0 => {
                let inner = self.skip_brackets();
                let close = rest[inner.len() + 1..].chars().next();
                self.out.push_str(&rest[..1]);
                self.out.push_str(&simplify(inner, self.depth + 1));
                self.out.extend(close);
            }
            [b',', ..] if self.depth > 0 => {
                self.out.push_str(", ");
                self.rest = rest[1..].trim_start();
            }
            // An array's length: one mangling has that of the impl, `N`, and another that of the call.
            [b';', ..] if self.depth > 0 => {
                self.out.push_str("; _");
                self.rest = "";
            }
            [b'{', ..] if begins => self.closure(),
            // Clang's lambdas have no name but a number.
            [b'$', b'_', digits @ ..] if begins => {
                let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
                self.skip(2 + digits.count());
                self.out.push_str("{lambda}");
            }
            [b'\'', ..] if rest.starts_with("'lambda") => {
                self.skip(rest[1..].find('\'').map_or(rest.len(), |at| at + 2));
                self.out.push_str("{lambda}");
            }
            // `[abi:cxx11]`, a crate's disambiguator, `call_once{{vtable.shim}}`
            [b'[' | b'{', ..] if !begins => {
                self.skip_brackets();
            }
            _ => return false,
        }
        true
    }

    /// Keeps the type and the trait of an `impl`, or the type alone. Where it stands is no part of the name.
    fn qualified_type(&mut self) {
        let inner = self.skip_brackets().trim();
        let own = inner.strip_prefix("impl ").unwrap_or(inner);
        let of_impl = || split_top(own, " for ").map(|(what, of)| (of, what));
        let below = self.depth + 1;
        self.out = match split_top(own, " as ").or_else(of_impl) {
            Some((of, what)) => format!("<{} as {}>", simplify(of, below), simplify(what, below)),
            None => simplify(own, below),
        };
    }

    fn type_arguments(&mut self) {
        self.skip_brackets();
        let kept = self.out.strip_suffix("::").unwrap_or(&self.out).len();
        self.out.truncate(kept);
    }

    fn parameters(&mut self) {
        self.skip_brackets();
        for qualifier in [" const", " volatile", " &&", " &"] {
            self.rest = self.rest.strip_prefix(qualifier).unwrap_or(self.rest);
        }
    }

    /// Keeps the word of `{closure#0}`, `{lambda(int)#1}` and the like.
    fn closure(&mut self) {
        let inner = self.skip_brackets();
        let word = inner.trim_start_matches('{');
        let word = word.split(['#', '(', '<', '}', ':']).next();
        let word = word.unwrap_or(inner);
        self.out.push('{');
        self.out.push_str(word.strip_suffix("_env").unwrap_or(word));
        self.out.push('}');
    }
}

/// Returns true if a character of a word comes first.
fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// Returns the name of the operator at the front of a name: `operator+`, `operator new[]`, `operator std::vector<int>`. A `<` after
/// another symbol, or before a word, opens template arguments.
fn operator_name(name: &str) -> &str {
    let after = &name["operator".len()..];
    let rest = after.trim_start_matches(|c| "+-*/%^&|~!=<>,".contains(c));
    let whole = &name[..name.len() - rest.len()];
    match &after[..after.len() - rest.len()] {
        "" if after.starts_with("()") || after.starts_with("[]") => &name[..CALL.len()],
        "" => name.split('(').next().unwrap_or(name).trim_end(),
        "<" | "<<" if !is_word(rest) => whole,
        _ => whole.strip_suffix('<').unwrap_or(whole),
    }
}

/// Returns the text between the bracket that `text` begins with and the one that closes it.
pub(crate) fn bracketed(text: &str) -> &str {
    let end = depths(text).find(|(_, depth)| *depth == 0);
    // Where nothing closes it: callers skip both brackets, which is past the end here.
    &text[1..end.map_or(text.len(), |(at, _)| at)]
}

/// Returns the offset of `what` outside of all brackets.
fn top_level(text: &str, what: &str) -> Option<usize> {
    let begins = |at: usize| text.as_bytes()[at..].starts_with(what.as_bytes());
    let found = depths(text).find(|&(at, depth)| depth == 0 && begins(at));
    found.map(|(at, _)| at)
}

/// Each byte's place, and how many brackets are open behind it. Those of `->` and `=>` are none.
pub(super) fn depths(text: &str) -> impl Iterator<Item = (usize, usize)> + Clone {
    let bytes = text.as_bytes();
    let (mut depth, mut before) = (0usize, 0);
    bytes.iter().enumerate().map(move |(at, &byte)| {
        match byte {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' if matches!(before, b'-' | b'=') => {}
            b'>' | b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        before = byte;
        (at, depth)
    })
}

pub(super) fn split_top<'a>(text: &'a str, what: &str) -> Option<(&'a str, &'a str)> {
    let at = top_level(text, what)?;
    Some((&text[..at], &text[at + what.len()..]))
}

#[cfg(test)]
mod tests;
