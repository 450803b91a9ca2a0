//! `context`: what the app said of its own state.

use crate::report::encode::MapEncoder;

/// What `context` says, as iterators: over whatever the app's state lies in.
///
/// ```
/// use wedjat::report::{ContextView, ReportWriter, ValueView};
/// let mut buffer = [0; 1024];
/// let mut file: Vec<u8> = Vec::new();
/// ReportWriter::new(&mut buffer, &mut file).context(ContextView {
///     keys: [("screen", ValueView::Text("Checkout"))].into_iter(),
///     breadcrumbs: [(1_000, "tapped Buy")].into_iter(),
///     gauges: [("queue", 3.0)].into_iter(),
///     marks: [("load", 500, Some(400))].into_iter(),
/// })?;
/// # Ok::<(), wedjat::report::SinkError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ContextView<K, B, G, M> {
    /// Keys and values set by the app.
    pub keys: K,
    /// Breadcrumbs, oldest first: time (monotonic, nanoseconds) and text.
    pub breadcrumbs: B,
    /// Gauges by name.
    pub gauges: G,
    /// Timed marks: name, start (monotonic, nanoseconds), duration.
    pub marks: M,
}

/// A borrowed value of a context key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ValueView<'a> {
    /// `nil`
    Nil,
    /// `true` or `false`
    Bool(bool),
    /// An integer that is not negative.
    Unsigned(u64),
    /// An integer.
    Signed(i64),
    /// A float.
    Float(f64),
    /// A string.
    Text(&'a str),
    /// Raw bytes.
    Bytes(&'a [u8]),
}

pub(crate) const CONTEXT_KIND: &str = "context";

impl<'a, K, B, G, M> ContextView<K, B, G, M>
where
    K: Iterator<Item = (&'a str, ValueView<'a>)>,
    B: Iterator<Item = (u64, &'a str)> + Clone,
    G: Iterator<Item = (&'a str, f64)>,
    M: Iterator<Item = (&'a str, u64, Option<u64>)>,
{
    pub(crate) fn encode(self, m: &mut MapEncoder<'_, '_>) {
        let mut keys = self.keys.peekable();
        if keys.peek().is_some() {
            m.map("keys", |m| {
                keys.for_each(|(key, value)| match value {
                    ValueView::Text(text) => m.text(key, text),
                    value => {
                        m.entry(key, |e| match value {
                            ValueView::Nil => e.nil(),
                            ValueView::Bool(value) => e.bool(value),
                            ValueView::Unsigned(value) => e.unsigned(value),
                            ValueView::Signed(value) => e.signed(value),
                            ValueView::Float(value) => e.float(value),
                            ValueView::Text(value) => e.text(value),
                            ValueView::Bytes(value) => e.bin(value),
                        });
                    }
                });
            });
        }
        let mut gauges = self.gauges.peekable();
        if gauges.peek().is_some() {
            m.map("gauges", |m| {
                gauges.for_each(|(name, value)| m.float(name, value))
            });
        }
        let mut marks = self.marks.peekable();
        if marks.peek().is_some() {
            m.array("marks", |a| {
                marks.for_each(|(name, start, duration)| {
                    a.item(|e| {
                        e.put(&[0x93]);
                        e.text(name);
                        e.unsigned(start);
                        match duration {
                            Some(duration) => e.unsigned(duration),
                            None => e.nil(),
                        }
                    });
                });
            });
        }
        let size = |text: &str| text.len().saturating_add(1 + 9 + 5);
        let bytes = self
            .breadcrumbs
            .clone()
            .fold(0, |sum: usize, (_, text)| sum.saturating_add(size(text)));
        if bytes == 0 {
            return;
        }
        // The newest are worth most: leave out from the oldest on until the rest fits.
        let mut excess = bytes.saturating_sub(m.room().saturating_sub(24));
        m.array("breadcrumbs", |a| {
            let mut left_out = 0;
            self.breadcrumbs.for_each(|(time, text)| {
                if excess > 0 {
                    excess = excess.saturating_sub(size(text));
                    left_out += 1u64;
                    return;
                }
                a.item(|e| {
                    e.put(&[0x92]);
                    e.unsigned(time);
                    e.text(text);
                });
            });
            a.drop_count(left_out);
        });
    }
}
