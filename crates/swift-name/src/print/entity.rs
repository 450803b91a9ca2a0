//! Declarations, with what they are within before or after their names.

use super::super::kind::{Convention, Kind, Nominal};
use super::super::tree::Id;
use super::Printer;

/// The part of a declaration's type that is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Types {
    /// None, and the declaration can stand before a `.`.
    No,
    /// None.
    Variable,
    /// Argument labels.
    Function,
}

/// The form in which a declaration is printed.
struct Style {
    types: Types,
    has_name: bool,
    /// In place of the name.
    word: &'static str,
    /// After the name and a `.`; in place of it, if there is none; before it, if it has spaces.
    extra: String,
}

impl Style {
    fn named(types: Types) -> Option<Self> {
        Some(Self {
            types,
            has_name: true,
            word: "",
            extra: String::new(),
        })
    }

    fn extra(types: Types, extra: impl Into<String>) -> Option<Self> {
        Some(Self {
            types,
            has_name: false,
            word: "",
            extra: extra.into(),
        })
    }
}

impl Printer<'_> {
    /// Prints a node if it is a declaration, and returns the context that must come after it; else `Some(None)`.
    pub(super) fn print_entity_kind(
        &mut self,
        id: Id,
        is_prefix: bool,
    ) -> Option<Option<Option<Id>>> {
        let kind = self.tree.kind(id);
        match kind {
            Kind::Static => {
                self.put("static ")?;
                self.print_child(id, 0)?;
                return Some(Some(None));
            }
            Kind::Extension => {
                self.print_child(id, 1)?;
                if let Some(signature) = self.child(id, 2) {
                    self.print(signature)?;
                }
                return Some(Some(None));
            }
            Kind::Accessor(words) => {
                let storage = self.child(id, 0)?;
                let (has_name, word) = match self.tree.kind(storage) {
                    Kind::Variable => (true, ""),
                    Kind::Subscript => (false, "subscript"),
                    _ => return None,
                };
                let style = Style {
                    types: Types::Variable,
                    has_name,
                    word,
                    extra: words.to_owned(),
                };
                return self.print_entity(storage, is_prefix, style).map(Some);
            }
            _ => (),
        }
        match self.style(id, kind) {
            Some(style) => self.print_entity(id, is_prefix, style).map(Some),
            None => Some(None),
        }
    }

    fn style(&self, id: Id, kind: Kind) -> Option<Style> {
        let number = |index| Some(self.tree.number_of(self.child(id, index)?)? + 1);
        let is_class = || Some(self.tree.kind(self.child(id, 0)?) == Kind::Nominal(Nominal::Class));
        match kind {
            Kind::Variable => Style::named(Types::Variable),
            Kind::Function | Kind::BoundGenericFunction => Style::named(Types::Function),
            Kind::Subscript => Some(Style {
                types: Types::Function,
                has_name: false,
                word: "subscript",
                extra: String::new(),
            }),
            Kind::Macro if self.tree.children(id).len() == 3 => Style::named(Types::Variable),
            Kind::Macro => Style::named(Types::Function),
            Kind::AttachedMacro(role) => {
                let name = super::text(self.tree, self.child(id, 2)?)?;
                let extra = format!("{role} macro @{name} expansion #{}", number(3)?);
                Some(Style {
                    types: Types::No,
                    has_name: true,
                    word: "",
                    extra,
                })
            }
            Kind::FreestandingMacro => {
                let extra = format!("freestanding macro expansion #{}", number(2)?);
                Some(Style {
                    types: Types::No,
                    has_name: true,
                    word: "",
                    extra,
                })
            }
            Kind::MacroUniqueName => {
                let extra = format!("unique name #{}", number(2)?);
                Some(Style {
                    types: Types::No,
                    has_name: true,
                    word: "",
                    extra,
                })
            }
            Kind::Nominal(_) | Kind::GenericParameterDeclaration => Style::named(Types::No),
            Kind::ExplicitClosure => Style::extra(Types::No, format!("closure #{}", number(1)?)),
            Kind::ImplicitClosure => {
                Style::extra(Types::No, format!("implicit closure #{}", number(1)?))
            }
            Kind::Initializer(words) => Style::extra(Types::No, words),
            Kind::DefaultArgument => {
                Style::extra(Types::No, format!("default argument {}", number(1)? - 1))
            }
            Kind::Allocator if is_class()? => Style::extra(Types::Function, "__allocating_init"),
            Kind::Allocator => Style::extra(Types::Function, "init"),
            Kind::Constructor => {
                let mut style = Style::extra(Types::Function, "init")?;
                style.has_name = self.tree.children(id).len() > 2;
                Some(style)
            }
            Kind::Destructor => Style::extra(Types::No, "deinit"),
            Kind::Deallocator if is_class()? => Style::extra(Types::No, "__deallocating_deinit"),
            Kind::IsolatedDeallocator if is_class()? => {
                Style::extra(Types::No, "__isolated_deallocating_deinit")
            }
            Kind::Deallocator | Kind::IsolatedDeallocator => Style::extra(Types::No, "deinit"),
            Kind::ClassVariables(words) => Style::extra(Types::No, words),
            _ => None,
        }
    }

    fn print_entity(&mut self, id: Id, is_prefix: bool, style: Style) -> Option<Option<Id>> {
        let mut entity = id;
        let mut arguments = None;
        if self.tree.kind(id) == Kind::BoundGenericFunction {
            entity = self.child(id, 0)?;
            arguments = Some(self.child(id, 1)?);
        }
        let is_local = style.has_name && self.tree.kind(self.child(entity, 1)?) == Kind::LocalName;
        let is_phrase = is_local || style.extra.contains(' ');
        if is_prefix && (style.types != Types::No || is_phrase) {
            return Some(Some(entity));
        }
        let context = self.child(entity, 0)?;
        let mut after = None;
        if is_phrase {
            after = Some(context);
        } else {
            let start = self.out.len();
            after = self.print_as(context, true)?.or(after);
            if self.out.len() != start {
                self.put(".")?;
            }
        }
        self.print_name(entity, &style, is_phrase)?;
        self.print_labels(entity, &style, arguments, is_phrase)?;
        match after {
            Some(context) if !is_prefix => {
                self.put(join(self.tree.kind(entity)))?;
                self.print(context)?;
                Some(None)
            }
            after => Some(after),
        }
    }

    fn print_name(&mut self, entity: Id, style: &Style, is_phrase: bool) -> Option<()> {
        let mut extra = style.extra.as_str();
        if style.has_name || !style.word.is_empty() {
            if !extra.is_empty() && is_phrase {
                self.put(extra)?;
                self.put(" of ")?;
                extra = "";
            }
            let start = self.out.len();
            if style.word.is_empty() {
                let name = self.child(entity, 1)?;
                if self.tree.kind(name) != Kind::PrivateName {
                    self.print(name)?;
                }
                if let Some(name) = self.tree.child_of(entity, Kind::PrivateName) {
                    self.print(name)?;
                }
            } else {
                self.put(style.word)?;
                self.print_subscript_labels(entity, style)?;
            }
            if self.out.len() != start && !extra.is_empty() {
                self.put(".")?;
            }
        }
        self.put(extra)
    }

    /// The labels of a subscript before the name of its accessor, where it has any: `subscript(row:).getter`.
    fn print_subscript_labels(&mut self, entity: Id, style: &Style) -> Option<()> {
        let tree = self.tree;
        let is_label = |label: &Id| tree.kind(*label) == Kind::Identifier;
        let labels = tree.child_of(entity, Kind::LabelList);
        let labels = labels.filter(|labels| tree.children(*labels).iter().any(is_label));
        if style.types != Types::Variable || labels.is_none() {
            return Some(());
        }
        let mut function = self.child(tree.child_of(entity, Kind::Type)?, 0)?;
        if tree.kind(function) == Kind::DependentGeneric {
            function = self.child(self.child(function, 1)?, 0)?;
        }
        match tree.child_of(function, Kind::Arguments) {
            Some(arguments) => self.print_arguments(labels, arguments),
            None => Some(()),
        }
    }

    fn print_labels(
        &mut self,
        entity: Id,
        style: &Style,
        arguments: Option<Id>,
        is_phrase: bool,
    ) -> Option<()> {
        if style.types == Types::No {
            return Some(());
        }
        let outer = self.tree.child_of(entity, Kind::Type)?;
        let function = self.child(outer, 0)?;
        if style.types == Types::Variable || !self.is_function(function) {
            return Some(());
        }
        if is_phrase || self.needs_space(function) {
            self.put(" ")?;
        }
        let labels = self.tree.child_of(entity, Kind::LabelList);
        if labels.is_none() && arguments.is_none() {
            return self.print(function);
        }
        if let Some(arguments) = arguments {
            self.put("<")?;
            self.print_children(arguments, ", ")?;
            self.put(">")?;
        }
        let mut function = function;
        if self.tree.kind(function) == Kind::DependentGeneric {
            if arguments.is_none() {
                self.print_child(function, 0)?;
            }
            let inner = self.child(function, 1)?;
            if self.needs_space(inner) {
                self.put(" ")?;
            }
            function = self.child(inner, 0)?;
        }
        self.print_function_type(labels, function)
    }

    /// Returns true for a function's type, generic or not.
    fn is_function(&self, id: Id) -> bool {
        let mut id = id;
        while self.tree.kind(id) == Kind::DependentGeneric {
            match self.child(id, 1).and_then(|inner| self.child(inner, 0)) {
                Some(inner) => id = inner,
                None => return false,
            }
        }
        use Convention::{C, NoEscape, Plain, Thin, Uncurried};
        matches!(
            self.tree.kind(id),
            Kind::FunctionType(Plain | NoEscape | Uncurried | C | Thin)
        )
    }
}

/// Joins a name with what it is within.
fn join(kind: Kind) -> &'static str {
    match kind {
        Kind::DefaultArgument | Kind::Initializer(_) => " of ",
        _ => " in ",
    }
}
