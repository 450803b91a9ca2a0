//! Symbols that are no functions of a developer: metadata, witness tables, descriptors, records.

use super::super::kind::{Kind, Phrase};
use super::super::tree::Id;
use super::Parser;

impl Parser<'_> {
    fn about_any(&mut self, words: Phrase) -> Option<Id> {
        let subject = self.pop()?;
        self.symbol(words, &[subject])
    }

    fn about_protocol(&mut self, words: Phrase) -> Option<Id> {
        let protocol = self.pop_protocol()?;
        self.symbol(words, &[protocol])
    }

    fn about_conformance(&mut self, words: Phrase) -> Option<Id> {
        let conformance = self.pop_conformance()?;
        self.symbol(words, &[conformance])
    }

    pub(super) fn about_entity(&mut self, words: Phrase) -> Option<Id> {
        let entity = self.pop_if(Kind::is_entity)?;
        self.symbol(words, &[entity])
    }

    pub(super) fn metadata(&mut self) -> Option<Id> {
        match self.take()? {
            b'a' => self.about_type(&["type metadata accessor for "]),
            b'A' => self.about_conformance(&["reflection metadata associated type descriptor "]),
            b'b' => self.about_type(&["canonical specialized generic type metadata accessor for "]),
            b'B' => self.about_type(&["reflection metadata builtin descriptor "]),
            b'c' => self.about_conformance(&["protocol conformance descriptor for "]),
            b'C' => {
                let class = self.pop_inner_type()?;
                if !self.tree.kind(class).is_nominal() {
                    return None;
                }
                self.symbol(&["reflection metadata superclass descriptor "], &[class])
            }
            b'D' => self.about_type(&["demangling cache variable for type metadata for "]),
            b'f' => self.about_type(&["full type metadata for "]),
            b'F' => self.about_type(&["reflection metadata field descriptor "]),
            b'g' => self.about_any(&["opaque type descriptor accessor for "]),
            b'h' => self.about_any(&["opaque type descriptor accessor impl for "]),
            b'i' => self.about_type(&["type metadata instantiation function for "]),
            b'I' => self.about_type(&["type metadata instantiation cache for "]),
            b'j' => self.about_any(&["opaque type descriptor accessor key for "]),
            b'J' => self.about_any(&[
                "cache variable for noncanonical specialized generic type metadata for ",
            ]),
            b'k' => self.about_any(&["opaque type descriptor accessor var for "]),
            b'K' => self.about_any(&["metadata instantiation cache for "]),
            b'l' => self.about_type(&["type metadata singleton initialization cache for "]),
            b'L' => self.about_type(&["lazy cache variable for type metadata for "]),
            b'm' => self.about_type(&["metaclass for "]),
            b'M' => self.about_type(&["specialized generic metaclass for "]),
            b'n' => self.about_type(&["nominal type descriptor for "]),
            b'N' => self.about_type(&["noncanonical specialized generic type metadata for "]),
            b'o' => self.about_type(&["class metadata base offset for "]),
            b'p' => self.about_protocol(&["protocol descriptor for "]),
            b'P' => self.about_type(&["generic type metadata pattern for "]),
            b'q' => self.about_any(&["uniquable "]),
            b'Q' => self.about_any(&["opaque type descriptor for "]),
            b'r' => self.about_type(&["type metadata completion function for "]),
            b's' => self.about_type(&["ObjC resilient class stub for "]),
            b'S' => self.about_protocol(&["protocol self-conformance descriptor for "]),
            b't' => self.about_type(&["full ObjC resilient class stub for "]),
            b'u' => self.about_type(&["method lookup function for "]),
            b'U' => self.about_type(&["ObjC metadata update function for "]),
            b'V' => self.about_entity(&["property descriptor for "]),
            b'X' => self.context_descriptor(),
            b'z' => self.about_type(&[
                "flag for loading of canonical specialized generic type metadata for ",
            ]),
            _ => None,
        }
    }

    fn context_descriptor(&mut self) -> Option<Id> {
        match self.take()? {
            b'E' => {
                let context = self.pop_context()?;
                self.symbol(&["extension descriptor "], &[context])
            }
            b'M' => {
                let module = self.pop_module()?;
                self.symbol(&["module descriptor "], &[module])
            }
            b'Y' => {
                self.pop()?;
                let context = self.pop_context()?;
                self.symbol(&["anonymous descriptor "], &[context])
            }
            b'X' => {
                let context = self.pop_context()?;
                self.symbol(&["anonymous descriptor "], &[context])
            }
            b'A' => {
                let path = self.pop_associated_path()?;
                let base = self.pop_type()?;
                self.symbol(
                    &["generic parameter reference for associated type "],
                    &[base, path],
                )
            }
            _ => None,
        }
    }

    pub(super) fn runtime_record(&mut self, letter: u8) -> Option<Id> {
        match letter {
            b'c' => {
                self.about_conformance(&["protocol conformance descriptor runtime record for "])
            }
            b'n' => self.about_type(&["nominal type descriptor runtime record for "]),
            b'o' => self.about_any(&["opaque type descriptor runtime record for "]),
            b'r' => self.about_protocol(&["protocol descriptor runtime record for "]),
            b'F' => self.tree.word(Kind::Attribute(""), ""),
            _ => None,
        }
    }

    pub(super) fn witness(&mut self) -> Option<Id> {
        let letter = self.take()?;
        match letter {
            b'C' => self.about_entity(&["enum case for "]),
            b'V' => self.about_type(&["value witness table for "]),
            b'v' => {
                let words: Phrase = match self.take()? {
                    b'd' => &["direct field offset for "],
                    b'i' => &["indirect field offset for "],
                    _ => return None,
                };
                self.about_entity(words)
            }
            b'S' => self.about_protocol(&["protocol self-conformance witness table for "]),
            b'P' => self.about_conformance(&["protocol witness table for "]),
            b'p' => self.about_conformance(&["protocol witness table pattern for "]),
            b'G' => self.about_conformance(&["generic protocol witness table for "]),
            b'I' => self.about_conformance(&[
                "instantiation function for generic protocol witness table for ",
            ]),
            b'r' => self.about_conformance(&["resilient protocol witness table for "]),
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
                let name = self.pop_if(Kind::is_name)?;
                let conformance = self.pop_conformance()?;
                self.symbol(
                    &["associated type metadata accessor for ", " in "],
                    &[name, conformance],
                )
            }
            b'T' => {
                let protocol = self.pop_type()?;
                let path = self.pop_associated_path()?;
                let conformance = self.pop_conformance()?;
                let words: Phrase = &["associated type witness table accessor for ", " : ", " in "];
                self.symbol(words, &[path, protocol, conformance])
            }
            b'b' => {
                let protocol = self.pop_type()?;
                let conformance = self.pop_conformance()?;
                self.symbol(
                    &["base witness table accessor for ", " in "],
                    &[protocol, conformance],
                )
            }
            b'O' => self.outlined(),
            b'Z' => self.once(&["one-time initialization function for "]),
            b'z' => self.once(&["one-time initialization token for "]),
            b'J' => self.differentiability_witness(),
            _ => None,
        }
    }

    fn lazy_table(&mut self, words: Phrase) -> Option<Id> {
        let conformance = self.pop_conformance()?;
        let subject = self.pop_type()?;
        self.symbol(words, &[subject, conformance])
    }

    /// A copy, a release or the like of a value that the compiler shares between functions.
    fn outlined(&mut self) -> Option<Id> {
        let letter = self.take()?;
        let words: Phrase = match letter {
            b'y' => &["outlined copy of "],
            b'e' => &["outlined consume of "],
            b'r' => &["outlined retain of "],
            b's' => &["outlined release of "],
            b'b' | b'B' => &["outlined init with take of "],
            b'c' | b'C' => &["outlined init with copy of "],
            b'd' | b'D' => &["outlined assign with take of "],
            b'f' | b'F' => &["outlined assign with copy of "],
            b'h' | b'H' => &["outlined destroy of "],
            b'g' => &["outlined enum get tag of "],
            b'i' => &["outlined enum tag store of "],
            b'j' => &["outlined enum project data for load of "],
            _ => return None,
        };
        if matches!(letter, b'i' | b'j') {
            self.index()?;
        }
        let signature = self.pop_signature();
        let subject = self.pop_type()?;
        match signature.filter(|_| matches!(letter, b'y' | b'e')) {
            Some(signature) => self.symbol(words, &[subject, signature]),
            None => self.symbol(words, &[subject]),
        }
    }

    /// The one-time initialization of global variables.
    fn once(&mut self, words: Phrase) -> Option<Id> {
        let mut variables = Vec::new();
        while self.pop_kind(Kind::FirstElement).is_some() {
            variables.push(self.pop_if(Kind::is_name)?);
        }
        variables.reverse();
        self.pop_context()?;
        let kind = if variables.len() == 1 {
            Kind::TypeList
        } else {
            Kind::Joined("(", ", ", ")")
        };
        let list = self.tree.node(kind, &variables)?;
        self.symbol(words, &[list])
    }

    pub(super) fn value_witness(&mut self) -> Option<Id> {
        let code = [self.take()?, self.take()?];
        let words: Phrase = value_witness(code)?;
        self.about_type(words)
    }
}

