//! Names of Swift 3 and before, whose mangling Swift 4 gave up: context and name, without types of arguments.
//!
//! Source: Swift's `docs/ABI/OldMangling.rst`. Names outside ASCII stay as they are stored.

/// Deeper nesting is left as it is.
const DEPTH: usize = 48;

/// Longer names are left as they are: substitutions multiply.
const LONGEST: usize = 4096;

/// `_TFC4till4Shop4openfT_T_`: `till.Shop.open`. `None` where the name is not of that mangling.
pub(in crate::symbolicate) fn demangle(symbol: &str) -> Option<String> {
    let mut reader = OldName {
        rest: symbol.strip_prefix("_T")?,
        known: Vec::new(),
        depth: 0,
    };
    reader.global()
}

/// A module, a type, or a function with what it stands in.
#[derive(Clone, Default)]
struct Place {
    text: String,
    /// Types one within the other: each has a list of generic arguments.
    types: usize,
    /// True if its name is `a in b`: what it holds is in it, too.
    is_local: bool,
    /// True of a class: its instances are allocated.
    is_class: bool,
    /// True if the type of its value follows.
    has_type: bool,
}

impl Place {
    fn new(text: String) -> Place {
        Place {
            text,
            ..Place::default()
        }
    }

    fn named(&self, name: &str) -> Place {
        let mut place = Place::new(match self.is_local {
            true => format!("{name} in {}", self.text),
            false => format!("{}.{name}", self.text),
        });
        place.is_local = self.is_local;
        place
    }

    fn of(what: String, path: &Place) -> Place {
        let mut place = Place::new(format!("{what} {}", path.text));
        place.is_local = true;
        place
    }

    fn swift(name: &str) -> Place {
        let mut place = Place::new(format!("Swift.{name}"));
        place.types = 1;
        place
    }

    fn module(name: &str) -> Place {
        Place::new(name.to_owned())
    }
}

struct OldName<'a> {
    rest: &'a str,
    /// What `S_`, `S0_`, … stand for.
    known: Vec<Place>,
    depth: usize,
}

impl<'a> OldName<'a> {
    fn global(&mut self) -> Option<String> {
        self.depth += 1;
        (self.depth < DEPTH && self.rest.len() < LONGEST).then_some(())?;
        const THUNKS: [(&str, &str); 4] = [
            ("To", "@objc "),
            ("TO", "@nonobjc "),
            ("TD", "dynamic "),
            ("Td", "super "),
        ];
        if let Some((_, what)) = THUNKS.into_iter().find(|(mark, _)| self.takes(mark)) {
            return Some(what.to_owned() + &self.global()?);
        }
        // Behind the arguments that a function was specialized for, and behind `PA`, its own symbol stands.
        const WHOLE: [(&str, &str, &str); 4] = [
            ("PA", "__T", "partial apply forwarder for "),
            ("TSf", "___T", "function signature specialization of "),
            ("TSg", "___T", "generic specialization of "),
            (
                "TSr",
                "___T",
                "generic not re-abstracted specialization of ",
            ),
        ];
        if let Some((_, end, what)) = WHOLE.into_iter().find(|(mark, ..)| self.takes(mark)) {
            let at = self.rest.find(end)? + end.len();
            self.rest = &self.rest[at..];
            self.known.clear();
            return Some(what.to_owned() + &self.global()?);
        }
        if self.takes("TR") || self.takes("Tr") {
            return Some("reabstraction thunk helper".to_owned());
        }
        if self.takes("TW") {
            let conforming = self.conformance()?;
            let name = self.entity()?.text;
            return Some(format!(
                "protocol witness for {name} in conformance {conforming}"
            ));
        }
        if self.takes("Ma") {
            return Some("type metadata accessor for ".to_owned() + &self.type_()?.text);
        }
        if self.takes("Wa") {
            return Some("protocol witness table accessor for ".to_owned() + &self.conformance()?);
        }
        if self.takes("w") {
            let (_, rest) = self.rest.split_at_checked(2)?;
            self.rest = rest;
            return Some("value witness for ".to_owned() + &self.type_()?.text);
        }
        let is_function = self.rest.starts_with(['F', 'v', 'I', 'i', 'Z']);
        is_function.then(|| self.entity())?.map(|path| path.text)
    }

    /// The type that conforms; the protocol and the module that says so are passed over.
    fn conformance(&mut self) -> Option<String> {
        if self.takes("u") {
            self.signature()?;
        }
        let conforming = self.type_()?.text;
        self.protocol()?;
        self.context()?;
        Some(conforming)
    }

