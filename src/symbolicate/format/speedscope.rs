//! speedscope's file format: <https://www.speedscope.app/file-format-schema.json>.

use std::io;

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::stacks::{rootward, weighed};
use super::{Format, Style};
use crate::symbolicate::frame::Symbolicated;

/// A profile for each report, with one table of frames.
#[derive(Debug, Default)]
pub struct Speedscope {
    style: Style,
    frames: Vec<Value>,
    indices: FxHashMap<(String, Option<String>, Option<u32>), usize>,
    profiles: Vec<Value>,
}

impl Speedscope {
    /// Frames named in this style.
    pub fn new(style: Style) -> Speedscope {
        Speedscope {
            style,
            ..Speedscope::default()
        }
    }
}

impl Format for Speedscope {
    fn report(
        &mut self,
        origin: &str,
        report: &Symbolicated,
        _out: &mut dyn io::Write,
    ) -> io::Result<()> {
        let (mut samples, mut weights) = (Vec::new(), Vec::new());
        for weighed in weighed(report) {
            let mut sample = Vec::new();
            for (name, frame, _) in rootward(report, weighed.stack, &self.style) {
                let file = frame.and_then(|f| f.file.as_deref()).map(str::to_owned);
                let line = frame.and_then(|f| f.line);
                let next = self.frames.len();
                let key = (name, file, line);
                let index = *self.indices.entry(key.clone()).or_insert(next);
                if index == next {
                    let (name, file, line) = key;
                    let mut value = json!({ "name": name });
                    if let Some(file) = file {
                        value["file"] = json!(file);
                    }
                    if let Some(line) = line {
                        value["line"] = json!(line);
                    }
                    self.frames.push(value);
                }
                sample.push(index);
            }
            samples.push(sample);
            weights.push(weighed.count);
        }
        let kind = report
            .report
            .event
            .as_ref()
            .map_or("report", |event| event.kind.as_str());
        let name = format!("{kind}: {origin}");
        let total: u64 = weights.iter().sum();
        self.profiles.push(json!({
            "type": "sampled",
            "name": name,
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
        serde_json::to_writer(&mut *out, &document)?;
        out.write_all(b"\n")?;
        out.flush()
    }
}
