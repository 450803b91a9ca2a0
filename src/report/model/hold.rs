//! Owned and borrowed texts and lists of a section: a reader owns them, a writer borrows them.

use std::borrow::Borrow;
use std::time::Duration;

use serde::Serialize;

use super::{Extra, Found, Frame, RawFrame, Value};

/// The types of a section's contents. A section is one struct for both sides of the format. What was read is
/// [`Owned`]. What a signal handler writes is [`Borrowed`]: it neither allocates nor frees.
pub trait Hold {
    /// A text.
    type Text: AsRef<str> + Serialize;
    /// Raw bytes.
    type Bytes: AsRef<[u8]>;
    /// Numbers by name.
    type Numbers: Pairs<Value = u64>;
    /// A stack.
    type Frames: Frames;
    /// Any value.
    type Value: Serialize;
    /// Any values by name.
    type Values: Pairs;
    /// Floats by name.
    type Floats: Pairs;
    /// Time and text of breadcrumbs.
    type Breadcrumbs: Breadcrumbs;
    /// Name, start and duration of marks.
    type Marks: Marks;
    /// Keys that this version does not know.
    type Extra: Pairs;
}

/// Texts and lists that were read and are owned: nothing is borrowed from the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Owned;

impl Hold for Owned {
    type Text = String;
    type Bytes = Vec<u8>;
    type Numbers = Vec<(String, u64)>;
    type Frames = Vec<Frame>;
    type Value = Value;
    type Values = Vec<(String, Value)>;
    type Floats = Vec<(String, f64)>;
    type Breadcrumbs = Vec<(Duration, String)>;
    type Marks = Vec<(String, Duration, Option<Duration>)>;
    type Extra = Extra;
}

/// The one way of holding that can be read into.
pub trait Owning:
    Default
    + Hold<
        Text = String,
        Bytes = Vec<u8>,
        Numbers = Vec<(String, u64)>,
        Frames = Vec<Frame>,
        Value = Value,
        Values = Vec<(String, Value)>,
        Floats = Vec<(String, f64)>,
        Breadcrumbs = Vec<(Duration, String)>,
        Marks = Vec<(String, Duration, Option<Duration>)>,
        Extra = Extra,
    >
{
}

impl Owning for Owned {}

/// Texts and lists that are written from the caller's memory: nothing is allocated or freed. `N` is a list of numbers
/// by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Borrowed<'a, N = &'a [(&'a str, u64)]>(std::marker::PhantomData<(&'a (), N)>);

impl<'a, N: Pairs<Value = u64>> Hold for Borrowed<'a, N> {
    type Text = &'a str;
    type Bytes = &'a [u8];
    type Numbers = N;
    type Frames = &'a [RawFrame];
    type Value = &'a str;
    type Values = Nothing;
    type Floats = Nothing;
    type Breadcrumbs = Nothing;
    type Marks = Nothing;
    type Extra = Nothing;
}

/// A context that is written from iterators, over whatever the app's state lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Iterators<K, B, G, M>(std::marker::PhantomData<(K, B, G, M)>);

impl<K: Pairs, B: Breadcrumbs, G: Pairs, M: Marks> Hold for Iterators<K, B, G, M> {
    type Text = &'static str;
    type Bytes = &'static [u8];
    type Numbers = Nothing;
    type Frames = Nothing;
    type Value = &'static str;
    type Values = K;
    type Floats = G;
    type Breadcrumbs = B;
    type Marks = M;
    type Extra = Nothing;
}

/// No entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Nothing;

/// A list of the items of an iterator, which is cloned each time they are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Each<I>(pub I);

/// A map of texts to values of one type, in its order.
pub trait Pairs {
    /// The type of the values.
    type Value: Serialize;
    /// Its entries.
    fn pairs(&self) -> impl Iterator<Item = (impl AsRef<str>, impl Borrow<Self::Value>)>;
}

/// The app's breadcrumbs, oldest first.
pub trait Breadcrumbs {
    /// Time (monotonic clock) and text.
    fn breadcrumbs(&self) -> impl Iterator<Item = (Duration, impl AsRef<str> + Serialize)>;
}

