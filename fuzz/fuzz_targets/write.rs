//! The recorder's writer, with any content and a buffer of any size: what goes out is whole, whatever did
//! not fit.
#![no_main]

#[path = "../../tests/support/any_report.rs"]
mod any_report;

use arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use wedjat::new;
use wedjat::report::*;

#[derive(Debug)]
struct Input {
    report: Report,
    buffer: u16,
    resume_at: u8,
}

impl<'a> Arbitrary<'a> for Input {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Input> {
        let (buffer, resume_at): (u16, u8) = u.arbitrary()?;
        Ok(Input {
            buffer: buffer & 0x1fff,
            resume_at,
            report: any_report::report(u)?,
        })
    }
}

fuzz_target!(|input: Input| {
    check_name(&input.report);
    let mut buffer = vec![0; usize::from(input.buffer)];
    let mut bytes: Vec<u8> = Vec::new();
    let mut writer = ReportWriter::new(&mut buffer, &mut bytes);
    write(&mut writer, &input.report);
    let written = writer.sections();
    writer.finish(ClosedBy::Writer).expect("a Vec takes all");

    let survey = survey(&bytes);
    assert_eq!(survey.len, bytes.len() as u64);
    assert!(
        survey.sections == written + 1 || buffer.len() < 128,
        "{survey:?}"
    );
    if !survey.has_head {
        return;
    }
    let Ok(reading) = read(&bytes) else {
        assert!(buffer.len() < 256, "a small head holds what a reader needs");
        return;
    };
    if buffer.len() >= 256 {
        // Frames of the input may name images that there is no room for.
        let is_known = |kind| kind == DamageKind::Image;
        assert!(
            reading.damage.iter().all(|damage| is_known(damage.kind)),
            "{:?}",
            reading.damage
        );
        for (written, given) in reading.report.threads.iter().zip(&input.report.threads) {
            let before = given.omitted.map_or(0, |gap| gap.count);
            if before > u64::MAX / 2 {
                // The count of missing frames does not go beyond its type.
                continue;
            }
            let missing = written.omitted.map_or(0, |gap| gap.count) - before;
            assert_eq!(
                written.frames.len() as u64 + missing,
                given.frames.len() as u64
            );
        }
    }

    // A disk that fills up: after the first error, nothing more goes out.
    let mut writer = ReportWriter::new(&mut buffer, Failing(input.resume_at % 8));
    let mut has_failed = false;
    for _ in 0..10 {
        let result = writer.section(&StallEndView::default());
        assert!(result.is_err() || !has_failed);
        has_failed = result.is_err();
    }
    assert_eq!(writer.sink().0, 0);
    let (sections, sent) = (writer.sections(), writer.bytes());
    assert!(sections <= sent && (sent > 0 || writer.crc() == 0));

    // Cut anywhere, and carried on by the next launch.
    let cut = usize::from(input.resume_at) * bytes.len() / 256;
    let survey = wedjat::report::survey(&bytes[..cut]);
    if survey.has_head && buffer.len() >= 256 {
        let mut rest = bytes[..survey.len as usize].to_vec();
        let writer = ReportWriter::resume(&mut buffer, &mut rest, survey.crc, survey.sections);
        writer
            .finish(ClosedBy::NextLaunch)
            .expect("a Vec takes all");
        let closed = read(&rest).expect("the head is whole");
        assert!(
            closed
                .damage
                .iter()
                .all(|damage| damage.kind == DamageKind::Image),
            "{:?}",
            closed.damage
        );
    }
});

/// Takes so many sections, then fails.
struct Failing(u8);

impl Sink for Failing {
    fn write(&mut self, _: &[u8]) -> std::result::Result<(), SinkError> {
        self.0 = self.0.checked_sub(1).ok_or(SinkError { errno: 28 })?;
        Ok(())
    }
}

