//! Spans and errors of the `tracing` crate, as marks and breadcrumbs.

use std::fmt::{self, Write};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{self, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::{Context, Mark, TEXT};

/// A layer for `tracing_subscriber` (feature `tracing`): each span becomes a mark with its name, from when it is made
/// to when it is closed; each event of level `ERROR` or `WARN` becomes a breadcrumb, `ERROR target: message
/// field=value`.
///
/// Events of wedjat itself are omitted: reports already contain them. The last [`MARKS`](super::MARKS) spans and
/// [`BREADCRUMBS`](super::BREADCRUMBS) events are kept: if libraries open many spans, add a filter with
/// `Layer::with_filter`. It runs on the thread that emits the span or event, never in a signal handler. An event
/// allocates its text. A span allocates only what the registry does.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("wedjat-layer-{}", std::process::id()));
/// use tracing_subscriber::layer::SubscriberExt;
/// use wedjat::context::TracingLayer;
/// # let monitor = wedjat::Monitor::builder("MyApp", "1").directory(&dir).install()?;
/// let layer = TracingLayer::new(monitor.context());
/// tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer))?;
///
/// let _checkout = tracing::info_span!("checkout").entered();
/// tracing::error!(status = 503, "no prices");
///
/// let path = monitor.record("look")?;
/// let context = wedjat::report::read(&std::fs::read(&path)?)?.report.context.unwrap();
/// assert_eq!(context.marks[0].0, "checkout");
/// assert!(context.breadcrumbs[0].1.ends_with(": no prices status=503"));
/// # drop(monitor);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct TracingLayer {
    context: &'static Context,
}

impl TracingLayer {
    /// Creates a layer that writes to `context`, such as [`Monitor::context`](crate::Monitor::context).
    pub const fn new(context: &'static Context) -> TracingLayer {
        TracingLayer { context }
    }
}

/// The mark of a span, which the registry keeps with it and drops when the span is closed.
struct SpanMark {
    _mark: Mark<'static>,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TracingLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, registry: layer::Context<'_, S>) {
        if let Some(span) = registry.span(id) {
            let mark = self.context.mark(attributes.metadata().name());
            span.extensions_mut().replace(SpanMark { _mark: mark });
        }
    }

    fn on_event(&self, event: &Event<'_>, _: layer::Context<'_, S>) {
        let metadata = event.metadata();
        if *metadata.level() > Level::WARN || metadata.target() == "wedjat" {
            return;
        }
        let mut text = EventText::default();
        event.record(&mut text);
        let (level, target) = (metadata.level(), metadata.target());
        let line = format!("{level} {target}:{}{}", text.message, text.fields);
        self.context.breadcrumb(&line);
    }
}

/// The message and the other fields of an event, each with a space before it.
#[derive(Default)]
struct EventText {
    message: String,
    fields: String,
}

impl Visit for EventText {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.record_debug(field, &format_args!("{value}")),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // A field that does not fit is cut.
        let _ = match field.name() {
            "message" => write!(BoundedText(&mut self.message), " {value:?}"),
            name => write!(BoundedText(&mut self.fields), " {name}={value:?}"),
        };
    }
}

/// A text that grows until it holds more than a breadcrumb can.
struct BoundedText<'a>(&'a mut String);

impl Write for BoundedText<'_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.0.len() > TEXT {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}
