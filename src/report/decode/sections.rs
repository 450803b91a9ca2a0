//! The sections, one by one.

use super::Decoder;
use super::frames::widen_gap;
use crate::report::model::*;
use crate::report::schema;

impl Decoder<'_, '_> {
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
        thread.end = walk_end(word, &mut extra);
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
        let mut word = None;
        self.map("sample", schema::SAMPLE, &mut extra, |d, key| match key {
            "at" => d.set(key, &mut sample.at, Self::unsigned),
            "state" => sample.state = d.text(key),
            "count" => d.set(key, &mut sample.count, Self::unsigned),
            "keep" => d.set(key, &mut sample.keep, Self::unsigned),
            "frames" => d.frames(&mut sample.frames, &mut sample.omitted),
            "end" => word = d.text(key),
            _ => {
                if let Some(gap) = d.omitted(key) {
                    widen_gap(&mut sample.frames, &mut sample.omitted, gap);
                }
            }
        });
        sample.end = walk_end(word, &mut extra);
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

    pub(crate) fn memory(&mut self) -> NearMemory {
        let mut memory = NearMemory::default();
        let mut extra = Extra::new();
        self.map("memory", schema::MEMORY, &mut extra, |d, key| match key {
            "of" => d.set(key, &mut memory.of, Self::text),
            "at" => d.set(key, &mut memory.at, Self::unsigned),
            "text" => memory.text = d.text(key),
            _ => d.set(key, &mut memory.bytes, Self::bin),
        });
        memory.extra = extra;
        memory
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
}

/// Why a walk stopped; a word that this version does not know goes to the extra keys.
fn walk_end(word: Option<String>, extra: &mut Extra) -> Option<WalkEnd> {
    let word = word?;
    let end = WalkEnd::from_word(&word);
    if end == WalkEnd::Other {
        extra.insert(0, ("end".to_owned(), Value::Text(word)));
    }
    Some(end)
}