fn write(writer: &mut ReportWriter<'_, &mut Vec<u8>>, report: &Report) {
    let head = &report.head;
    let head = HeadView {
        id: head.id,
        launch: head.launch,
        time: head.time,
        clock: head.clock,
        app: AppView {
            name: &head.app.name,
            version: &head.app.version,
        },
        os: OsView {
            name: &head.os.name,
            version: &head.os.version,
            build: head.os.build.as_deref(),
        },
        device: head.device.as_deref(),
        arch: &head.arch,
        pid: head.pid,
        ..HeadView::default()
    };
    let all_went = "a Vec takes all";
    writer.section(&head).expect(all_went);
    if let Some(event) = &report.event {
        let signal = event.signal.as_ref().map(|signal| SignalView {
            number: signal.number,
            name: &signal.name,
            code: signal.code,
            code_name: signal.code_name.as_deref(),
            address: signal.address,
        });
        let thresholds = event.thresholds.as_ref().map(|found| ThresholdsView {
            timeout: found.timeout,
            strikes: found.strikes,
        });
        let watched = event.watched.as_ref().map(|found| WatchedView {
            name: &found.name,
            number: found.number,
            pool: found.pool,
            at_rest: found.at_rest,
            stalled: found.stalled,
        });
        let view = EventView {
            kind: event.kind,
            fatal: event.fatal,
            reason: event.reason.as_deref(),
            signal,
            name: event.name.as_deref(),
            message: event.message.as_deref(),
            location: event.location.as_deref(),
            class: event.class,
            thresholds,
            thread: event.thread,
            watched,
        };
        writer.section(&view).expect(all_went);
    }
    for thread in &report.threads {
        let registers: Vec<(&str, u64)> = thread
            .registers
            .iter()
            .map(|(name, value)| (name.as_str(), *value))
            .collect();
        let (chains, callers) = raw_chains(&thread.tasks);
        let view = ThreadView {
            id: thread.id,
            name: thread.name.as_deref(),
            main: thread.main,
            crashed: thread.crashed,
            state: thread.state,
            syscall: thread.syscall.as_deref(),
            cpu: thread.cpu,
            registers: &registers,
            frames: &raw(&thread.frames),
            end: thread.end,
            omitted: thread.omitted,
            tasks: RawChains {
                chains: &chains,
                callers: &callers,
            },
        };
        writer.section(&view).expect(all_went);
    }
    for image in &report.images {
        let view = ImageView {
            name: &image.name,
            id: &image.id,
            base: image.base,
            base_svma: image.base_svma,
            size: image.size,
            arch: image.arch.as_deref(),
            text_hash: image.text_hash.as_deref(),
        };
        writer.section(&view).expect(all_went);
    }
    for sample in &report.samples {
        let (chains, callers) = raw_chains(&sample.tasks);
        let view = SampleView {
            at: sample.at,
            state: sample.state,
            count: sample.count,
            keep: sample.keep,
            frames: &raw(&sample.frames),
            omitted: sample.omitted,
            tasks: RawChains {
                chains: &chains,
                callers: &callers,
            },
            ..SampleView::default()
        };
        writer.section(&view).expect(all_went);
    }
    if let Some(vitals) = &report.vitals {
        let view = VitalsView {
            cpu: vitals.cpu.as_ref().map(|cpu| CpuView {
                process: cpu.process,
                watchdog: cpu.watchdog,
                device: cpu.device,
                cores: cpu.cores,
            }),
            memory: vitals.memory.as_ref().map(|memory| MemoryUseView {
                resident: memory.resident,
                footprint: memory.footprint,
                peak: memory.peak,
                device_total: memory.device_total,
                device_free: memory.device_free,
            }),
            frame_rate: vitals.frame_rate,
            uptime: vitals.uptime,
            launch_time: vitals.launch_time,
            launch_kind: vitals.launch_kind.as_deref(),
            battery: vitals.battery,
            thermal: vitals.thermal.as_deref(),
            low_power: vitals.low_power,
        };
        writer.section(&view).expect(all_went);
    }
    if let Some(context) = &report.context {
        let keys: Vec<_> = (context.keys.iter())
            .map(|(key, value)| (key.as_str(), borrowed(value)))
            .collect();
        let breadcrumbs: Vec<_> = (context.breadcrumbs.iter())
            .map(|(time, text)| (*time, text.as_str()))
            .collect();
        let gauges: Vec<_> = (context.gauges.iter())
            .map(|(name, value)| (name.as_str(), *value))
            .collect();
        let marks: Vec<_> = (context.marks.iter())
            .map(|(name, start, time)| (name.as_str(), *start, *time))
            .collect();
        let view = AppContextView {
            keys: &keys,
            gauges: &gauges,
            marks: &marks,
            breadcrumbs: &breadcrumbs,
        };
        writer.section(&view).expect(all_went);
    }
    for near in &report.memory {
        let view = NearMemoryView {
            of: &near.of,
            at: near.at,
            bytes: &near.bytes,
            text: near.text.as_deref(),
        };
        writer.section(&view).expect(all_went);
    }
    if let Some(capture) = &report.capture {
        let view = CaptureView {
            stopped: capture.stopped,
            unwind: capture.unwind,
            bytes: capture.bytes,
            samples: capture.samples,
            cut: capture.cut,
            unanswered: capture.unanswered,
        };
        writer.section(&view).expect(all_went);
    }
    if let Some(loss) = &report.loss {
        let counts: Vec<(&str, u64)> = loss
            .counts
            .iter()
            .map(|(reason, count)| (reason.as_str(), *count))
            .collect();
        writer
            .section(&LossView { counts: &counts })
            .expect(all_went);
    }
    if let Some(end) = &report.stall_end {
        writer
            .section(&StallEndView {
                duration: end.duration,
                at_least: end.at_least,
                how: end.how,
                class: end.class,
                reason: end.reason.as_deref(),
            })
            .expect(all_went);
    }
}

