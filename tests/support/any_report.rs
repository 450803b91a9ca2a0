//! Reports made from any bytes: for property tests and for fuzzing.

use std::time::{Duration, SystemTime};

use arbitrary::{Result, Unstructured};
use wedjat::new;
use wedjat::report::*;

/// Any report that reading must give back as it was written.
pub fn report(u: &mut Unstructured<'_>) -> Result<Report> {
    let head = new!(Head {
        format: Magic::Wedjat,
        version: 1,
        id: u.arbitrary()?,
        launch: u.arbitrary()?,
        time: SystemTime::UNIX_EPOCH + lasted(u)?,
        clock: lasted(u)?,
        app: new!(App {
            name: u.arbitrary()?,
            version: u.arbitrary()?,
            extra: extra(u)?,
        }),
        os: new!(Os {
            name: u.arbitrary()?,
            version: u.arbitrary()?,
            build: u.arbitrary()?,
            extra: extra(u)?,
        }),
        device: u.arbitrary()?,
        arch: u.arbitrary()?,
        pid: u.arbitrary()?,
        extra: extra(u)?,
    });
    let mut report = Report::default();
    report.head = head;
    report.event = maybe(u, event)?;
    report.threads = list(u, 3, thread)?;
    report.images = list(u, 4, image)?;
    report.samples = list(u, 3, sample)?;
    report.vitals = maybe(u, vitals)?;
    report.context = maybe(u, context)?;
    report.memory = list(u, 2, |u| {
        Ok(new!(NearMemory {
            of: u.arbitrary()?,
            at: u.arbitrary()?,
            bytes: u.arbitrary()?,
            text: maybe(u, |u| u.arbitrary())?,
            extra: extra(u)?,
        }))
    })?;
    report.stall_end = maybe(u, |u| {
        Ok(new!(StallEnd {
            duration: lasted(u)?,
            at_least: u.arbitrary()?,
            how: outcome(u)?,
            class: maybe(u, class)?,
            reason: maybe(u, |u| u.arbitrary())?,
            extra: extra(u)?,
        }))
    })?;
    report.capture = maybe(u, capture)?;
    report.loss = maybe(u, |u| {
        let counts = list(u, 3, |u| {
            Ok((format!("x-{}", u.arbitrary::<&str>()?), u.arbitrary()?))
        })?;
        Ok(new!(Loss {
            counts,
            extra: vec![],
        }))
    })?;
    report.unknown = list(u, 2, |u| {
        let pairs = list(u, 20, |u| {
            Ok((
                Value::Text(format!("x-{}", u.arbitrary::<&str>()?)),
                value(u, 3)?,
            ))
        })?;
        Ok((format!("x-{}", u.arbitrary::<&str>()?), Value::Map(pairs)))
    })?;
    // Images beyond the last would be reported, rightly.
    let images = report.images.len() as u32;
    let threads = report.threads.iter_mut().map(|thread| &mut thread.frames);
    let samples = report.samples.iter_mut().map(|sample| &mut sample.frames);
    for frame in threads.chain(samples).flatten() {
        frame.image = frame.image.and_then(|image| image.checked_rem(images));
    }
    report.end = maybe(u, |_| {
        Ok(new!(End {
            closed_by: "writer".to_owned(),
        }))
    })?;
    Ok(report)
}

/// A short list of what `make` makes.
fn list<'a, T>(
    u: &mut Unstructured<'a>,
    most: u8,
    make: impl Fn(&mut Unstructured<'a>) -> Result<T>,
) -> Result<Vec<T>> {
    let count = u.int_in_range(0..=most)?;
    (0..count).map(|_| make(u)).collect()
}

fn maybe<'a, T>(
    u: &mut Unstructured<'a>,
    make: impl Fn(&mut Unstructured<'a>) -> Result<T>,
) -> Result<Option<T>> {
    u.arbitrary::<bool>()?.then(|| make(u)).transpose()
}

/// As long as the format can say.
fn lasted(u: &mut Unstructured<'_>) -> Result<Duration> {
    Ok(Duration::from_nanos(u.arbitrary()?))
}

/// Not NaN, which is not equal to itself.
fn float(u: &mut Unstructured<'_>) -> Result<f64> {
    let float: f64 = u.arbitrary()?;
    Ok(if float.is_nan() { 0.5 } else { float })
}

