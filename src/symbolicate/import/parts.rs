//! Parts that layouts of fields have alike: heads by a table of paths, images, threads, frames, signals.

use super::draft::{Draft, frame};
use super::fields::{Fields, keep_frames, unsigned};
use super::values;
use crate::report::time::wall;
use crate::report::{EventKind, Image, Memory, Signal, Thread, Value};

/// Paths of what a head has: see [`Fields`].
pub(super) struct HeadPaths {
    pub id: &'static str,
    pub time: &'static str,
    pub name: &'static str,
    pub version: &'static str,
    pub build: &'static str,
    /// Name, version and build in one text.
    pub os: &'static str,
    pub os_name: &'static str,
    pub os_version: &'static str,
    pub os_build: &'static str,
    pub device: &'static str,
    pub arch: &'static str,
    pub pid: &'static str,
    pub memory: &'static str,
    pub free_memory: &'static str,
}

impl HeadPaths {
    #[rustfmt::skip]
    pub const NONE: HeadPaths = HeadPaths {
        id: "", time: "", name: "", version: "", build: "", os: "", os_name: "", os_version: "",
        os_build: "", device: "", arch: "", pid: "", memory: "", free_memory: "",
    };
}

/// Paths of what a thread has.
#[derive(Default)]
pub(super) struct ThreadPaths {
    pub id: &'static str,
    pub name: &'static str,
    pub crashed: &'static str,
    /// Objects of registers: all of them count.
    pub registers: &'static [&'static str],
    pub frames: &'static str,
}

/// Name of what is no image: the offsets of its frames are addresses.
pub(super) const ABSOLUTE: &str = "[absolute addresses]";

impl Draft {
    /// Takes out what a head has.
    pub fn head(&mut self, fields: &mut Fields, paths: &HeadPaths) {
        let head = &mut self.report.head;
        let mut text = |paths: &str| fields.text(paths);
        head.id = values::report_id(&text(paths.id).unwrap_or_default());
        head.app.name = text(paths.name).unwrap_or_default();
        head.app.version = joined(text(paths.version), text(paths.build));
        head.os = values::os(&text(paths.os).unwrap_or_default());
        let os = &mut head.os;
        os.name = text(paths.os_name).unwrap_or(std::mem::take(&mut os.name));
        os.version = text(paths.os_version).unwrap_or(std::mem::take(&mut os.version));
        os.build = text(paths.os_build).or(os.build.take());
        head.device = text(paths.device);
        head.arch = values::arch(&text(paths.arch).unwrap_or_default());
        head.pid = fields.unsigned(paths.pid).unwrap_or(0);
        head.time = wall(fields.take(paths.time).map_or(0, |at| values::instant(&at)));
        let memory = Memory {
            device_total: fields.unsigned(paths.memory),
            device_free: fields.unsigned(paths.free_memory),
            ..Memory::default()
        };
        if memory != Memory::default() {
            self.report.vitals.get_or_insert_default().memory = Some(memory);
        }
    }

    /// Adds images.
    pub fn images(&mut self, images: Vec<Value>) {
        for image in images {
            let image = image_of(Fields::of(image));
            self.image(image);
        }
        self.index_images();
    }

    /// A thread and its frames; what is left of its fields is kept in it.
    pub fn thread_of(&self, mut fields: Fields, paths: &ThreadPaths) -> Thread {
        let mut thread: Thread = Thread {
            id: fields.unsigned(paths.id).unwrap_or(0),
            name: fields.text(paths.name),
            crashed: fields.bool(paths.crashed).unwrap_or(false),
            ..Thread::default()
        };
        for path in paths.registers {
            thread.registers.extend(registers(fields.object(path)));
        }
        let frames = fields.list(paths.frames);
        thread.extra = fields.into_extra();
        self.put_frames(&mut thread, frames);
        thread
    }