    fn entity(&mut self) -> Option<Place> {
        self.within(|reader| {
            let is_static = reader.takes("Z");
            if !["F", "v", "I", "i"].iter().any(|kind| reader.takes(kind)) {
                return reader.nominal();
            }
            let context = reader.context()?;
            let mut path = reader.member(&context)?;
            if is_static {
                path.text.insert_str(0, "static ");
            }
            Some(path)
        })
    }

    fn member(&mut self, context: &Place) -> Option<Place> {
        #[rustfmt::skip]
        const BARE: [(&str, &str, bool); 6] = [
            ("D", "__deallocating_deinit", false), ("d", "deinit", false),
            ("E", "__ivar_destroyer", false), ("e", "__ivar_initializer", false),
            ("C", "__allocating_init", true), ("c", "init", true),
        ];
        #[rustfmt::skip]
        const ACCESSORS: [(&str, &str); 14] = [
            ("g", "getter"), ("G", "getter"), ("s", "setter"), ("m", "materializeForSet"),
            ("w", "willset"), ("W", "didset"), ("au", "unsafeMutableAddressor"),
            ("lu", "unsafeAddressor"), ("aO", "owningMutableAddressor"), ("lO", "owningAddressor"),
            ("ao", "nativeOwningMutableAddressor"), ("lo", "nativeOwningAddressor"),
            ("ap", "nativePinningMutableAddressor"), ("lp", "nativePinningAddressor"),
        ];
        if let Some((_, name, has_type)) = BARE.into_iter().find(|(mark, ..)| self.takes(mark)) {
            let of_value = name == "__allocating_init" && !context.is_class;
            let mut path = context.named(if of_value { "init" } else { name });
            path.has_type = has_type;
            return Some(path);
        }
        for (mark, what) in [("U", "closure"), ("u", "implicit closure")] {
            if self.takes(mark) {
                let number = self.index()? + 1;
                let mut path = Place::of(format!("{what} #{number} in"), context);
                path.has_type = true;
                return Some(path);
            }
        }
        if self.takes("A") {
            let what = format!("default argument {} of", self.index()?);
            return Some(Place::of(what, context));
        }
        if self.takes("i") {
            let what = "variable initialization expression of".to_owned();
            return Some(Place::of(what, context));
        }
        let accessor = ACCESSORS.into_iter().find(|(mark, _)| self.takes(mark));
        let mut path = self.declared(context)?;
        if let Some((_, accessor)) = accessor {
            match path.is_local {
                true => path = path.named(accessor),
                false => path.text = format!("{}.{accessor}", path.text),
            }
        }
        path.has_type = true;
        Some(path)
    }

    fn context(&mut self) -> Option<Place> {
        self.within(|reader| {
            if reader.takes("E") {
                let module = reader.module()?;
                return Some(extended(&module, reader.context()?));
            }
            if reader.takes("e") {
                let module = reader.module()?;
                reader.signature()?;
                return Some(extended(&module, reader.context()?));
            }
            if reader.takes("S") {
                return reader.substitution();
            }
            if reader.takes("G") {
                return reader.bound();
            }
            let entities = ['F', 'I', 'v', 'i', 'P', 'Z', 'C', 'V', 'O'];
            if reader.rest.starts_with(entities) {
                let path = reader.entity()?;
                if path.has_type {
                    reader.type_()?;
                }
                return Some(path);
            }
            reader.module()
        })
    }

    fn module(&mut self) -> Option<Place> {
        if self.takes("s") {
            return Some(Place::module("Swift"));
        }
        if self.takes("S") {
            return self.substitution();
        }
        let module = Place::module(&self.identifier()?);
        self.known.push(module.clone());
        Some(module)
    }

    /// The name of what is declared in a context: local, private or plain.
    fn declared(&mut self, context: &Place) -> Option<Place> {
        if self.takes("L") {
            let number = self.index()? + 1;
            let name = self.identifier()?;
            return Some(Place::of(format!("{name} #{number} in"), context));
        }
        if self.takes("P") {
            let (file, name) = (self.identifier()?, self.identifier()?);
            return Some(context.named(&format!("({name} in {file})")));
        }
        Some(context.named(&self.identifier()?))
    }

    fn nominal(&mut self) -> Option<Place> {
        if self.takes("S") {
            return self.substitution();
        }
        let kinds = ["C", "V", "O", "P", "a"];
        let kind = kinds.iter().find(|kind| self.takes(kind))?;
        let context = self.context()?;
        self.type_in(&context)?;
        let path = self.known.last_mut()?;
        path.is_class = *kind == "C";
        Some(path.clone())
    }