/// The app's timed marks.
pub trait Marks {
    /// Name, start (monotonic clock), and duration (`None` while it lasts).
    fn marks(
        &self,
    ) -> impl Iterator<Item = (impl AsRef<str> + Serialize, Duration, Option<Duration>)>;
}

/// A stack, innermost frame first: a capture's or a model's.
pub trait Frames {
    /// Count of the frames.
    fn len(&self) -> usize;
    /// Returns true if there are no frames.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The program counter of one, how it was found, its image, and its name.
    fn at(&self, index: usize) -> Option<(u64, Found, Option<u32>, Option<&str>)>;
}

impl<V: Serialize> Pairs for Vec<(String, V)> {
    type Value = V;

    fn pairs(&self) -> impl Iterator<Item = (impl AsRef<str>, impl Borrow<V>)> {
        self.iter().map(|(key, value)| (key, value))
    }
}

impl<V: Serialize> Pairs for &[(&str, V)] {
    type Value = V;

    fn pairs(&self) -> impl Iterator<Item = (impl AsRef<str>, impl Borrow<V>)> {
        self.iter().map(|(key, value)| (key, value))
    }
}

impl<K: AsRef<str>, V: Serialize, I: Iterator<Item = (K, V)> + Clone> Pairs for Each<I> {
    type Value = V;

    fn pairs(&self) -> impl Iterator<Item = (impl AsRef<str>, impl Borrow<V>)> {
        self.0.clone()
    }
}

impl Pairs for Nothing {
    type Value = u64;

    fn pairs(&self) -> impl Iterator<Item = (impl AsRef<str>, impl Borrow<u64>)> {
        std::iter::empty::<(&str, u64)>()
    }
}

impl Breadcrumbs for Vec<(Duration, String)> {
    fn breadcrumbs(&self) -> impl Iterator<Item = (Duration, impl AsRef<str> + Serialize)> {
        self.iter().map(|(time, text)| (*time, text))
    }
}

impl<T, I> Breadcrumbs for Each<I>
where
    T: AsRef<str> + Serialize,
    I: Iterator<Item = (Duration, T)> + Clone,
{
    fn breadcrumbs(&self) -> impl Iterator<Item = (Duration, impl AsRef<str> + Serialize)> {
        self.0.clone()
    }
}

impl Breadcrumbs for Nothing {
    fn breadcrumbs(&self) -> impl Iterator<Item = (Duration, impl AsRef<str> + Serialize)> {
        std::iter::empty::<(Duration, &str)>()
    }
}

impl Marks for Vec<(String, Duration, Option<Duration>)> {
    fn marks(
        &self,
    ) -> impl Iterator<Item = (impl AsRef<str> + Serialize, Duration, Option<Duration>)> {
        self.iter()
            .map(|(name, start, lasted)| (name, *start, *lasted))
    }
}

impl<T, I> Marks for Each<I>
where
    T: AsRef<str> + Serialize,
    I: Iterator<Item = (T, Duration, Option<Duration>)> + Clone,
{
    fn marks(
        &self,
    ) -> impl Iterator<Item = (impl AsRef<str> + Serialize, Duration, Option<Duration>)> {
        self.0.clone()
    }
}

impl Marks for Nothing {
    fn marks(
        &self,
    ) -> impl Iterator<Item = (impl AsRef<str> + Serialize, Duration, Option<Duration>)> {
        std::iter::empty::<(&str, Duration, Option<Duration>)>()
    }
}

impl Frames for Vec<Frame> {
    fn len(&self) -> usize {
        self.as_slice().len()
    }

    fn at(&self, index: usize) -> Option<(u64, Found, Option<u32>, Option<&str>)> {
        let frame = self.get(index)?;
        Some((frame.pc, frame.found, frame.image, frame.name.as_deref()))
    }
}

impl Frames for &[RawFrame] {
    fn len(&self) -> usize {
        (**self).len()
    }

    fn at(&self, index: usize) -> Option<(u64, Found, Option<u32>, Option<&str>)> {
        let frame = self.get(index)?;
        let image = (frame.image != RawFrame::NO_IMAGE).then_some(frame.image);
        Some((frame.pc, frame.found, image, None))
    }
}

impl Frames for Nothing {
    fn len(&self) -> usize {
        0
    }

    fn at(&self, _: usize) -> Option<(u64, Found, Option<u32>, Option<&str>)> {
        None
    }
}
