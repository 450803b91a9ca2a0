//! From a section's map to the model: takes what it knows, keeps what it does not, tells what is wrong.

use std::borrow::Cow;

use super::damage::{Damage, DamageKind, shown};
use super::limits;
use super::model::*;
use super::schema::{self, Field};
use super::token::{Skim, Token, token};

/// Damages found so far, as many as are told one by one.
#[derive(Debug, Default)]
pub(crate) struct Damages {
    list: Vec<Damage>,
    more: u64,
    /// What is added to each offset: where the bytes stand in their stream.
    pub(crate) base: u64,
}

impl Damages {
    pub(crate) fn new(base: u64) -> Damages {
        Damages {
            base,
            ..Damages::default()
        }
    }

    pub(crate) fn add(
        &mut self,
        offset: usize,
        kind: DamageKind,
        message: impl FnOnce() -> String,
    ) {
        if self.list.len() >= limits::DAMAGES {
            self.more = self.more.saturating_add(1);
            return;
        }
        let offset = self.base.saturating_add(offset as u64);
        self.list.push(Damage {
            offset,
            kind,
            message: message(),
        });
    }

    pub(crate) fn into_list(mut self) -> Vec<Damage> {
        self.list.sort_by_key(|damage| damage.offset);
        if self.more > 0 {
            let offset = self.list.last().map_or(0, |last| last.offset);
            let message = format!("{} more damages behind it are not listed", self.more);
            self.list.push(Damage {
                offset,
                kind: DamageKind::More,
                message,
            });
        }
        self.list
    }
}

/// Reads the values of one section, which is known to be well-formed and shallow.
pub(crate) struct Decoder<'a, 'd> {
    pub(crate) bytes: &'a [u8],
    pub(crate) at: usize,
    pub(crate) damages: &'d mut Damages,
}

