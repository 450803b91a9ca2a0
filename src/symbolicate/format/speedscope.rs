//! speedscope's file format: <https://www.speedscope.app/file-format-schema.json>.

use std::io;

use serde_json::{Value, json};

use super::stacks::{Indices, end_of_samples, outermost, weighed};
use super::{Format, PlainJson, Style};
use crate::symbolicate::frame::Symbolicated;

/// A profile for each report, with one table of frames.
#[derive(Debug, Default)]
pub struct Speedscope {
    frames: Vec<Value>,
    indices: Indices<FrameKey>,
    profiles: Vec<Value>,
}

/// Name, file, line.
type FrameKey = (String, Option<String>, Option<u32>);

/// One report as a profile.
#[derive(Debug)]
pub struct Profile {
    name: String,
    /// When the first sample was taken, and the last one ends, nanoseconds from the stall's beginning;
    /// `None` where there is one stack and no time.
    time: Option<(u64, u64)>,
    /// Stacks, outermost frame first, each with its weight: how long it stood, or 1.
    samples: Vec<(Vec<FrameKey>, u64)>,
}

impl Format for Speedscope {
    type Part = Profile;

    fn part(style: &Style, origin: &str, report: &Symbolicated) -> Profile {
        let event = report.report.event.as_ref();
        let kind = event.map_or("report", |event| event.word());
        let mut stacks = weighed(report);
        stacks.sort_by_key(|weighed| weighed.at);
        let end = end_of_samples(report);
        // A sample stands until the next one.
        let until = stacks.iter().skip(1).map(|next| next.at).chain([end]);
        let untimed = stacks.len() > 1 && stacks.iter().all(|weighed| weighed.at == 0);
        let is_timed = !report.report.samples.is_empty() && end > 0 && !untimed;
        let first = stacks.first().filter(|_| is_timed);
        let time = first.map(|first| (first.at, end));
        let samples = stacks.iter().zip(until).map(|(weighed, until)| {
            let frames = outermost(report, weighed.stack, style).map(|(name, frame, _)| {
                let file = frame.and_then(|f| f.file.as_deref()).map(str::to_owned);
                (name, file, frame.and_then(|f| f.line))
            });
            let weight = if is_timed {
                until - weighed.at
            } else {
                weighed.count
            };
            (frames.collect(), weight)
        });
        Profile {
            name: format!("{kind}: {origin}"),
            time,
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
        let total = weights.iter().copied().fold(0, u64::saturating_add);
        let (start, end) = part.time.unwrap_or((0, total));
        self.profiles.push(json!({
            "type": "sampled",
            "name": part.name,
            "unit": if part.time.is_some() { "nanoseconds" } else { "none" },
            "startValue": start,
            "endValue": end,
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
    /// Returns the index of the frame in the shared table; adds it if it is new.
    fn index(&mut self, frame: FrameKey) -> usize {
        let (index, is_new) = self.indices.of(frame.clone());
        if is_new {
            let (name, file, line) = frame;
            let mut value = json!({ "name": name });
            if let Some(file) = file {
                value["file"] = json!(file);
            }
            if let Some(line) = line {
                value["line"] = json!(line);
            }
            self.frames.push(value);
        }
        index
    }
}
