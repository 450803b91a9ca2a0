//! Reads a folder of reports with serde and `rmp-serde` alone: for a pipeline of one's own.
//!
//! `cargo run --no-default-features --example read_folder -- FOLDER`
//!
//! `wedjat` gives the types of the sections and nothing else: no reader, no writer. What that leaves out is what
//! `wedjat::report::read` is for: files that are cut or damaged, or come from strangers.

use std::error::Error;
use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, SeqAccess, Visitor};
use wedjat::report::*;

/// A section is an array of its kind and its map; those of later versions are skipped.
enum Section {
    Head(Head),
    Event(Event),
    Thread(Thread),
    Image(Image),
    Sample(Sample),
    Vitals(Vitals),
    Context(AppContext),
    Memory(NearMemory),
    StallEnd(StallEnd),
    Capture(Capture),
    Loss(Loss),
    End(End),
    Other,
}

impl<'de> Deserialize<'de> for Section {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Section, D::Error> {
        struct Pair;
        impl<'de> Visitor<'de> for Pair {
            type Value = Section;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of a kind and a map")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut pair: A) -> Result<Section, A::Error> {
                fn map<'de, A: SeqAccess<'de>, T: Deserialize<'de>>(
                    pair: &mut A,
                ) -> Result<T, A::Error> {
                    let map = pair.next_element()?;
                    map.ok_or_else(|| A::Error::custom("a section without a map"))
                }
                let kind: Option<String> = pair.next_element()?;
                Ok(match kind.as_deref() {
                    Some("head") => Section::Head(map(&mut pair)?),
                    Some("event") => Section::Event(map(&mut pair)?),
                    Some("thread") => Section::Thread(map(&mut pair)?),
                    Some("image") => Section::Image(map(&mut pair)?),
                    Some("sample") => Section::Sample(map(&mut pair)?),
                    Some("vitals") => Section::Vitals(map(&mut pair)?),
                    Some("context") => Section::Context(map(&mut pair)?),
                    Some("memory") => Section::Memory(map(&mut pair)?),
                    Some("stall_end") => Section::StallEnd(map(&mut pair)?),
                    Some("capture") => Section::Capture(map(&mut pair)?),
                    Some("loss") => Section::Loss(map(&mut pair)?),
                    Some("end") => Section::End(map(&mut pair)?),
                    _ => {
                        map::<A, IgnoredAny>(&mut pair)?;
                        Section::Other
                    }
                })
            }
        }
        deserializer.deserialize_seq(Pair)
    }
}

/// A report that is whole, of its bytes.
pub fn read(bytes: &[u8]) -> Result<Report, rmp_serde::decode::Error> {
    let mut report = Report::default();
    let mut rest = bytes;
    while !rest.is_empty() {
        match rmp_serde::from_read(&mut rest)? {
            Section::Head(head) => report.head = head,
            Section::Event(event) => report.event = Some(event),
            Section::Thread(thread) => report.threads.push(thread),
            Section::Image(image) => report.images.push(image),
            Section::Sample(sample) => report.samples.push(sample),
            Section::Vitals(vitals) => report.vitals = Some(vitals),
            Section::Context(context) => report.context = Some(context),
            Section::Memory(memory) => report.memory.push(memory),
            Section::StallEnd(end) => report.stall_end = Some(end),
            Section::Capture(capture) => report.capture = Some(capture),
            Section::Loss(loss) => report.loss = Some(loss),
            Section::End(end) => report.end = Some(end),
            Section::Other => {}
        }
    }
    Ok(report)
}

/// `stall of MyApp 1.2.3 at 1700000000 for 400 ms, in libc.so.6 libc.so.6 myapp`
fn line(report: &Report) -> String {
    let head = &report.head;
    let time = head.time.duration_since(std::time::UNIX_EPOCH);
    let lasted = report.stall_end.as_ref().map_or(String::new(), |end| {
        format!(" for {} ms", end.duration.as_millis())
    });
    let frames = report
        .threads
        .first()
        .map_or(&[][..], |thread| &thread.frames);
    let images: Vec<&str> = frames
        .iter()
        .take(3)
        .filter_map(|frame| report.images.get(frame.image? as usize))
        .filter_map(|image| image.name.rsplit('/').next())
        .collect();
    format!(
        "{} of {} {} at {}{lasted}, in {}",
        report
            .event
            .as_ref()
            .map_or("nothing", |event| event.word()),
        head.app.name,
        head.app.version,
        time.unwrap_or_default().as_secs(),
        images.join(" ")
    )
}

/// The lines of a folder's reports, by the names of their files.
fn lines(folder: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "wedjat") {
            paths.push(path);
        }
    }
    paths.sort();
    let read = |path| Ok(line(&read(&std::fs::read(path)?)?));
    paths.into_iter().map(read).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os()
        .nth(1)
        .ok_or("usage: read_folder FOLDER")?;
    for line in lines(Path::new(&folder))? {
        println!("{line}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/reports/v1.0");

    /// What rmp-serde makes of the recorder's own reports is what our reader makes of them.
    #[test]
    fn sections_are_those_of_our_reader() {
        let mut count = 0;
        for entry in std::fs::read_dir(SAMPLES).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if !name.starts_with("recorded-") {
                continue;
            }
            let bytes = std::fs::read(&path).unwrap();
            let (found, expected) = (super::read(&bytes).unwrap(), wedjat::report::read(&bytes));
            let expected = expected.unwrap().report;
            assert_eq!(found, expected, "{name}");
            count += 1;
        }
        assert!(count >= 5, "{count}");
    }

    #[test]
    fn a_folder_has_a_line_for_each_report() {
        let lines = super::lines(Path::new(SAMPLES)).unwrap();
        assert!(
            lines.iter().any(|line| line.starts_with("stall of ")),
            "{lines:#?}"
        );
        assert!(
            lines.iter().any(|line| line.starts_with("crash of ")),
            "{lines:#?}"
        );
    }
}
