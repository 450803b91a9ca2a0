//! A report from memory back to bytes: what was read, unknown kinds and keys included.

use super::checksum::crc32;
use super::encode::{Encoder, MapEncoder};
use super::limits;
use super::model::*;
use super::view::*;
use super::write::{ClosedBy, Rules, encode_section};

/// The bytes of a report, as its writer would have written them.
///
/// Reading them gives the same report again, also what this version does not know of it; only
/// [`Report::end`] is made anew, with the CRC and count of these bytes. Sections stand in the order of
/// worth: head, event, first thread, images, vitals, capture, samples, the other threads, context,
/// loss, the end of the stall, unknown kinds. A report without `end` gets none.
///
/// Allocates: for tools, not for signal handlers.
///
/// ```
/// use wedjat::report::{self, Report};
/// let mut report = Report::default();
/// report.head.version = 1;
/// report.head.app.name = "MyApp".to_owned();
/// let bytes = report::to_bytes(&report);
/// assert_eq!(report::read(&bytes)?.report, report);
/// # Ok::<(), report::ReadError>(())
/// ```
pub fn to_bytes(report: &Report) -> Vec<u8> {
    // A section that is no map has no room for a check; then no section has one.
    let checked = report
        .unknown
        .iter()
        .all(|(_, value)| matches!(value, Value::Map(_)));
    let mut file = File {
        bytes: Vec::new(),
        sections: 0,
        buffer: vec![0; 1 << 12],
        checked,
    };
    file.section(HeadView::KIND, |m| head(m, &report.head));
    if let Some(found) = &report.event {
        file.section(EventView::KIND, |m| event(m, found));
    }
    let (first, others) = report.threads.split_at(report.threads.len().min(1));
    first
        .iter()
        .for_each(|found| file.section(ThreadView::KIND, |m| thread(m, found)));
    report
        .images
        .iter()
        .for_each(|found| file.section(ImageView::KIND, |m| image(m, found)));
    if let Some(found) = &report.vitals {
        file.section(VitalsView::KIND, |m| vitals(m, found));
    }
    if let Some(found) = &report.capture {
        file.section(CaptureView::KIND, |m| capture(m, found));
    }
    report
        .samples
        .iter()
        .for_each(|found| file.section(SampleView::KIND, |m| sample(m, found)));
    others
        .iter()
        .for_each(|found| file.section(ThreadView::KIND, |m| thread(m, found)));
    if let Some(found) = &report.context {
        file.section(CONTEXT_KIND, |m| context(m, found));
    }
    for found in &report.memory {
        file.section(NearMemoryView::KIND, |m| {
            NearMemoryView {
                of: &found.of,
                at: found.at,
                bytes: &found.bytes,
                text: found.text.as_deref(),
            }
            .encode(m);
            extra(m, &found.extra);
        });
    }
    if let Some(found) = &report.loss {
        file.section(LossView::KIND, |m| {
            found
                .counts
                .iter()
                .for_each(|(reason, count)| m.unsigned(reason, *count));
            extra(m, &found.extra);
        });
    }
    if let Some(found) = &report.stall_end {
        file.section(StallEndView::KIND, |m| {
            StallEndView {
                duration: found.duration,
                how: &found.how,
            }
            .encode(m);
            extra(m, &found.extra);
        });
    }
    report
        .unknown
        .iter()
        .for_each(|(kind, value)| file.unknown(kind, value));
    if let Some(found) = &report.end {
        let (crc, sections) = (crc32(0, &file.bytes), file.sections + 1);
        let closed_by = match found.closed_by.as_str() {
            "" => ClosedBy::Writer.as_str(),
            word => word,
        };
        file.section(END_KIND, |m| {
            encode_end(m, crc, sections, closed_by);
            extra(m, &found.extra);
        });
    }
    file.bytes
}

struct File {
    bytes: Vec<u8>,
    sections: u64,
    buffer: Vec<u8>,
    checked: bool,
}