/// Chains as a capture has them, and the callers of all.
fn raw_chains(tasks: &[AsyncChain]) -> (Vec<RawChain>, Vec<u64>) {
    let mut callers = Vec::new();
    let mut raw = |chain: &AsyncChain| {
        let first_caller = callers.len() as u32;
        callers.extend(&chain.callers);
        RawChain {
            frame: u32::try_from(chain.frame).unwrap_or(u32::MAX),
            first_caller,
            count: chain.callers.len() as u32,
            end: chain.end,
        }
    };
    (tasks.iter().map(&mut raw).collect(), callers)
}

fn raw(frames: &[Frame]) -> Vec<RawFrame> {
    let image = |frame: &Frame| frame.image.unwrap_or(RawFrame::NO_IMAGE);
    frames
        .iter()
        .map(|frame| {
            new!(RawFrame {
                pc: frame.pc,
                found: frame.found,
                image: image(frame),
            })
        })
        .collect()
}

fn borrowed(value: &Value) -> ValueView<'_> {
    match value {
        Value::Bool(value) => ValueView::Bool(*value),
        Value::Unsigned(value) => ValueView::Unsigned(*value),
        Value::Signed(value) => ValueView::Signed(*value),
        Value::Float(value) => ValueView::Float(*value),
        Value::Text(value) => ValueView::Text(value),
        Value::Bytes(value) => ValueView::Bytes(value),
        _ => ValueView::Nil,
    }
}

/// The name of its file: bounded, and a time that a calendar knows.
fn check_name(report: &Report) {
    let kind = report
        .event
        .as_ref()
        .map_or("live", |event| event.kind.as_str());
    let since = report.head.time.duration_since(std::time::UNIX_EPOCH);
    let nanos = since.map_or(0, |since| since.as_nanos() as u64);
    let name = name::Name::new(nanos, kind, &report.head.id, name::WHOLE);
    let name = name.as_str();
    assert!(name.len() < 96 && name.is_ascii(), "{name}");
    let field = |range| -> u64 {
        name.get(range)
            .and_then(|text: &str| text.parse().ok())
            .expect("digits")
    };
    assert!(
        (1..=12).contains(&field(5..7)) && (1..=31).contains(&field(8..10)),
        "{name}"
    );
    assert!(
        field(11..13) < 24 && field(14..16) < 60 && field(17..19) < 60,
        "{name}"
    );
}