fn value(u: &mut Unstructured<'_>, depth: u8) -> Result<Value> {
    Ok(match u.int_in_range(0..=if depth > 0 { 9 } else { 7 })? {
        0 => Value::Nil,
        1 => Value::Bool(u.arbitrary()?),
        2 => Value::Unsigned(u.arbitrary()?),
        3 => Value::Signed(u.int_in_range(i64::MIN..=-1)?),
        4 => Value::Float(float(u)?),
        5 => Value::Text(u.arbitrary()?),
        6 => Value::Bytes(u.arbitrary()?),
        7 => Value::Extension(u.arbitrary()?, u.arbitrary()?),
        8 => Value::Array(list(u, 20, |u| value(u, depth - 1))?),
        _ => Value::Map(list(u, 20, |u| {
            Ok((value(u, depth - 1)?, value(u, depth - 1)?))
        })?),
    })
}

/// Keys that no section has.
fn extra(u: &mut Unstructured<'_>) -> Result<Extra> {
    list(u, 2, |u| {
        Ok((format!("x-{}", u.arbitrary::<&str>()?), value(u, 3)?))
    })
}

fn class(u: &mut Unstructured<'_>) -> Result<StallClass> {
    u.choose(&[
        StallClass::Launch,
        StallClass::Busy,
        StallClass::Blocked,
        StallClass::Starved,
        StallClass::SlowFrames,
    ])
    .copied()
}

fn outcome(u: &mut Unstructured<'_>) -> Result<StallOutcome> {
    u.choose(&[
        StallOutcome::Recovered,
        StallOutcome::Uninstalled,
        StallOutcome::ThreadEnded,
        StallOutcome::Reported,
        StallOutcome::Killed,
        StallOutcome::Unknown,
    ])
    .copied()
}

fn event(u: &mut Unstructured<'_>) -> Result<Event> {
    let kinds = [
        EventKind::Stall,
        EventKind::Crash,
        EventKind::Panic,
        EventKind::Exception,
        EventKind::Live,
        EventKind::Cpu,
        EventKind::Memory,
        EventKind::Other,
    ];
    Ok(new!(Event {
        kind: *u.choose(&kinds)?,
        fatal: u.arbitrary()?,
        reason: u.arbitrary()?,
        thread: u.arbitrary()?,
        signal: maybe(u, |u| {
            Ok(new!(Signal {
                number: u.arbitrary()?,
                name: u.arbitrary()?,
                code: u.arbitrary()?,
                code_name: u.arbitrary()?,
                address: u.arbitrary()?,
                extra: extra(u)?,
            }))
        })?,
        name: u.arbitrary()?,
        message: u.arbitrary()?,
        location: u.arbitrary()?,
        class: maybe(u, class)?,
        thresholds: maybe(u, |u| {
            Ok(new!(Thresholds {
                timeout: lasted(u)?,
                strikes: u.arbitrary()?,
                extra: extra(u)?,
            }))
        })?,
        watched: maybe(u, |u| {
            Ok(new!(Watched {
                name: u.arbitrary()?,
                number: u.arbitrary()?,
                pool: u.arbitrary()?,
                at_rest: u.arbitrary()?,
                stalled: u.arbitrary()?,
                extra: extra(u)?,
            }))
        })?,
        extra: extra(u)?,
    }))
}

const ENDS: [WalkEnd; 5] = [
    WalkEnd::Root,
    WalkEnd::Truncated,
    WalkEnd::Unreadable,
    WalkEnd::NoUnwindInfo,
    WalkEnd::Limit,
];

const STATES: [ThreadState; 4] = [
    ThreadState::Running,
    ThreadState::Uninterruptible,
    ThreadState::SignalBlocked,
    ThreadState::Ended,
];

const CUTS: [CutReason; 3] = [
    CutReason::Limit,
    CutReason::DiskFull,
    CutReason::StuckUnwinding,
];

fn thread(u: &mut Unstructured<'_>) -> Result<Thread> {
    Ok(new!(Thread {
        id: u.arbitrary()?,
        name: u.arbitrary()?,
        main: u.arbitrary()?,
        crashed: u.arbitrary()?,
        state: maybe(u, |u| Ok(*u.choose(&STATES)?))?,
        syscall: u.arbitrary()?,
        cpu: maybe(u, lasted)?,
        registers: list(u, 20, |u| Ok((u.arbitrary()?, u.arbitrary()?)))?,
        frames: list(u, 20, frame)?,
        tasks: list(u, 3, chain)?,
        end: maybe(u, |u| Ok(*u.choose(&ENDS)?))?,
        omitted: maybe(u, omitted)?,
        extra: extra(u)?,
    }))
}