impl<'a> Decoder<'a, '_> {
    pub(crate) fn head(&mut self) -> (Head, Option<String>) {
        let mut head = Head::default();
        let mut format = None;
        let mut extra = Extra::new();
        self.map("head", schema::HEAD, &mut extra, |d, key| match key {
            "format" => format = d.text(key),
            "version" => d.set(key, &mut head.version, Self::unsigned),
            "id" => d.set(key, &mut head.id, Self::id),
            "launch" => d.set(key, &mut head.launch, Self::id),
            "time" => d.set(key, &mut head.time, Self::unsigned),
            "clock" => d.set(key, &mut head.clock, Self::unsigned),
            "app" => {
                let App {
                    name,
                    version,
                    extra,
                } = &mut head.app;
                d.map("head.app", schema::HEAD_APP, extra, |d, key| match key {
                    "name" => d.set(key, name, Self::text),
                    _ => d.set(key, version, Self::text),
                });
            }
            "os" => {
                let Os {
                    name,
                    version,
                    build,
                    extra,
                } = &mut head.os;
                d.map("head.os", schema::HEAD_OS, extra, |d, key| match key {
                    "name" => d.set(key, name, Self::text),
                    "version" => d.set(key, version, Self::text),
                    _ => *build = d.text(key),
                });
            }
            "device" => head.device = d.text(key),
            "arch" => d.set(key, &mut head.arch, Self::text),
            _ => d.set(key, &mut head.pid, Self::unsigned),
        });
        head.extra = extra;
        (head, format)
    }

    pub(crate) fn event(&mut self) -> Event {
        let mut event = Event {
            kind: EventKind::Other,
            ..Event::default()
        };
        let mut extra = Extra::new();
        let mut word = None;
        self.map("event", schema::EVENT, &mut extra, |d, key| match key {
            "type" => word = d.text(key),
            "fatal" => d.set(key, &mut event.fatal, Self::bool),
            "reason" => event.reason = d.text(key),
            "signal" => event.signal = Some(d.signal()),
            "name" => event.name = d.text(key),
            "message" => event.message = d.text(key),
            "location" => event.location = d.text(key),
            "class" => event.class = d.text(key),
            _ => {
                let Thresholds {
                    timeout,
                    strikes,
                    extra,
                } = event.thresholds.insert(Thresholds::default());
                d.map(
                    "event.thresholds",
                    schema::EVENT_THRESHOLDS,
                    extra,
                    |d, key| match key {
                        "timeout" => d.set(key, timeout, Self::unsigned),
                        _ => d.set(key, strikes, Self::unsigned),
                    },
                );
            }
        });
        if let Some(word) = word {
            event.kind = EventKind::from_word(&word);
            if event.kind == EventKind::Other {
                extra.insert(0, ("type".to_owned(), Value::Text(word)));
            }
        }
        event.extra = extra;
        event
    }

    fn signal(&mut self) -> Signal {
        let mut signal = Signal::default();
        let mut extra = Extra::new();
        self.map(
            "event.signal",
            schema::EVENT_SIGNAL,
            &mut extra,
            |d, key| match key {
                "number" => d.set(key, &mut signal.number, Self::unsigned),
                "name" => d.set(key, &mut signal.name, Self::text),
                "code" => d.set(key, &mut signal.code, Self::integer),
                "code_name" => signal.code_name = d.text(key),
                _ => signal.address = d.unsigned(key),
            },
        );
        signal.extra = extra;
        signal
    }

    pub(crate) fn thread(&mut self) -> Thread {
        let mut thread = Thread::default();
        let mut extra = Extra::new();
        let mut word = None;
        self.map("thread", schema::THREAD, &mut extra, |d, key| match key {
            "id" => d.set(key, &mut thread.id, Self::unsigned),
            "name" => thread.name = d.text(key),
            "main" => d.set(key, &mut thread.main, Self::bool),
            "crashed" => d.set(key, &mut thread.crashed, Self::bool),
            "state" => thread.state = d.text(key),
            "syscall" => thread.syscall = d.text(key),
            "cpu" => thread.cpu = d.unsigned(key),
            "registers" => thread.registers = d.pairs(key, Self::unsigned),
            "frames" => d.frames(&mut thread.frames, &mut thread.omitted),
            "end" => word = d.text(key),
            _ => {
                if let Some(gap) = d.omitted(key) {
                    widen_gap(&mut thread.frames, &mut thread.omitted, gap);
                }
            }
        });
        if let Some(word) = word {
            let end = WalkEnd::from_word(&word);
            thread.end = Some(end);
            if end == WalkEnd::Other {
                extra.insert(0, ("end".to_owned(), Value::Text(word)));
            }
        }
        thread.extra = extra;
        thread
    }

    pub(crate) fn image(&mut self) -> Image {
        let mut image = Image::default();
        let mut extra = Extra::new();
        self.map("image", schema::IMAGE, &mut extra, |d, key| match key {
            "name" => d.set(key, &mut image.name, Self::text),
            "id" => d.set(key, &mut image.id, Self::bin),
            "base" => d.set(key, &mut image.base, Self::unsigned),
            "stated" => d.set(key, &mut image.stated, Self::unsigned),
            "size" => d.set(key, &mut image.size, Self::unsigned),
            "arch" => image.arch = d.text(key),
            _ => image.text_hash = d.bin(key),
        });
        image.extra = extra;
        image
    }

    pub(crate) fn sample(&mut self) -> Sample {
        let mut sample = Sample::default();
        let mut extra = Extra::new();
        self.map("sample", schema::SAMPLE, &mut extra, |d, key| match key {
            "at" => d.set(key, &mut sample.at, Self::unsigned),
            "state" => sample.state = d.text(key),
            "count" => d.set(key, &mut sample.count, Self::unsigned),
            "keep" => d.set(key, &mut sample.keep, Self::unsigned),
            "frames" => d.frames(&mut sample.frames, &mut sample.omitted),
            _ => {
                if let Some(gap) = d.omitted(key) {
                    widen_gap(&mut sample.frames, &mut sample.omitted, gap);
                }
            }
        });
        sample.extra = extra;
        sample
    }

    pub(crate) fn vitals(&mut self) -> Vitals {
        let mut vitals = Vitals::default();
        let mut extra = Extra::new();
        self.map("vitals", schema::VITALS, &mut extra, |d, key| match key {
            "cpu" => {
                let Cpu {
                    process,
                    watchdog,
                    device,
                    cores,
                    extra,
                } = vitals.cpu.insert(Cpu::default());
                d.map(
                    "vitals.cpu",
                    schema::VITALS_CPU,
                    extra,
                    |d, key| match key {
                        "process" => *process = d.float(key),
                        "watchdog" => *watchdog = d.float(key),
                        "device" => *device = d.float(key),
                        _ => *cores = d.unsigned(key),
                    },
                );
            }
            "memory" => {
                let Memory {
                    resident,
                    footprint,
                    peak,
                    device_total,
                    device_free,
                    extra,
                } = vitals.memory.insert(Memory::default());
                d.map(
                    "vitals.memory",
                    schema::VITALS_MEMORY,
                    extra,
                    |d, key| match key {
                        "resident" => *resident = d.unsigned(key),
                        "footprint" => *footprint = d.unsigned(key),
                        "peak" => *peak = d.unsigned(key),
                        "device_total" => *device_total = d.unsigned(key),
                        _ => *device_free = d.unsigned(key),
                    },
                );
            }
            "frame_rate" => vitals.frame_rate = d.float(key),
            "uptime" => vitals.uptime = d.unsigned(key),
            "launch_time" => vitals.launch_time = d.unsigned(key),
            "launch_kind" => vitals.launch_kind = d.text(key),
            "battery" => vitals.battery = d.float(key),
            "thermal" => vitals.thermal = d.text(key),
            _ => vitals.low_power = d.bool(key),
        });
        vitals.extra = extra;
        vitals
    }

    pub(crate) fn context(&mut self) -> Context {
        let mut context = Context::default();
        let mut extra = Extra::new();
        self.map("context", schema::CONTEXT, &mut extra, |d, key| match key {
            "keys" => context.keys = d.pairs(key, |d, _| Some(d.value())),
            "gauges" => context.gauges = d.pairs(key, Self::float),
            "breadcrumbs" => {
                context.breadcrumbs =
                    d.rows(key, 2, |d, _| Some((d.unsigned("time")?, d.text("text")?)));
            }
            _ => {
                context.marks = d.rows(key, 2, |d, length| {
                    let (name, start) = (d.text("name")?, d.unsigned("start")?);
                    Some((
                        name,
                        start,
                        if length > 2 {
                            d.unsigned("duration")
                        } else {
                            None
                        },
                    ))
                });
            }
        });
        context.extra = extra;
        context
    }

    pub(crate) fn stall_end(&mut self) -> StallEnd {
        let mut end = StallEnd::default();
        let mut extra = Extra::new();
        self.map(
            "stall_end",
            schema::STALL_END,
            &mut extra,
            |d, key| match key {
                "duration" => d.set(key, &mut end.duration, Self::unsigned),
                _ => d.set(key, &mut end.how, Self::text),
            },
        );
        end.extra = extra;
        end
    }

    pub(crate) fn capture(&mut self) -> Capture {
        let mut capture = Capture::default();
        let mut extra = Extra::new();
        self.map("capture", schema::CAPTURE, &mut extra, |d, key| match key {
            "stopped" => capture.stopped = d.unsigned(key),
            "unwind" => capture.unwind = d.unsigned(key),
            "bytes" => capture.bytes = d.unsigned(key),
            "samples" => capture.samples = d.unsigned(key),
            "cut" => capture.cut = Some(d.value()),
            _ => capture.unanswered = d.unsigned(key),
        });
        capture.extra = extra;
        capture
    }

    pub(crate) fn loss(&mut self) -> Loss {
        let mut loss = Loss::default();
        let mut all = Extra::new();
        self.map("loss", &[], &mut all, |_, _| {});
        for (key, value) in all {
            match value {
                Value::Unsigned(count) if key != "dropped" => loss.counts.push((key, count)),
                value => loss.extra.push((key, value)),
            }
        }
        loss
    }

    pub(crate) fn end(&mut self) -> End {
        let mut end = End::default();
        let mut extra = Extra::new();
        self.map("end", schema::END, &mut extra, |d, key| match key {
            "crc32" => {
                let at = d.at;
                let crc = d.unsigned(key).unwrap_or_default();
                end.crc32 = u32::try_from(crc).unwrap_or_else(|_| {
                    d.field(at, key, || "has more than 32 bits".to_owned());
                    0
                });
            }
            "sections" => d.set(key, &mut end.sections, Self::unsigned),
            _ => d.set(key, &mut end.closed_by, Self::text),
        });
        end.extra = extra;
        end
    }

    /// The value of a section whose kind is not known; without its `check`.
    pub(crate) fn unknown(&mut self) -> Value {
        match self.value() {
            Value::Map(mut pairs) => {
                pairs.retain(|(key, _)| !matches!(key, Value::Text(key) if key == "check"));
                Value::Map(pairs)
            }
            value => value,
        }
    }

    /// Any value. Its depth is bounded: the section was found to be shallow.
    fn value(&mut self) -> Value {
        let at = self.at;
        match self.token() {
            None | Some(Token::Nil) => Value::Nil,
            Some(Token::Bool(value)) => Value::Bool(value),
            Some(Token::Unsigned(value)) => Value::Unsigned(value),
            Some(Token::Negative(value)) => Value::Signed(value),
            Some(Token::Float(value)) => Value::Float(value),
            Some(Token::Text(value)) => Value::Text(self.utf8(at, value)),
            Some(Token::Bytes(value)) => Value::Bytes(value.to_vec()),
            Some(Token::Extension(kind, value)) => Value::Extension(kind, value.to_vec()),
            Some(Token::Array(count)) => Value::Array((0..count).map(|_| self.value()).collect()),
            Some(Token::Map(count)) => {
                Value::Map((0..count).map(|_| (self.value(), self.value())).collect())
            }
        }
    }

    /// Goes over a map: known keys to `each`, which must read exactly one value, others to `extra`.
    /// A key whose value is nil is absent.
    fn map(
        &mut self,
        name: &str,
        fields: &'static [Field],
        extra: &mut Extra,
        mut each: impl FnMut(&mut Self, &'static str),
    ) {
        let is_section = !name.contains('.');
        let Some(count) = self.count(name, "a map") else {
            return;
        };
        let mut seen = 0u32;
        for index in 0..count {
            if index as usize >= limits::FIELDS {
                self.limit(name, "keys", limits::FIELDS);
                (index..count).for_each(|_| {
                    self.skip();
                    self.skip();
                });
                return;
            }
            let key_at = self.at;
            let Some(key) = self.key(name) else { continue };
            let known = fields.iter().position(|field| field.key == key);
            match (known, self.peek()) {
                (None, _) if is_section && key == "check" => self.skip(),
                (None, _) => {
                    let value = self.value();
                    extra.push((key.into_owned(), value));
                }
                (Some(_), Some(Token::Nil)) => self.skip(),
                (Some(known), _) if seen & (1 << known) != 0 => {
                    self.field(key_at, &key, || {
                        "stands twice; the first one counts".to_owned()
                    });
                    self.skip();
                }
                (Some(known), _) => {
                    seen |= 1 << known;
                    let value_at = self.at;
                    each(self, fields.get(known).map_or("", |field| field.key));
                    debug_assert!(self.at > value_at, "{name}: {key} was not read");
                }
            }
        }
    }

    /// A map of texts to values of one type, in its order.
    fn pairs<T>(
        &mut self,
        name: &'static str,
        mut read: impl FnMut(&mut Self, &'static str) -> Option<T>,
    ) -> Vec<(String, T)> {
        let Some(count) = self.count(name, "a map") else {
            return Vec::new();
        };
        let mut pairs = Vec::new();
        for index in 0..count {
            if index as usize >= limits::FIELDS {
                self.limit(name, "keys", limits::FIELDS);
                (index..count).for_each(|_| {
                    self.skip();
                    self.skip();
                });
                break;
            }
            let Some(key) = self.key(name) else { continue };
            if let Some(value) = read(self, name) {
                pairs.push((key.into_owned(), value));
            }
        }
        pairs
    }

    /// An array of arrays of at least `least` elements; `read` gets the length, and may read fewer
    /// elements.
    fn rows<T>(
        &mut self,
        name: &'static str,
        least: u32,
        mut read: impl FnMut(&mut Self, u32) -> Option<T>,
    ) -> Vec<T> {
        let Some(count) = self.count(name, "an array") else {
            return Vec::new();
        };
        let mut rows = Vec::new();
        for _ in 0..count {
            let (at, end) = (self.at, self.end_of_value());
            match self.token() {
                Some(Token::Array(length)) if length >= least => rows.extend(read(self, length)),
                _ => self.field(at, name, || {
                    format!("has an element that is no array of at least {least}; it was skipped")
                }),
            }
            self.at = end;
        }
        rows
    }

    /// A stack. Where a frame can't be read, the gap is told as any other.
    fn frames(&mut self, frames: &mut Vec<Frame>, omitted: &mut Option<Omitted>) {
        let Some(count) = self.count("frames", "an array") else {
            return;
        };
        frames.reserve((count as usize).min(limits::FRAMES));
        for index in 0..count as usize {
            let at = self.at;
            if frames.len() >= limits::FRAMES {
                let left = u64::from(count) - index as u64;
                self.limit("frames", "frames", limits::FRAMES);
                let gap = Omitted {
                    at: frames.len() as u64,
                    count: left,
                };
                widen_gap(frames, omitted, gap);
                (index..count as usize).for_each(|_| self.skip());
                return;
            }
            if let Some(frame) = self.frame() {
                frames.push(frame);
            } else {
                self.field(at, "frames", || {
                    format!("element {index} is no [pc, found, image]; it is shown as a gap")
                });
                let gap = Omitted {
                    at: frames.len() as u64,
                    count: 1,
                };
                widen_gap(frames, omitted, gap);
                self.at = at;
                self.skip();
            }
        }
    }

    /// A frame; where there is none, the place is not that of the next value.
    fn frame(&mut self) -> Option<Frame> {
        let Some(Token::Array(length @ 3..)) = self.token() else {
            return None;
        };
        let Some(Token::Unsigned(pc)) = self.token() else {
            return None;
        };
        let Some(Token::Unsigned(found)) = self.token() else {
            return None;
        };
        let found = Found::from_code(u8::try_from(found).ok()?);
        let image = match self.token() {
            Some(Token::Unsigned(image)) => Some(u32::try_from(image).ok()?),
            Some(Token::Nil) => None,
            _ => return None,
        };
        let name = match self.peek() {
            Some(Token::Text(name)) if length > 3 => Some(self.utf8(self.at, name)),
            _ => None,
        };
        (3..length).for_each(|_| self.skip());
        Some(Frame {
            pc,
            found,
            image,
            name,
        })
    }

    fn omitted(&mut self, key: &str) -> Option<Omitted> {
        let (at, end) = (self.at, self.end_of_value());
        let omitted = match (self.token(), self.token(), self.token()) {
            (Some(Token::Array(2..)), Some(Token::Unsigned(at)), Some(Token::Unsigned(count))) => {
                Some(Omitted { at, count })
            }
            _ => {
                self.field(at, key, || "is no [at, count]; it was skipped".to_owned());
                None
            }
        };
        self.at = end;
        omitted
    }

    /// Reads a value into `field`, which keeps its default if that fails.
    fn set<T>(
        &mut self,
        key: &'static str,
        field: &mut T,
        read: impl FnOnce(&mut Self, &'static str) -> Option<T>,
    ) {
        if let Some(value) = read(self, key) {
            *field = value;
        }
    }

    fn unsigned(&mut self, key: &'static str) -> Option<u64> {
        self.typed(
            key,
            "an integer that is not negative",
            |token| match token {
                Token::Unsigned(value) => Some(value),
                _ => None,
            },
        )
    }

    fn integer(&mut self, key: &'static str) -> Option<i64> {
        self.typed(key, "an integer of 64 bits", |token| match token {
            Token::Unsigned(value) => i64::try_from(value).ok(),
            Token::Negative(value) => Some(value),
            _ => None,
        })
    }

    fn float(&mut self, key: &'static str) -> Option<f64> {
        self.typed(key, "a number", |token| match token {
            Token::Float(value) => Some(value),
            Token::Unsigned(value) => Some(value as f64),
            Token::Negative(value) => Some(value as f64),
            _ => None,
        })
    }

    fn bool(&mut self, key: &'static str) -> Option<bool> {
        self.typed(key, "a boolean", |token| match token {
            Token::Bool(value) => Some(value),
            _ => None,
        })
    }

    fn bin(&mut self, key: &'static str) -> Option<Vec<u8>> {
        self.typed(key, "raw bytes", |token| match token {
            Token::Bytes(value) => Some(value.to_vec()),
            _ => None,
        })
    }

    fn id(&mut self, key: &'static str) -> Option<[u8; 16]> {
        self.typed(key, "16 raw bytes", |token| match token {
            Token::Bytes(value) => value.try_into().ok(),
            _ => None,
        })
    }

    fn text(&mut self, key: &'static str) -> Option<String> {
        let at = self.at;
        let bytes = self.typed(key, "a string", |token| match token {
            Token::Text(value) => Some(value),
            _ => None,
        })?;
        let mut text = self.utf8(at, bytes);
        if text.len() > limits::TEXT_BYTES {
            self.limit(key, "bytes", limits::TEXT_BYTES);
            text.truncate(text.floor_char_boundary(limits::TEXT_BYTES));
        }
        Some(text)
    }

    /// A value that `take` finds to be of the right type.
    fn typed<T>(
        &mut self,
        key: &str,
        expected: &str,
        take: impl FnOnce(Token<'a>) -> Option<T>,
    ) -> Option<T> {
        let at = self.at;
        let token = self.token()?;
        let value = take(token);
        if value.is_none() && token != Token::Nil {
            let found = token.word();
            self.field(at, key, || {
                format!("should be {expected} and is {found}; it was skipped")
            });
        }
        value
    }

    fn utf8(&mut self, at: usize, bytes: &[u8]) -> String {
        match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => {
                self.damages.add(at, DamageKind::Field, || {
                    "a string is not UTF-8; its broken parts are shown as \u{fffd}".to_owned()
                });
                String::from_utf8_lossy(bytes).into_owned()
            }
        }
    }

    /// A map's key; `None`, with its value skipped, if it is no string.
    fn key(&mut self, name: &str) -> Option<Cow<'a, str>> {
        let at = self.at;
        if let Some(Token::Text(key)) = self.token() {
            return Some(match std::str::from_utf8(key) {
                Ok(key) => Cow::Borrowed(key),
                Err(_) => Cow::Owned(self.utf8(at, key)),
            });
        }
        self.at = at;
        self.field(at, name, || {
            "has a key that is no string; it was skipped".to_owned()
        });
        self.skip();
        self.skip();
        None
    }

    /// The count of a map or array, as `expected` says.
    fn count(&mut self, name: &str, expected: &str) -> Option<u32> {
        let at = self.at;
        match (self.token()?, expected) {
            (Token::Map(count), "a map") | (Token::Array(count), "an array") => Some(count),
            (token, _) => {
                self.at = at;
                self.skip();
                if token != Token::Nil {
                    let found = token.word();
                    self.field(at, name, || {
                        format!("should be {expected} and is {found}; it was skipped")
                    });
                }
                None
            }
        }
    }

    fn field(&mut self, at: usize, key: &str, what: impl FnOnce() -> String) {
        self.damages.add(at, DamageKind::Field, || {
            format!("`{}` {}", shown(key), what())
        });
    }

    fn limit(&mut self, name: &str, what: &str, limit: usize) {
        self.damages.add(self.at, DamageKind::Limit, || {
            format!("`{name}` has more than {limit} {what}; the rest was skipped")
        });
    }

    fn peek(&self) -> Option<Token<'a>> {
        token(self.bytes, self.at).ok().map(|(token, _)| token)
    }

    /// `None` only behind the end, which a well-formed section does not let come.
    fn token(&mut self) -> Option<Token<'a>> {
        let (token, next) = token(self.bytes, self.at).ok()?;
        self.at = next;
        Some(token)
    }

    fn end_of_value(&self) -> usize {
        Skim::new(self.at)
            .run(self.bytes)
            .unwrap_or(self.bytes.len())
    }

    fn skip(&mut self) {
        self.at = self.end_of_value();
    }
}

/// Adds `gap` to the one gap that a stack can tell; frames between the two are given up.
fn widen_gap(frames: &mut Vec<Frame>, omitted: &mut Option<Omitted>, gap: Omitted) {
    let Some(before) = *omitted else {
        *omitted = Some(gap);
        return;
    };
    let (from, to) = (before.at.min(gap.at), before.at.max(gap.at));
    let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(frames.len());
    let given_up = frames.drain(index(from)..index(to)).len() as u64;
    let count = before
        .count
        .saturating_add(gap.count)
        .saturating_add(given_up);
    *omitted = Some(Omitted { at: from, count });
}