/// The words for a value witness of a code.
fn value_witness(code: [u8; 2]) -> Option<Phrase> {
    Some(match &code {
        b"al" => &["allocateBuffer for "],
        b"ca" => &["assignWithCopy for "],
        b"ta" => &["assignWithTake for "],
        b"de" => &["deallocateBuffer for "],
        b"xx" => &["destroy for "],
        b"XX" => &["destroyBuffer for "],
        b"Xx" => &["destroyArray for "],
        b"CP" => &["initializeBufferWithCopyOfBuffer for "],
        b"Cp" => &["initializeBufferWithCopy for "],
        b"cp" => &["initializeWithCopy for "],
        b"Tk" => &["initializeBufferWithTake for "],
        b"tk" => &["initializeWithTake for "],
        b"pr" => &["projectBuffer for "],
        b"TK" => &["initializeBufferWithTakeOfBuffer for "],
        b"Cc" => &["initializeArrayWithCopy for "],
        b"Tt" => &["initializeArrayWithTakeFrontToBack for "],
        b"tT" => &["initializeArrayWithTakeBackToFront for "],
        b"xs" => &["storeExtraInhabitant for "],
        b"xg" => &["getExtraInhabitantIndex for "],
        b"ug" => &["getEnumTag for "],
        b"up" => &["destructiveProjectEnumData for "],
        b"ui" => &["destructiveInjectEnumTag for "],
        b"et" => &["getEnumTagSinglePayload for "],
        b"st" => &["storeEnumTagSinglePayload for "],
        _ => return None,
    })
}
