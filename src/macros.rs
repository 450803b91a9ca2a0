//! Macros of all rooms: settings with their defaults and setters, and enums with the words that a report has for them.

/// Defines settings: a struct, its defaults, and for each field a setter of its name.
///
/// A setter takes the field's type and stores what it is given, unless another argument and what is stored of it stand
/// behind the default.
macro_rules! settings {
    ($(#[$attribute:meta])* pub struct $name:ident {
        $($(#[$doc:meta])* $vis:vis $field:ident: $type:ty = $default:expr $(, $given:ident: $of:ty => $stored:expr)?;)*
    }) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$doc])* $vis $field: $type,)*
        }

        impl Default for $name {
            fn default() -> $name {
                $name { $($field: $default,)* }
            }
        }

        impl $name {
            $(settings!(@setter $name $(#[$doc])* $field: $type $(, $given: $of => $stored)?);)*
        }
    };
    (@setter $name:ident $(#[$doc:meta])* $field:ident: $type:ty) => {
        settings!(@setter $name $(#[$doc])* $field: $type, $field: $type => $field);
    };
    (@setter $name:ident $(#[$doc:meta])* $field:ident: $type:ty, $given:ident: $of:ty => $stored:expr) => {
        $(#[$doc])*
        #[must_use]
        pub fn $field(mut self, $given: $of) -> $name {
            self.$field = $stored;
            self
        }
    };
}

/// A value of a struct that later versions may add fields to: its default, or another one, with these fields.
#[cfg(feature = "__internals")]
#[doc(hidden)]
#[macro_export]
macro_rules! new {
    ($type:ty { $($field:ident $(: $value:expr)?),* $(,)? }) => {
        $crate::new!($type { $($field $(: $value)?,)* ..<$type>::default() })
    };
    ($type:ty { $($field:ident $(: $value:expr)?),*, ..$base:expr }) => {{
        let mut value: $type = $base;
        $($crate::new!(@set value, $field $(, $value)?);)*
        value
    }};
    (@set $to:ident, $field:ident, $value:expr) => { $to.$field = $value };
    (@set $to:ident, $field:ident) => { $to.$field = $field };
}

/// Defines an enum of which each variant has a word: in a report, or in what is made of one. serde reads and writes the words.
/// The numbers of the variants are no part of the API.
macro_rules! words {
    ($(#[$attribute:meta])* pub enum $name:ident {
        $($(#[$doc:meta])* $variant:ident = $word:literal,)*
    }) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// All of them, in their order.
            #[allow(dead_code, reason = "of some enums all are needed")]
            pub(crate) const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The word for it, as it stands in reports and in what is made of them.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }
        }
    };
}