    fn type_in(&mut self, context: &Place) -> Option<Place> {
        let mut path = self.declared(context)?;
        path.types = context.types + 1;
        self.known.push(path.clone());
        Some(path)
    }

    fn protocol(&mut self) -> Option<Place> {
        let context = self.context()?;
        // A substitution may be that of the protocol itself.
        match context.types {
            0 => self.type_in(&context),
            _ if self.rest.starts_with(|c: char| c.is_ascii_digit()) => self.type_in(&context),
            _ => Some(context),
        }
    }

    fn bound(&mut self) -> Option<Place> {
        let path = self.nominal()?;
        (0..path.types).try_for_each(|_| self.until_end(|reader| reader.type_().map(drop)))?;
        Some(path)
    }

    /// Passes over a type; its name, if it has one.
    fn type_(&mut self) -> Option<Place> {
        self.within(|reader| {
            if reader.rest.starts_with(['C', 'V', 'O', 'S', 'a']) {
                return reader.nominal();
            }
            let mut rest = reader.rest.chars();
            let kind = rest.next()?;
            reader.rest = rest.as_str();
            match kind {
                'F' | 'f' | 'b' | 'c' | 'K' => {
                    reader.takes("z");
                    reader.type_()?;
                    reader.type_()?;
                }
                'D' | 'R' | 'M' => return reader.type_(),
                'X' => {
                    let marks = ["o", "u", "w", "b", "Mt", "MT", "Mo", "PM"];
                    marks.iter().find(|mark| reader.takes(mark))?;
                    return reader.type_();
                }
                'P' if reader.takes("M") => return reader.type_(),
                'P' => reader.until_end(|reader| reader.protocol().map(drop))?,
                'G' => return reader.bound(),
                'T' | 't' => reader.until_end(|reader| {
                    if reader.rest.starts_with(|c: char| c.is_ascii_digit()) {
                        reader.identifier()?;
                    }
                    reader.type_().map(drop)
                })?,
                'u' => {
                    reader.signature()?;
                    return reader.type_();
                }
                'x' | 'q' | 'w' | 'W' => reader.parameter(kind)?,
                'B' => reader.builtin()?,
                _ => return None,
            }
            Some(Place::default())
        })
    }

    fn builtin(&mut self) -> Option<()> {
        while self.takes("v") {
            self.number()?;
            self.takes("B").then_some(())?;
        }
        if self.takes("i") || self.takes("f") {
            self.number()?;
            return self.takes("_").then_some(());
        }
        let plain = ["b", "B", "O", "o", "p", "t", "w"];
        plain.iter().any(|mark| self.takes(mark)).then_some(())
    }

    /// A generic parameter, or a type associated with one.
    fn parameter(&mut self, kind: char) -> Option<()> {
        match kind {
            'x' => {}
            'q' if self.takes("d") => {
                self.index()?;
                self.index()?;
            }
            'q' => drop(self.index()?),
            _ => {
                let kind = if self.takes("x") { 'x' } else { 'q' };
                self.parameter(kind)?;
            }
        }
        match kind {
            'w' => self.associated(),
            'W' => self.until_end(OldName::associated),
            _ => Some(()),
        }
    }

    fn associated(&mut self) -> Option<()> {
        if self.takes("S") {
            return self.substitution().map(drop);
        }
        if self.takes("P") {
            self.protocol()?;
        }
        let name = Place::module(&self.identifier()?);
        self.known.push(name);
        Some(())
    }

    /// Passes over the parameters and requirements of a generic function, behind `u` or in an extension.
    fn signature(&mut self) -> Option<()> {
        while !self.rest.starts_with(['r', 'R']) {
            if !self.takes("z") {
                self.index()?;
            }
        }
        if !self.takes("R") {
            return self.takes("r").then_some(());
        }
        while !self.takes("r") {
            let kinds = ["x", "w", "W"];
            let kind = kinds.into_iter().find(|kind| self.takes(kind));
            self.parameter(kind.map_or('q', |kind| kind.as_bytes()[0].into()))?;
            match self.rest.as_bytes().first()? {
                b'z' if self.takes("z") => drop(self.type_()?),
                b'C' => drop(self.nominal()?),
                // layouts
                b'l' => return None,
                _ => drop(self.protocol()?),
            }
        }
        Some(())
    }

