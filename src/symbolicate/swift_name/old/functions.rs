//! Function types, as written and as the compiler implements them.

use super::super::kind::{Convention, Isolation, Kind};
use super::super::tree::Id;
use super::Reader;

/// Whose convention a letter names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Callee,
    Parameter,
    Result,
}

impl Reader<'_> {
    pub(super) fn function_type(&mut self, convention: Convention) -> Option<Id> {
        let mut children = Vec::new();
        for (code, kind) in [
            ("z", Kind::Throws),
            ("y", Kind::Sendable),
            ("Z", Kind::Async),
        ] {
            if self.eat(code) {
                children.push(self.tree.leaf(kind)?);
            }
        }
        if self.eat("D") {
            let words = match self.take()? {
                b'f' => "@differentiable(_forward)",
                b'r' => "@differentiable(reverse)",
                b'd' => "@differentiable",
                b'l' => "@differentiable(_linear)",
                _ => return None,
            };
            children.push(self.tree.word(Kind::Differentiable, words)?);
        }
        if self.eat("Y") {
            let actor = self.any_type()?;
            children.push(
                self.tree
                    .node(Kind::Isolation(Isolation::GlobalActor), &[actor])?,
            );
        }
        let arguments = self.any_type()?;
        let result = self.any_type()?;
        children.push(self.tree.node(Kind::Arguments, &[arguments])?);
        children.push(self.tree.node(Kind::Result, &[result])?);
        self.tree.node(Kind::FunctionType(convention), &children)
    }

    pub(super) fn implementation(&mut self) -> Option<Id> {
        let callee = if self.eat("t") {
            "@convention(thin)"
        } else {
            self.convention(Of::Callee)?
        };
        let mut children = vec![self.tree.word(Kind::ImplText, callee)?];
        for (code, words) in [
            ("Cb", "@convention(block)"),
            ("Cc", "@convention(c)"),
            ("Cm", "@convention(method)"),
            ("CO", "@convention(objc_method)"),
            ("Cw", "@convention(witness_method)"),
            ("h", "@Sendable"),
            ("H", "@async"),
        ] {
            if self.eat(code) {
                children.push(self.tree.word(Kind::ImplText, words)?);
            }
        }
        if self.eat("G") || self.eat("g") {
            children.push(self.signature()?);
        }
        self.expect("_")?;
        while !self.eat("_") {
            children.push(self.slot(Kind::ImplParameter, Of::Parameter)?);
        }
        while !self.eat("_") {
            let kind = if self.eat("z") {
                Kind::ImplResult("@error ")
            } else {
                Kind::ImplResult("")
            };
            children.push(self.slot(kind, Of::Result)?);
        }
        self.tree.node(Kind::ImplFunction, &children)
    }

    fn slot(&mut self, kind: Kind, of: Of) -> Option<Id> {
        let convention = self.convention(of)?;
        let convention = self.tree.word(Kind::ImplText, convention)?;
        let inner = self.any_type()?;
        self.tree.node(kind, &[convention, inner])
    }

    fn convention(&mut self, of: Of) -> Option<&'static str> {
        Some(match (self.take()?, of) {
            (b'a', Of::Result) => "@autoreleased",
            (b'd', Of::Callee) => "@callee_unowned",
            (b'd', Of::Parameter | Of::Result) => "@unowned",
            (b'D', Of::Result) => "@unowned_inner_pointer",
            (b'g', Of::Callee) => "@callee_guaranteed",
            (b'g', Of::Parameter) => "@guaranteed",
            (b'e', Of::Parameter) => "@deallocating",
            (b'i', Of::Parameter) => "@in",
            (b'i', Of::Result) => "@out",
            (b'l', Of::Parameter) => "@inout",
            (b'o', Of::Callee) => "@callee_owned",
            (b'o', Of::Parameter | Of::Result) => "@owned",
            _ => return None,
        })
    }
}
