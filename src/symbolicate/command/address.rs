//! `--address`: one image, many addresses.

use std::io::{self, BufRead, BufReader, Read, Write};

use serde_json::json;

use super::args::{Args, FormatName, parse_address};
use super::output::Output;
use super::{DAMAGED, DONE, Messages, UNREADABLE, USAGE, exit_code};
use crate::symbolicate::format::{FrameJson, PlainJson, Style, plain, unread_text};
use crate::symbolicate::{Addresses, DebugFiles, SourceFrame, image_file_name};

pub(super) fn run(
    args: &Args,
    files: &DebugFiles,
    input: &mut dyn Read,
    messages: &mut Messages<'_>,
) -> u8 {
    if !matches!(args.format, FormatName::Text | FormatName::Ndjson) {
        messages.error("--address prints text or ndjson");
        return USAGE;
    }
    let addresses = match Addresses::new(files, args.arch.as_deref(), args.load_address) {
        Ok(addresses) => addresses,
        Err(error) => {
            messages.error(&error.to_string());
            return [USAGE, UNREADABLE][usize::from(error.images.is_empty())];
        }
    };
    if let Some((text, error)) = first_bad(&args.address) {
        messages.error(&format!("--address {text}: {error}"));
        return USAGE;
    }
    let mut out = match Output::open(args) {
        Ok(out) => out,
        Err(error) => return exit_code(Err(error), messages),
    };
    let ndjson = args.format == FormatName::Ndjson;
    let mut lines = AnswerWriter::new(&addresses, ndjson, !args.no_demangle);
    let mut all = args.address.iter();
    let result = all.try_for_each(|text| match text.as_str() {
        "-" => stream(&mut lines, input, &mut out),
        text => lines.write(text, &mut out),
    });
    let code = exit_code(result.and_then(|()| out.finish()), messages);
    let unread = unread_text(addresses.unread());
    if !unread.is_empty() {
        messages.warning(&format!("{}{unread}", addresses.image()));
    }
    let code = match code {
        DONE if args.strict && !unread.is_empty() => DAMAGED,
        code => code,
    };
    if args.verbose {
        let of = ["its symbol table alone", "debug information"];
        let of = of[usize::from(addresses.has_debug_info())];
        let (count, unknown, image) = (lines.count, lines.unknown, addresses.image());
        let counts = format!("{count} address(es), {unknown} of them unknown");
        messages.note(&format!("{image}: {counts}; named by {of}"));
        messages.searched(files);
        messages.without_table(files);
    }
    if let Some((first, error)) = &lines.first_bad {
        let count = lines.bad;
        messages.warning(&format!(
            "{count} line(s) held no address; the first: {first}: {error}"
        ));
    }
    code
}

/// Answers `--address -`: looks up the addresses that `input` holds, one a line.
///
/// # Errors
/// Those of `input` and `out`.
pub fn answer(
    addresses: &Addresses,
    ndjson: bool,
    input: &mut dyn Read,
    out: &mut dyn Write,
) -> io::Result<()> {
    stream(&mut AnswerWriter::new(addresses, ndjson, true), input, out)
}

fn first_bad(addresses: &[String]) -> Option<(&String, String)> {
    let mut addresses = addresses.iter().filter(|text| *text != "-");
    addresses.find_map(|text| Some((text, parse_address(text).err()?)))
}

/// A line of input that is longer than this is no address.
const MAX_LINE: u64 = 4096;