    /// Behind `S`.
    fn substitution(&mut self) -> Option<Place> {
        #[rustfmt::skip]
        const KNOWN: [(&str, &str); 15] = [
            ("a", "Array"), ("b", "Bool"), ("c", "UnicodeScalar"), ("d", "Double"), ("f", "Float"),
            ("i", "Int"), ("V", "UnsafeRawPointer"), ("v", "UnsafeMutableRawPointer"),
            ("P", "UnsafePointer"), ("p", "UnsafeMutablePointer"), ("q", "Optional"),
            ("Q", "ImplicitlyUnwrappedOptional"), ("R", "UnsafeBufferPointer"), ("S", "String"),
            ("u", "UInt"),
        ];
        if let Some((_, name)) = KNOWN.into_iter().find(|(mark, _)| self.takes(mark)) {
            return Some(Place::swift(name));
        }
        if self.takes("o") {
            return Some(Place::module("__C"));
        }
        if self.takes("C") {
            return Some(Place::module("__C_Synthesized"));
        }
        let index = self.index()?;
        self.known.get(index).cloned()
    }

    /// `4name`, `oi1p`.
    fn identifier(&mut self) -> Option<String> {
        let fixities = [("op", " prefix"), ("oP", " postfix"), ("oi", " infix")];
        let fixity = fixities.into_iter().find(|(mark, _)| self.takes(mark));
        let length = self.number()?;
        let (name, rest) = self.rest.split_at_checked(length)?;
        (!name.is_empty()).then_some(())?;
        self.rest = rest;
        let Some((_, fixity)) = fixity else {
            return Some(name.to_owned());
        };
        const SIGNS: &[u8; 26] = b"& @/= >    <*!|+?%-~   ^ .";
        let sign = |c: u8| SIGNS.get(usize::from(c.checked_sub(b'a')?)).copied();
        let signs = name.bytes().map(|c| sign(c).map(char::from));
        Some(signs.collect::<Option<String>>()? + fixity)
    }

    /// `_`: 0, `0_`: 1.
    fn index(&mut self) -> Option<usize> {
        if self.takes("_") {
            return Some(0);
        }
        let number = self.number()?;
        self.takes("_").then(|| number.checked_add(1))?
    }

    fn number(&mut self) -> Option<usize> {
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        number.parse().ok()
    }

    fn takes(&mut self, mark: &str) -> bool {
        let rest = self.rest.strip_prefix(mark);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn until_end(&mut self, mut one: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        while !self.takes("_") {
            one(self)?;
        }
        Some(())
    }

    /// One level deeper; `None` where that is too deep, or the name too long.
    fn within(&mut self, read: impl FnOnce(&mut Self) -> Option<Place>) -> Option<Place> {
        self.depth += 1;
        let path = (self.depth < DEPTH).then(|| read(self))?;
        self.depth -= 1;
        path.filter(|path| path.text.len() < LONGEST)
    }
}

/// A type that a module extends.
fn extended(module: &Place, path: Place) -> Place {
    let text = format!("(extension in {}):{}", module.text, path.text);
    Place { text, ..path }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Names of Swift's own tests (`test/Demangle/Inputs/manglings.txt`), as `swift-demangle` writes them, without types.
    #[test]
    fn names_are_those_of_swift_demangle_without_types() {
        let names = include_str!("swift3.txt");
        for line in names.lines().filter(|line| !line.starts_with('#')) {
            let (mangled, name) = line.split_once(" ---> ").unwrap();
            let expected = Some(name).filter(|name| *name != mangled);
            assert_eq!(demangle(mangled).as_deref(), expected, "{mangled}");
        }
    }

    /// Each substitution may stand for twice as much as the one before.
    #[test]
    fn a_name_that_multiplies_is_left_as_it_is() {
        let twice = |count: usize| {
            let extended: String = (0..count).map(|n| format!("ES{n}_")).collect();
            format!("_TFE1a{extended}V1b1c1dfT_T_")
        };
        assert!(demangle(&twice(500)).is_none());
        let local = "F".repeat(100_000);
        assert!(demangle(&format!("_T{local}")).is_none());
    }

    proptest! {
        #[test]
        fn no_name_makes_it_panic(name in "_T([FvIiZCVOPESGTXuRrxqwWLUAcgsaloMBD_]|1a|2bc|3é|0|99999999999999999999|S_|S0_|T_|___T|PA|TSg|TW){0,24}") {
            let name = demangle(&name);
            prop_assert!(name.is_none_or(|name| name.len() < 2 * LONGEST));
        }
    }
}