    /// Adds frames to a thread, innermost first.
    pub fn put_frames(&self, thread: &mut Thread, frames: impl IntoIterator<Item = Value>) {
        let mut left = Vec::new();
        for value in frames {
            let mut fields = match value {
                // The same as a pair.
                Value::Array(pair) => {
                    let keys = ["imageIndex", "imageOffset"].map(|key| Value::Text(key.into()));
                    Fields::of(Value::Map(keys.into_iter().zip(pair).collect()))
                }
                value => Fields::of(value),
            };
            let name = fields.text("symbol|symbol.name|symbol_name|function");
            let (pc, image) = match fields.unsigned("instruction_addr") {
                Some(pc) => (pc, None),
                None => self.place(&mut fields),
            };
            // Apple repeats the address for the functions inlined there, which stand before the function itself.
            let inline = fields.bool("inline") == Some(true);
            if inline {
                let name = name.map_or(Value::Nil, Value::Text);
                fields.keep("inlined", Fields::one("symbol", name));
            } else {
                thread.frames.push(frame(pc, image, name));
            }
            let at = thread.frames.len().saturating_sub(usize::from(!inline));
            left.push((at, fields));
        }
        keep_frames(thread, left);
    }

    /// Adds the stack of an exception that nothing caught, innermost frame first, if there is one.
    pub fn thrown(&mut self, frames: Vec<Value>) {
        if !frames.is_empty() {
            let mut thread = Thread::default();
            self.put_frames(&mut thread, frames);
            self.event().kind = EventKind::Exception;
            self.last_exception(thread);
        }
    }

    /// The address that an offset in an image stands for, and the index of the image.
    fn place(&self, fields: &mut Fields) -> (u64, Option<u32>) {
        let index = fields.unsigned("imageIndex");
        let offset = fields.unsigned("imageOffset").unwrap_or(0);
        let index = index.and_then(|index| u32::try_from(index).ok());
        let image = index.and_then(|index| self.report.images.get(index as usize));
        // Made-up images stand for addresses in none.
        let is_made_up = |image: &Image| image.base == 0 && image.id.is_empty();
        let is_real = image.is_some_and(|image| !is_made_up(image) && image.name != ABSOLUTE);
        let base = image.map_or(0, |image| image.base);
        (base.wrapping_add(offset), index.filter(|_| is_real))
    }

    /// Sets the signal of the event by what is known of it: its number, its name, the Mach exception that it was.
    pub fn signal(
        &mut self,
        number: Option<u64>,
        name: Option<String>,
        exception: Option<&str>,
    ) -> Option<&mut Signal> {
        let known = number.and_then(values::signal_name);
        let known = known.or_else(|| values::signal_of_exception(exception?));
        let name = name.or(known.map(str::to_owned))?;
        let number = number.unwrap_or_else(|| values::signal_number(&name));
        Some(self.event().signal.insert(Signal {
            number,
            name,
            ..Signal::default()
        }))
    }
}

/// `1.0 (17)`.
pub(super) fn joined(version: Option<String>, build: Option<String>) -> String {
    match (version, build) {
        (Some(version), Some(build)) if version != build => format!("{version} ({build})"),
        (Some(text), _) | (None, Some(text)) => text,
        (None, None) => String::new(),
    }
}

fn image_of(mut fields: Fields) -> Image {
    let path = fields.text("path");
    let name = fields.text("name|code_file");
    let cpu = fields.unsigned("cpu_type|code_type.cpu_type").unwrap_or(0);
    let subtype = fields
        .unsigned("cpu_subtype|code_type.cpu_subtype")
        .unwrap_or(0);
    let arch = values::mach_arch(cpu, subtype).map(str::to_owned);
    Image {
        name: path.or(name).unwrap_or_default(),
        id: values::id(&fields.text("uuid|debug_id").unwrap_or_default()),
        base: fields.unsigned("base|image_addr").unwrap_or(0),
        stated: fields.unsigned("image_vmaddr").unwrap_or(0),
        size: fields.unsigned("size|image_size").unwrap_or(0),
        arch: fields.text("arch").or(arch),
        extra: fields.into_extra(),
        ..Image::default()
    }
}

/// Registers by name; in Apple's layout `x` is an array, and each value may stand in an object.
pub(super) fn registers(mut state: Fields) -> Vec<(String, u64)> {
    let value = |value: Value| match value {
        Value::Map(_) => Fields::of(value).unsigned("value"),
        other => unsigned(&other),
    };
    let numbered = state.list("x").into_iter().enumerate();
    let numbered = numbered.map(|(number, register)| (format!("x{number}"), register));
    let all = numbered.chain(state.into_extra());
    all.filter_map(|(name, register)| Some((name, value(register)?)))
        .collect()
}
