//! The whole name: specializations, metadata, witnesses and thunks.

use super::super::kind::{Kind, Phrase, Thunk};
use super::super::parse::value_witness;
use super::super::tree::Id;
use super::Reader;

impl Reader<'_> {
    pub(super) fn top_level(&mut self) -> Option<Id> {
        let mut children = Vec::new();
        if self.eat("TS") {
            loop {
                children.push(self.specialization()?);
                self.substitutions.clear();
                if !self.eat("_TTS") {
                    break;
                }
            }
            self.expect("_T")?;
        } else {
            for (prefix, words) in [
                ("To", "@objc "),
                ("TO", "@nonobjc "),
                ("TD", "dynamic "),
                ("Td", "super "),
                ("TV", "override "),
            ] {
                if self.eat(prefix) {
                    children.push(self.tree.leaf(Kind::Attribute(words))?);
                    break;
                }
            }
        }
        children.push(self.global()?);
        self.tree.node(Kind::Global, &children)
    }

    fn global(&mut self) -> Option<Id> {
        self.deeper(|reader| match reader.peek() {
            b'M' => {
                reader.take()?;
                reader.metadata()
            }
            b'P' if reader.eat("PA") => reader.partial_application(),
            b't' => {
                reader.take()?;
                let inner = reader.any_type()?;
                reader.tree.node(Kind::TypeMangling, &[inner])
            }
            b'w' => {
                reader.take()?;
                let code = [reader.take()?, reader.take()?];
                let words: Phrase = value_witness(code)?;
                reader.about_type(words)
            }
            b'W' => {
                reader.take()?;
                reader.witness()
            }
            b'T' => {
                reader.take()?;
                reader.thunk()
            }
            _ => reader.entity(),
        })
    }

    fn about_type(&mut self, words: Phrase) -> Option<Id> {
        let inner = self.any_type()?;
        self.tree.node(Kind::Symbol(words), &[inner])
    }

    fn metadata(&mut self) -> Option<Id> {
        let words: Phrase = match self.peek() {
            b'P' => &["generic type metadata pattern for "],
            b'a' => &["type metadata accessor for "],
            b'L' => &["lazy cache variable for type metadata for "],
            b'm' => &["metaclass for "],
            b'n' => &["nominal type descriptor for "],
            b'f' => &["full type metadata for "],
            b'p' => {
                self.take()?;
                let protocol = self.protocol()?;
                return self
                    .tree
                    .node(Kind::Symbol(&["protocol descriptor for "]), &[protocol]);
            }
            _ => return self.about_type(&["type metadata for "]),
        };
        self.take()?;
        self.about_type(words)
    }

    fn partial_application(&mut self) -> Option<Id> {
        self.eat("o");
        if self.eat("__T") {
            let of = self.global()?;
            self.tree.node(Kind::PartialApply, &[of])
        } else {
            self.tree.leaf(Kind::PartialApply)
        }
    }

    fn witness(&mut self) -> Option<Id> {
        match self.take()? {
            b'V' => self.about_type(&["value witness table for "]),
            b'v' => {
                let words: Phrase = match self.take()? {
                    b'd' => &["direct field offset for "],
                    b'i' => &["indirect field offset for "],
                    _ => return None,
                };
                let field = self.entity()?;
                self.tree.node(Kind::Symbol(words), &[field])
            }
            b'P' => self.about_conformance(&["protocol witness table for "]),
            b'G' => self.about_conformance(&["generic protocol witness table for "]),
            b'I' => self.about_conformance(&[
                "instantiation function for generic protocol witness table for ",
            ]),
            b'l' => self.lazy_table(&[
                "lazy protocol witness table accessor for type ",
                " and conformance ",
            ]),
            b'L' => self.lazy_table(&[
                "lazy protocol witness table cache variable for type ",
                " and conformance ",
            ]),
            b'a' => self.about_conformance(&["protocol witness table accessor for "]),
            b't' => {
                let conformance = self.conformance()?;
                let name = self.name()?;
                self.tree.node(
                    Kind::Symbol(&["associated type metadata accessor for ", " in "]),
                    &[name, conformance],
                )
            }
            b'T' => {
                let conformance = self.conformance()?;
                let name = self.name()?;
                let protocol = self.protocol()?;
                let words: Phrase = &["associated type witness table accessor for ", " : ", " in "];
                self.tree
                    .node(Kind::Symbol(words), &[name, protocol, conformance])
            }
            _ => None,
        }
    }

    fn about_conformance(&mut self, words: Phrase) -> Option<Id> {
        let conformance = self.conformance()?;
        self.tree.node(Kind::Symbol(words), &[conformance])
    }

    fn lazy_table(&mut self, words: Phrase) -> Option<Id> {
        let subject = self.any_type()?;
        let conformance = self.conformance()?;
        self.tree.node(Kind::Symbol(words), &[subject, conformance])
    }

    fn thunk(&mut self) -> Option<Id> {
        match self.take()? {
            b'R' | b'r' => {
                if self.eat("G") {
                    self.signature()?;
                }
                self.any_type()?;
                let to = self.any_type()?;
                self.tree
                    .node(Kind::Thunk(Thunk::Reabstraction, &["thunk for "]), &[to])
            }
            b'W' => {
                let conformance = self.conformance()?;
                let requirement = self.entity()?;
                self.tree
                    .node(Kind::ProtocolWitness, &[requirement, conformance])
            }
            _ => None,
        }
    }

    fn specialization(&mut self) -> Option<Id> {
        let kind = self.take()?;
        self.eat("q");
        self.take()?;
        match kind {
            b'g' | b'r' => self.generic_specialization()?,
            b'f' => self.function_specialization()?,
            _ => return None,
        }
        self.tree.leaf(Kind::Specialization)
    }

    fn generic_specialization(&mut self) -> Option<()> {
        while !self.eat("_") {
            self.any_type()?;
            while !self.eat("_") {
                self.conformance()?;
            }
        }
        Some(())
    }

    fn function_specialization(&mut self) -> Option<()> {
        while !self.eat("_") {
            if self.eat("cp") {
                self.propagated_constant()?;
            } else if self.eat("cl") {
                self.identifier(None)?;
                while !self.eat("_") {
                    self.any_type()?;
                }
            } else if !["n_", "i_", "k_", "r_"].iter().any(|flag| self.eat(flag)) {
                let found = ["d", "g", "o", "s"].map(|flag| self.eat(flag));
                if !found.contains(&true) {
                    return None;
                }
                self.expect("_")?;
            }
        }
        Some(())
    }

    fn propagated_constant(&mut self) -> Option<()> {
        if self.eat("fr") || self.eat("g") {
            self.identifier(None)?;
        } else if self.eat("i") || self.eat("fl") {
            let length = self.rest.find('_')?;
            self.rest = &self.rest[length..];
        } else {
            self.expect("se")?;
            if !matches!(self.take()?, b'0' | b'1') {
                return None;
            }
            self.expect("v")?;
            self.identifier(None)?;
        }
        self.expect("_")
    }
}
