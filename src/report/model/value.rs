//! Values of free form.

/// The value of a key that has no field of its own: any MessagePack value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `nil`
    Nil,
    /// `true` or `false`
    Bool(bool),
    /// An integer that is not negative.
    Unsigned(u64),
    /// A negative integer.
    Signed(i64),
    /// A float of either width.
    Float(f64),
    /// A string.
    Text(String),
    /// Raw bytes.
    Bytes(Vec<u8>),
    /// An array.
    Array(Vec<Value>),
    /// A map, in the order of the file.
    Map(Vec<(Value, Value)>),
    /// An extension value: its type and its bytes.
    Extension(i8, Vec<u8>),
}

/// Keys that this version of the format does not know, in the order of the file.
pub type Extra = Vec<(String, Value)>;