fn frame(u: &mut Unstructured<'_>) -> Result<Frame> {
    Ok(new!(Frame {
        pc: u.arbitrary()?,
        found: Found::from_code(u.arbitrary()?),
        image: u.arbitrary()?,
        name: u.arbitrary()?,
    }))
}

fn chain(u: &mut Unstructured<'_>) -> Result<AsyncChain> {
    let ends = [AsyncEnd::Root, AsyncEnd::Limit, AsyncEnd::Unknown];
    Ok(new!(AsyncChain {
        frame: u.arbitrary()?,
        callers: list(u, 5, Unstructured::arbitrary)?,
        end: *u.choose(&ends)?,
    }))
}

fn omitted(u: &mut Unstructured<'_>) -> Result<Omitted> {
    Ok(new!(Omitted {
        at: u.arbitrary()?,
        count: u.arbitrary()?,
    }))
}

fn image(u: &mut Unstructured<'_>) -> Result<Image> {
    Ok(new!(Image {
        name: u.arbitrary()?,
        id: u.arbitrary()?,
        base: u.arbitrary()?,
        base_svma: u.arbitrary()?,
        size: u.arbitrary()?,
        arch: u.arbitrary()?,
        text_hash: u.arbitrary()?,
        extra: extra(u)?,
    }))
}

fn sample(u: &mut Unstructured<'_>) -> Result<Sample> {
    Ok(new!(Sample {
        at: lasted(u)?,
        state: maybe(u, |u| Ok(*u.choose(&STATES)?))?,
        count: u.arbitrary()?,
        keep: u.arbitrary()?,
        frames: list(u, 20, frame)?,
        tasks: list(u, 3, chain)?,
        omitted: maybe(u, omitted)?,
        end: maybe(u, |u| Ok(*u.choose(&ENDS)?))?,
        extra: extra(u)?,
    }))
}

fn vitals(u: &mut Unstructured<'_>) -> Result<Vitals> {
    Ok(new!(Vitals {
        cpu: maybe(u, |u| {
            Ok(new!(Cpu {
                process: maybe(u, float)?,
                watchdog: maybe(u, float)?,
                device: maybe(u, float)?,
                cores: u.arbitrary()?,
                extra: extra(u)?,
            }))
        })?,
        memory: maybe(u, |u| {
            Ok(new!(MemoryUse {
                resident: u.arbitrary()?,
                footprint: u.arbitrary()?,
                peak: u.arbitrary()?,
                device_total: u.arbitrary()?,
                device_free: u.arbitrary()?,
                extra: extra(u)?,
            }))
        })?,
        frame_rate: maybe(u, float)?,
        uptime: maybe(u, lasted)?,
        launch_time: maybe(u, lasted)?,
        launch_kind: u.arbitrary()?,
        battery: maybe(u, float)?,
        thermal: u.arbitrary()?,
        low_power: u.arbitrary()?,
        extra: extra(u)?,
    }))
}

fn context(u: &mut Unstructured<'_>) -> Result<AppContext> {
    Ok(new!(AppContext {
        keys: list(u, 20, |u| Ok((u.arbitrary()?, value(u, 3)?)))?,
        breadcrumbs: list(u, 20, |u| Ok((lasted(u)?, u.arbitrary()?)))?,
        gauges: list(u, 20, |u| Ok((u.arbitrary()?, float(u)?)))?,
        marks: list(u, 20, |u| {
            Ok((u.arbitrary()?, lasted(u)?, maybe(u, lasted)?))
        })?,
        extra: extra(u)?,
    }))
}

fn capture(u: &mut Unstructured<'_>) -> Result<Capture> {
    Ok(new!(Capture {
        stopped: maybe(u, lasted)?,
        unwind: maybe(u, lasted)?,
        bytes: u.arbitrary()?,
        samples: u.arbitrary()?,
        cut: maybe(u, |u| Ok(*u.choose(&CUTS)?))?,
        unanswered: u.arbitrary()?,
        extra: extra(u)?,
    }))
}