impl File {
    fn section(&mut self, kind: &str, fill: impl Fn(&mut MapEncoder<'_, '_>)) {
        let rules = Rules {
            checked: self.checked,
            text_bytes: limits::TEXT_BYTES,
        };
        self.fitting(|buffer| encode_section(buffer, kind, rules, &fill));
    }

    fn unknown(&mut self, kind: &str, found: &Value) {
        if let Value::Map(pairs) = found {
            return self.section(kind, |m| {
                pairs.iter().for_each(|(key, found)| {
                    m.pair(|e| {
                        value(e, key);
                        value(e, found);
                    });
                });
            });
        }
        self.fitting(|buffer| {
            let mut e = Encoder::new(buffer);
            e.put(&[0x92]);
            e.text(kind);
            value(&mut e, found);
            (e.len(), u64::from(e.is_full()) + e.dropped())
        });
    }

    /// Takes over what `encode` writes, in a buffer in which nothing has to be left out.
    fn fitting(&mut self, encode: impl Fn(&mut [u8]) -> (usize, u64)) {
        let len = loop {
            let (len, dropped) = encode(&mut self.buffer);
            if dropped == 0 || self.buffer.len() >= limits::SECTION_BYTES {
                break len;
            }
            self.buffer.resize(self.buffer.len() * 2, 0);
        };
        self.bytes.extend_from_slice(&self.buffer[..len]);
        self.sections += u64::from(len > 0);
    }
}

fn head(m: &mut MapEncoder<'_, '_>, found: &Head) {
    let view = HeadView {
        id: found.id,
        launch: found.launch,
        time: found.time,
        clock: found.clock,
        app_name: &found.app.name,
        app_version: &found.app.version,
        os_name: &found.os.name,
        os_version: &found.os.version,
        os_build: found.os.build.as_deref(),
        device: found.device.as_deref(),
        arch: &found.arch,
        pid: found.pid,
    };
    view.encode_with(
        m,
        found.version,
        |m| extra(m, &found.app.extra),
        |m| extra(m, &found.os.extra),
    );
    extra(m, &found.extra);
}

fn event(m: &mut MapEncoder<'_, '_>, found: &Event) {
    let signal = found.signal.as_ref().map(|signal| SignalView {
        number: signal.number,
        name: &signal.name,
        code: signal.code,
        code_name: signal.code_name.as_deref(),
        address: signal.address,
    });
    let thresholds = found.thresholds.as_ref().map(|found| ThresholdsView {
        timeout: found.timeout,
        strikes: found.strikes,
    });
    let view = EventView {
        kind: found.kind,
        fatal: found.fatal,
        reason: found.reason.as_deref(),
        signal,
        name: found.name.as_deref(),
        message: found.message.as_deref(),
        location: found.location.as_deref(),
        class: found.class.as_deref(),
        thresholds,
    };
    // A type that is not known is among the extra keys.
    let kind = (found.kind != EventKind::Other).then_some(found.kind.as_str());
    view.encode_with(
        m,
        kind,
        |m| found.signal.iter().for_each(|found| extra(m, &found.extra)),
        |m| {
            found
                .thresholds
                .iter()
                .for_each(|found| extra(m, &found.extra))
        },
    );
    extra(m, &found.extra);
}

fn thread(m: &mut MapEncoder<'_, '_>, found: &Thread) {
    let view = ThreadView {
        id: found.id,
        name: found.name.as_deref(),
        main: found.main,
        crashed: found.crashed,
        state: found.state.as_deref(),
        syscall: found.syscall.as_deref(),
        cpu: found.cpu,
        omitted: found.omitted,
        ..ThreadView::default()
    };
    // A word that is not known is among the extra keys.
    let end = found
        .end
        .filter(|end| *end != WalkEnd::Other)
        .map(WalkEnd::as_str);
    let registers = found
        .registers
        .iter()
        .map(|(name, value)| (name.as_str(), *value));
    view.encode_with(m, end, registers, found.frames.as_slice());
    extra(m, &found.extra);
}