fn stream(
    lines: &mut AnswerWriter<'_>,
    input: &mut dyn Read,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut input = BufReader::with_capacity(1 << 16, input);
    let mut line = Vec::new();
    loop {
        line.clear();
        if (&mut input).take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.len() as u64 == MAX_LINE && !line.ends_with(b"\n") {
            // One line has one answer.
            input.skip_until(b'\n')?;
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim();
        if !text.is_empty() {
            lines.write(text, out)?;
        }
        // A caller that sends one address at a time waits for its answer.
        if input.buffer().is_empty() {
            out.flush()?;
        }
    }
}

struct AnswerWriter<'a> {
    addresses: &'a Addresses,
    /// The image's name, made safe.
    image: String,
    ndjson: bool,
    style: Style,
    first: bool,
    line: Vec<u8>,
    /// Texts that were no addresses; the first of them, and why.
    bad: u64,
    /// Addresses, and those of which nothing is known.
    count: u64,
    unknown: u64,
    first_bad: Option<(String, String)>,
}

impl<'a> AnswerWriter<'a> {
    fn new(addresses: &'a Addresses, ndjson: bool, demangle: bool) -> AnswerWriter<'a> {
        let style = Style::default();
        AnswerWriter {
            image: plain(addresses.image()).into_owned(),
            addresses,
            ndjson,
            style: Style { demangle, ..style },
            first: true,
            line: Vec::new(),
            bad: 0,
            count: 0,
            unknown: 0,
            first_bad: None,
        }
    }
}

impl AnswerWriter<'_> {
    fn write(&mut self, text: &str, out: &mut dyn Write) -> io::Result<()> {
        self.line.clear();
        if !self.ndjson && !std::mem::take(&mut self.first) {
            self.line.push(b'\n');
        }
        match parse_address(text) {
            Ok(address) => self.found(address)?,
            Err(error) => {
                if self.ndjson {
                    let value = json!({"address": text, "frames": [], "error": error});
                    writeln!(PlainJson(&mut self.line), "{value}")?;
                } else {
                    writeln!(self.line, "{}", plain(text))?; // `atos` gives back what is no address
                }
                self.bad += 1;
                self.first_bad.get_or_insert((text.to_owned(), error));
            }
        }
        out.write_all(&self.line)
    }

    fn found(&mut self, address: u64) -> io::Result<()> {
        let (frames, offset) = self.addresses.answer(address);
        self.count += 1;
        self.unknown += u64::from(frames.is_empty());
        if self.ndjson {
            self.json(address, &frames)
        } else {
            self.text(address, &frames, offset)
        }
    }

    fn json(&mut self, address: u64, frames: &[SourceFrame]) -> io::Result<()> {
        let line = &mut self.line;
        write!(line, "{{\"address\":\"{address:#x}\",\"frames\":[")?;
        for (index, frame) in frames.iter().enumerate() {
            if index > 0 {
                line.push(b',');
            }
            let frame = FrameJson::new(frame, &self.style);
            serde_json::to_writer(PlainJson(&mut *line), &frame)?;
        }
        line.push(b']');
        let unread = self.addresses.unread();
        if unread.damaged + unread.refused > 0 {
            let (damaged, refused) = (unread.damaged, unread.refused);
            write!(line, ",\"damaged\":{damaged},\"refused\":{refused}")?;
        }
        line.extend(b"}\n");
        Ok(())
    }

    /// `function (in image) (file.c:42)`, as `atos` has it.
    fn text(
        &mut self,
        address: u64,
        frames: &[SourceFrame],
        offset: Option<u64>,
    ) -> io::Result<()> {
        let (line, image) = (&mut self.line, &self.image);
        if frames.is_empty() {
            return writeln!(line, "{address:#x} (in {image})");
        }
        for frame in frames.iter() {
            match self.style.name(frame) {
                Some(name) => write!(line, "{} (in {image})", plain(name))?,
                None => write!(line, "{address:#x} (in {image})")?,
            }
            match (&frame.file, frame.line, offset) {
                (Some(file), number, _) => {
                    let (file, number) = (plain(image_file_name(file)), number.unwrap_or(0));
                    write!(line, " ({file}:{number})")?;
                }
                (None, _, Some(offset)) if !frame.inlined => write!(line, " + {offset}")?,
                _ => {}
            }
            line.push(b'\n');
        }
        Ok(())
    }
}
