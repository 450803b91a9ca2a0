//! speedscope's file format: <https://www.speedscope.app/file-format-schema.json>.

use std::io;

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::stacks::{rootward, weighed};
use super::{Format, PlainJson, Style};
use crate::symbolicate::frame::Symbolicated;

/// A profile for each report, with one table of frames.
#[derive(Debug, Default)]
pub struct Speedscope {
    frames: Vec<Value>,
    indices: FxHashMap<Frame, usize>,
    profiles: Vec<Value>,
}

/// Name, file, line.
type Frame = (String, Option<String>, Option<u32>);

/// One report as a profile.
#[derive(Debug)]
pub struct Profile {
    name: String,
    /// Stacks, outermost frame first, each with its weight.
    samples: Vec<(Vec<Frame>, u64)>,
}

impl Speedscope {
    /// None yet.
    pub fn new() -> Speedscope {
        Speedscope::default()
    }
}

impl Format for Speedscope {
    type Part = Profile;

    fn part(style: &Style, origin: &str, report: &Symbolicated) -> Profile {
        let event = report.report.event.as_ref();
        let kind = event.map_or("report", |event| event.word());
        let samples = weighed(report).into_iter().map(|weighed| {
            let frames = rootward(report, weighed.stack, style).map(|(name, frame, _)| {
                let file = frame.and_then(|f| f.file.as_deref()).map(str::to_owned);
                (name, file, frame.and_then(|f| f.line))
            });
            (frames.collect(), weighed.count)
        });
        Profile {
            name: format!("{kind}: {origin}"),
            samples: samples.collect(),
        }
    }

    fn add(&mut self, part: Profile, _out: &mut dyn io::Write) -> io::Result<()> {
        let (mut samples, mut weights) = (Vec::new(), Vec::new());
        for (frames, weight) in part.samples {
            let indices = frames.into_iter().map(|frame| self.index(frame));
            samples.push(indices.collect::<Vec<usize>>());
            weights.push(weight);
        }
        let total = weights
            .iter()
            .fold(0_u64, |sum, weight| sum.saturating_add(*weight));
        self.profiles.push(json!({
            "type": "sampled",
            "name": part.name,
            "unit": "none",
            "startValue": 0,
            "endValue": total,
            "samples": samples,
            "weights": weights,
        }));
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        let document = json!({
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "exporter": concat!("wedjat ", env!("CARGO_PKG_VERSION")),
            "name": "wedjat",
            "activeProfileIndex": 0,
            "shared": { "frames": std::mem::take(&mut self.frames) },
            "profiles": std::mem::take(&mut self.profiles),
        });
        serde_json::to_writer(PlainJson(&mut *out), &document)?;
        out.write_all(b"\n")?;
        out.flush()
    }
}

impl Speedscope {
    /// Where the frame stands in the shared table.
    fn index(&mut self, frame: Frame) -> usize {
        if let Some(index) = self.indices.get(&frame) {
            return *index;
        }
        let mut value = json!({ "name": frame.0 });
        if let Some(file) = &frame.1 {
            value["file"] = json!(file);
        }
        if let Some(line) = frame.2 {
            value["line"] = json!(line);
        }
        self.frames.push(value);
        self.indices.insert(frame, self.frames.len() - 1);
        self.frames.len() - 1
    }
}
