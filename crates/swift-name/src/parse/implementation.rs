//! Types of functions as the compiler implements them, with the convention of each argument.

use super::super::kind::Kind;
use super::super::tree::Id;
use super::Parser;
use super::functions::differentiable;

/// An argument or result, whose type is still on the stack.
struct Slot {
    kind: Kind,
    children: Vec<Id>,
}

impl Parser<'_> {
    pub(super) fn implementation_function_type(&mut self) -> Option<Id> {
        let mut children = Vec::new();
        if self.eat(b's') {
            let (lists, conformances) = self.pop_generic_arguments()?;
            let [arguments] = lists[..] else { return None };
            let signature = self.pop_signature()?;
            let parts: Vec<Id> = [signature, arguments]
                .into_iter()
                .chain(conformances)
                .collect();
            children.push(
                self.tree
                    .node(Kind::ImplSubstitution("@substituted "), &parts)?,
            );
        }
        if self.eat(b'I') {
            let (lists, conformances) = self.pop_generic_arguments()?;
            let [arguments] = lists[..] else { return None };
            let parts: Vec<Id> = [arguments].into_iter().chain(conformances).collect();
            children.push(self.tree.node(Kind::ImplSubstitution(""), &parts)?);
        }
        let signature = self.pop_signature();
        if signature.is_some() {
            self.eat(b'P');
        }
        self.attributes(&mut children)?;
        children.extend(signature);
        let slots = self.slots()?;
        self.expect(b'_')?;
        let mut nodes = Vec::new();
        for slot in slots.into_iter().rev() {
            let mut parts = slot.children;
            parts.push(self.pop_type()?);
            nodes.push(self.tree.node(slot.kind, &parts)?);
        }
        children.extend(nodes.into_iter().rev());
        self.typed(Kind::ImplFunction, &children)
    }

    fn attribute(&mut self, words: &'static str, children: &mut Vec<Id>) -> Option<()> {
        children.push(self.tree.word(Kind::ImplText, words)?);
        Some(())
    }

    fn attributes(&mut self, children: &mut Vec<Id>) -> Option<()> {
        if self.eat(b'e') {
            self.attribute("@escaping", children)?;
        }
        if self.eat(b'A') {
            self.attribute("@isolated(any)", children)?;
        }
        if let Some(words) = differentiable(self.peek()) {
            self.at += 1;
            self.attribute(words, children)?;
        }
        let callee = match self.take()? {
            b'y' => "@callee_unowned",
            b'g' => "@callee_guaranteed",
            b'x' => "@callee_owned",
            b't' => "@convention(thin)",
            _ => return None,
        };
        self.attribute(callee, children)?;
        self.convention(children)?;
        let coroutine = match self.peek() {
            b'A' => Some("@yield_once"),
            b'I' => Some("@yield_once_2"),
            b'G' => Some("@yield_many"),
            _ => None,
        };
        if let Some(words) = coroutine {
            self.at += 1;
            self.attribute(words, children)?;
        }
        if self.eat(b'h') {
            self.attribute("@Sendable", children)?;
        }
        if self.eat(b'H') {
            self.attribute("@async", children)?;
        }
        if self.eat(b'T') {
            children.push(self.tree.leaf(Kind::Sending)?);
        }
        Some(())
    }

    fn convention(&mut self, children: &mut Vec<Id>) -> Option<()> {
        let with_c_type = if self.eat_all("zB") {
            Some("block")
        } else if self.eat_all("zC") {
            Some("c")
        } else {
            None
        };
        if let Some(name) = with_c_type {
            let text = format!(
                "@convention({name}, mangledCType: \"{}\")",
                self.counted_text()?
            );
            children.push(self.tree.text(Kind::ImplText, &text)?);
            return Some(());
        }
        let words = match self.peek() {
            b'B' => "@convention(block)",
            b'C' => "@convention(c)",
            b'M' => "@convention(method)",
            b'O' => "@convention(objc_method)",
            b'K' => "@convention(closure)",
            b'W' => "@convention(witness_method)",
            _ => return Some(()),
        };
        self.at += 1;
        self.attribute(words, children)
    }

    /// The conventions of arguments, results, yields and the error.
    fn slots(&mut self) -> Option<Vec<Slot>> {
        let mut slots = Vec::new();
        while let Some(convention) = parameter_convention(self.peek()) {
            self.at += 1;
            let mut children = vec![self.tree.word(Kind::ImplText, convention)?];
            children.push(self.no_derivative()?);
            for (letter, words) in [
                (b'T', "sending "),
                (b'I', "isolated "),
                (b'L', "sil_implicit_leading_param "),
            ] {
                if self.eat(letter) {
                    children.push(self.tree.word(Kind::ImplText, words)?);
                }
            }
            slots.push(Slot {
                kind: Kind::ImplParameter,
                children,
            });
        }
        while let Some(convention) = result_convention(self.peek()) {
            self.at += 1;
            let convention = self.tree.word(Kind::ImplText, convention)?;
            let children = vec![convention, self.no_derivative()?];
            slots.push(Slot {
                kind: Kind::ImplResult(""),
                children,
            });
        }
        while self.eat(b'Y') {
            let convention = parameter_convention(self.take()?)?;
            let children = vec![self.tree.word(Kind::ImplText, convention)?];
            slots.push(Slot {
                kind: Kind::ImplResult("@yields "),
                children,
            });
        }
        if self.eat(b'z') {
            let convention = result_convention(self.take()?)?;
            let children = vec![self.tree.word(Kind::ImplText, convention)?];
            slots.push(Slot {
                kind: Kind::ImplResult("@error "),
                children,
            });
        }
        Some(slots)
    }

    fn no_derivative(&mut self) -> Option<Id> {
        let words = if self.eat(b'w') { "@noDerivative " } else { "" };
        self.tree.word(Kind::ImplText, words)
    }
}

fn parameter_convention(letter: u8) -> Option<&'static str> {
    Some(match letter {
        b'i' => "@in",
        b'c' => "@in_constant",
        b'l' => "@inout",
        b'b' => "@inout_aliasable",
        b'n' => "@in_guaranteed",
        b'X' => "@in_cxx",
        b'x' => "@owned",
        b'g' => "@guaranteed",
        b'e' => "@deallocating",
        b'y' => "@unowned",
        b'v' => "@pack_owned",
        b'p' => "@pack_guaranteed",
        b'm' => "@pack_inout",
        _ => return None,
    })
}

fn result_convention(letter: u8) -> Option<&'static str> {
    Some(match letter {
        b'r' => "@out",
        b'o' => "@owned",
        b'd' => "@unowned",
        b'u' => "@unowned_inner_pointer",
        b'a' => "@autoreleased",
        b'k' => "@pack_out",
        b'l' => "@guaranteed_address",
        b'g' => "@guaranteed",
        b'm' => "@inout",
        _ => return None,
    })
}