fn image(m: &mut MapEncoder<'_, '_>, found: &Image) {
    let view = ImageView {
        name: &found.name,
        id: &found.id,
        base: found.base,
        stated: found.stated,
        size: found.size,
        arch: found.arch.as_deref(),
        text_hash: found.text_hash.as_deref(),
    };
    view.encode(m);
    extra(m, &found.extra);
}

fn sample(m: &mut MapEncoder<'_, '_>, found: &Sample) {
    let view = SampleView {
        at: found.at,
        state: found.state.as_deref(),
        count: found.count,
        keep: found.keep,
        frames: &[],
        omitted: found.omitted,
        end: found.end,
    };
    view.encode(m, found.frames.as_slice());
    extra(m, &found.extra);
}

fn vitals(m: &mut MapEncoder<'_, '_>, found: &Vitals) {
    if let Some(Cpu {
        process,
        watchdog,
        device,
        cores,
        extra: rest,
    }) = &found.cpu
    {
        m.map("cpu", |m| {
            CpuView {
                process: *process,
                watchdog: *watchdog,
                device: *device,
                cores: *cores,
            }
            .encode(m);
            extra(m, rest);
        });
    }
    if let Some(found) = &found.memory {
        m.map("memory", |m| {
            let view = MemoryView {
                resident: found.resident,
                footprint: found.footprint,
                peak: found.peak,
                device_total: found.device_total,
                device_free: found.device_free,
            };
            view.encode(m);
            extra(m, &found.extra);
        });
    }
    let view = VitalsView {
        frame_rate: found.frame_rate,
        uptime: found.uptime,
        launch_time: found.launch_time,
        launch_kind: found.launch_kind.as_deref(),
        battery: found.battery,
        thermal: found.thermal.as_deref(),
        low_power: found.low_power,
        ..VitalsView::default()
    };
    view.encode_rest(m);
    extra(m, &found.extra);
}

fn context(m: &mut MapEncoder<'_, '_>, found: &Context) {
    if !found.keys.is_empty() {
        m.map("keys", |m| extra(m, &found.keys));
    }
    let view = ContextView {
        keys: std::iter::empty(),
        breadcrumbs: found
            .breadcrumbs
            .iter()
            .map(|(time, text)| (*time, text.as_str())),
        gauges: found
            .gauges
            .iter()
            .map(|(name, value)| (name.as_str(), *value)),
        marks: found
            .marks
            .iter()
            .map(|(name, start, time)| (name.as_str(), *start, *time)),
    };
    view.encode(m);
    extra(m, &found.extra);
}

fn capture(m: &mut MapEncoder<'_, '_>, found: &Capture) {
    let view = CaptureView {
        stopped: found.stopped,
        unwind: found.unwind,
        bytes: found.bytes,
        samples: found.samples,
        cut: None,
        unanswered: found.unanswered,
    };
    view.encode(m);
    if let Some(cut) = &found.cut {
        m.entry("cut", |e| value(e, cut));
    }
    extra(m, &found.extra);
}

fn extra(m: &mut MapEncoder<'_, '_>, pairs: &[(String, Value)]) {
    for (key, found) in pairs {
        m.entry(key, |e| value(e, found));
    }
}

fn value(e: &mut Encoder<'_>, found: &Value) {
    match found {
        Value::Nil => e.nil(),
        Value::Bool(value) => e.bool(*value),
        Value::Unsigned(value) => e.unsigned(*value),
        Value::Signed(value) => e.signed(*value),
        Value::Float(value) => e.float(*value),
        Value::Text(value) => e.text(value),
        Value::Bytes(value) => e.bin(value),
        Value::Extension(kind, value) => e.extension(*kind, value),
        Value::Array(items) => e.array(|a| {
            for item in items {
                a.item(|e| value(e, item));
            }
        }),
        Value::Map(pairs) => e.map(|m| {
            for (key, item) in pairs {
                m.pair(|e| {
                    value(e, key);
                    value(e, item);
                });
            }
        }),
    }
}
