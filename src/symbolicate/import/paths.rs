//! Parts that layouts of fields have alike: heads by a table of paths, images, threads, frames, signals.

use super::builder::{ReportBuilder, frame, number_entry};
use super::json_fields::{JsonFields, keep_frames, unsigned};
use super::values;
use crate::report::time::wall;
use crate::report::{EventKind, Frame, Image, MemoryUse, Signal, Thread, ThreadState, Value};
use crate::symbolicate::keys::SYMBOL_OFFSET;
use crate::symbolicate::names::symbol_text;

/// Paths of what a head has: see [`JsonFields`].
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
pub(super) struct ThreadPaths {
    pub id: &'static str,
    pub name: &'static str,
    pub crashed: &'static str,
    /// Objects of registers: all of them count.
    pub registers: &'static [&'static str],
    pub frames: &'static str,
    /// True if the id is a thread's number, rather than the system's.
    pub is_numbered: bool,
}

impl ThreadPaths {
    #[rustfmt::skip]
    pub const NONE: ThreadPaths = ThreadPaths {
        id: "", name: "", crashed: "", registers: &[], frames: "", is_numbered: false,
    };
}

/// Name of what is no image: the offsets of its frames are addresses.
const ABSOLUTE: &str = "[absolute addresses]";

impl ReportBuilder {
    /// Takes out what a head has.
    pub fn head(&mut self, fields: &mut JsonFields, paths: &HeadPaths) {
        let head = &mut self.report.head;
        let mut text = |paths: &str| fields.text(paths);
        let id = values::id(&text(paths.id).unwrap_or_default());
        head.id = id.try_into().unwrap_or_default();
        head.app.name = text(paths.name).unwrap_or_default();
        head.app.version = release(text(paths.version), text(paths.build));
        head.os = values::os(&text(paths.os).unwrap_or_default());
        let os = &mut head.os;
        os.name = text(paths.os_name).unwrap_or(std::mem::take(&mut os.name));
        os.version = text(paths.os_version).unwrap_or(std::mem::take(&mut os.version));
        os.build = text(paths.os_build).or(os.build.take());
        head.device = text(paths.device);
        head.arch = values::arch(&text(paths.arch).unwrap_or_default());
        head.pid = fields.unsigned(paths.pid).unwrap_or(0);
        head.time = wall(fields.take(paths.time).map_or(0, |at| values::instant(&at)));
        let memory = MemoryUse {
            device_total: fields.unsigned(paths.memory),
            device_free: fields.unsigned(paths.free_memory),
            ..MemoryUse::default()
        };
        if memory != MemoryUse::default() {
            self.report.vitals.get_or_insert_default().memory = Some(memory);
        }
    }

    /// Adds images, of which `more` has the rest of each: those that are lists of id and base have no names.
    pub fn images(&mut self, images: Vec<Value>, more: Vec<Value>) {
        let mut more = more.into_iter();
        for image in images {
            let rest = more.next();
            let fields = match image {
                Value::Array(parts) => {
                    let mut fields = JsonFields::of(rest.unwrap_or_default());
                    fields.extend(["uuid", "base", "source"], parts);
                    fields
                }
                image => JsonFields::of(image),
            };
            self.image(image_of(fields));
        }
        self.index_images();
    }

    /// A thread and its frames; what is left of its fields is kept in it.
    pub fn thread_of(&mut self, mut fields: JsonFields, paths: &ThreadPaths) -> Thread {
        let is_it = |state: &ThreadState| fields.peek("state") == Some(state.as_str());
        let state = ThreadState::ALL.iter().copied().find(is_it);
        if state.is_some() {
            fields.take("state");
        }
        let mut thread: Thread = Thread {
            id: fields.unsigned(paths.id).unwrap_or(0),
            name: fields.text(paths.name),
            crashed: fields.bool(paths.crashed).unwrap_or(false),
            // Other recorders have words of their own, which stay among the extra keys.
            state: state.or(fields.peek("state").map(|_| ThreadState::Other)),
            ..Thread::default()
        };
        for path in paths.registers {
            thread.registers.extend(registers(fields.object(path)));
        }
        let frames = fields.list(paths.frames);
        thread.extra = fields.into_extra();
        let number = paths.is_numbered.then(|| number_entry(thread.id));
        thread.extra.extend(number);
        self.put_frames(&mut thread, frames);
        thread
    }

    /// Adds frames to a thread, innermost first. Functions that were inlined are marked so, or have the address of the
    /// function that they were inlined into.
    pub fn put_frames(&mut self, thread: &mut Thread, frames: impl IntoIterator<Item = Value>) {
        let mut left: Vec<(usize, JsonFields)> = Vec::new();
        for value in frames {
            let mut fields = match value {
                // The same as a pair.
                Value::Array(pair) => {
                    let mut fields = JsonFields::default();
                    fields.extend(["imageIndex", "imageOffset"], pair);
                    fields
                }
                value => JsonFields::of(value),
            };
            place_of_source(&mut fields);
            let symbol = fields.text("symbol.name|symbol|symbol_name|function|method");
            let (pc, image) = self.frame_address(&mut fields);
            if image.is_some() {
                fields.take("image");
                fields.take("object_addr");
            }
            let offset = symbol_offset(&mut fields, pc);
            let symbol = symbol.unwrap_or_default();
            if let Some(message) = symbol_text::trap_message(&symbol) {
                self.trapped(message);
            }
            let name = symbol_text::function(&symbol, offset).map(str::to_owned);
            // Apple repeats the address for the functions inlined there, which stand before the function itself.
            if fields.bool("inline|inlined") == Some(true) {
                if let Some(name) = name {
                    fields.keep("inlined", JsonFields::one("symbol", Value::Text(name)));
                    left.push((thread.frames.len(), fields));
                }
                continue;
            }
            if name.is_none() && !symbol.is_empty() {
                fields.push("unused_symbol", Value::Text(symbol));
            }
            // The second frame may return to where the first one is; a function that calls itself repeats its name, too.
            let may_repeat = pc != 0 && name.is_some() && thread.frames.len() > 1;
            let is_repeated = |last: &mut Frame| {
                may_repeat && last.pc == pc && last.name.is_some() && last.name != name
            };
            if let Some(last) = thread.frames.pop_if(is_repeated)
                && let (Some(name), Some((_, fields))) = (last.name, left.last_mut())
            {
                fields.keep("inlined", JsonFields::one("symbol", Value::Text(name)));
            }
            left.push((thread.frames.len(), fields));
            thread.frames.push(frame(pc, image, name));
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

    /// The address of a frame, and the index of its image: by an index and an offset, else by the address and the name
    /// of the image.
    fn frame_address(&mut self, fields: &mut JsonFields) -> (u64, Option<u32>) {
        let address = fields.unsigned("instruction_addr|frameAddress|address");
        // `rel:0`: from the base of the first image.
        let mode = fields.peek("addr_mode").unwrap_or("");
        let relative = mode.strip_prefix("rel:");
        let relative = relative.and_then(|index| index.parse().ok());
        let of_pair = || fields.unsigned("imageIndex").filter(|_| address.is_none());
        let index = relative.or_else(of_pair);
        let offset = address.or_else(|| fields.unsigned("imageOffset"));
        let offset = offset.unwrap_or(0);
        let Some(index) = index else {
            let mut plain = frame(offset, None, None);
            self.without_signature(&mut plain);
            let image = plain.image.or_else(|| self.named_image(fields, offset));
            return (plain.pc, image);
        };
        let known = u32::try_from(index).ok();
        let Some(image) = known.and_then(|index| self.listed_image(index)) else {
            self.missing_image(index);
            let image = self.unlisted_image(&format!("[image {index}]"), 0, 0);
            return (offset, Some(image));
        };
        // Made-up images stand for addresses in none.
        let is_made_up = image.base == 0 && image.id.is_empty();
        let is_real = !is_made_up && image.name != ABSOLUTE;
        (image.base.wrapping_add(offset), known.filter(|_| is_real))
    }

    /// The image that lies at an address; else, that which the frame names.
    fn named_image(&mut self, fields: &JsonFields, pc: u64) -> Option<u32> {
        let known = self.image_at(pc.saturating_sub(1));
        if let Some(image) = known.or_else(|| self.image_at(pc)) {
            return Some(image);
        }
        const NAMES: [&str; 4] = ["object_name", "package", "machoFile", "image"];
        let name = NAMES.iter().find_map(|key| fields.peek(key))?;
        const BASES: [&str; 3] = ["object_addr", "image_addr", "machoLoadAddress"];
        let base = BASES.iter().find_map(|key| unsigned(fields.get(key)?));
        let base = base.filter(|base| *base <= pc).unwrap_or(0);
        symbol_text::function(name, None)?;
        Some(self.unlisted_image(name, base, pc))
    }

    /// Sets the signal of the event by what is known of it: its number, its name, the Mach exception that it was.
    pub fn signal(
        &mut self,
        number: Option<u64>,
        name: Option<String>,
        exception: Option<&str>,
    ) -> Option<&mut Signal> {
        let known = number.and_then(|number| values::signal_name(number, false));
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
pub(super) fn release(version: Option<String>, build: Option<String>) -> String {
    match (version, build) {
        (Some(version), Some(build)) if version != build => format!("{version} ({build})"),
        (Some(text), _) | (None, Some(text)) => text,
        (None, None) => String::new(),
    }
}

/// Puts file, line and column where `recorded.rs` finds them.
fn place_of_source(fields: &mut JsonFields) {
    for (paths, key) in [
        ("abs_path|filename|sourceLocation.file", "sourceFile"),
        ("lineno|sourceLocation.line", "sourceLine"),
        ("sourceLocation.column", "column"),
    ] {
        if let Some(value) = fields.take(paths) {
            fields.push(key, value);
        }
    }
}

/// Bytes from the symbol of a frame to its address; kept for `recorded.rs`.
fn symbol_offset(fields: &mut JsonFields, pc: u64) -> Option<u64> {
    if let Some(offset) = fields.get(SYMBOL_OFFSET) {
        return unsigned(offset);
    }
    let address = |key: &str| unsigned(fields.get(key)?).filter(|address| *address != 0);
    let addresses = ["symbol_addr", "symbolAddress", "symbol.address"].into_iter();
    let mut offsets = addresses.filter_map(|key| pc.checked_sub(address(key)?));
    let offset = offsets.next().or_else(|| unsigned(fields.get("offset")?))?;
    fields.push(SYMBOL_OFFSET, Value::Unsigned(offset));
    Some(offset)
}

/// An image of any layout in JSON.
pub(super) fn image_of(mut fields: JsonFields) -> Image {
    // Those of stackshots have no names; but some are the system's.
    let source = match fields.peek("source") {
        Some("S" | "C") => "[shared cache]",
        Some("K") => "[kernel]",
        Some("A") => ABSOLUTE,
        _ => "",
    };
    let name = fields.text("path").or(fields.text("name|code_file"));
    let cpu = fields.unsigned("cpu_type|code_type.cpu_type").unwrap_or(0);
    let subtype = fields.unsigned("cpu_subtype|code_type.cpu_subtype");
    let arch = values::mach_arch(cpu, subtype.unwrap_or(0)).map(str::to_owned);
    let base = fields.unsigned("base|image_addr|baseAddress").unwrap_or(0);
    let end = fields.unsigned("endOfText").unwrap_or(0);
    let size = fields.unsigned("size|image_size");
    Image {
        name: name.unwrap_or_else(|| source.to_owned()),
        id: id_of(&mut fields),
        base,
        base_svma: fields.unsigned("image_vmaddr").unwrap_or(0),
        size: size.unwrap_or(end.saturating_sub(base)),
        arch: fields.text("arch").or(arch),
        extra: fields.into_extra(),
        ..Image::default()
    }
}

/// The UUID or build id of an image. Of an ELF file `code_id` is the build id, and `debug_id` its front as a GUID: the
/// first three numbers of it have their bytes turned round.
fn id_of(fields: &mut JsonFields) -> Vec<u8> {
    let kind = fields.peek("type");
    let is_elf = kind.is_some_and(|kind| kind.eq_ignore_ascii_case("elf"));
    if !is_elf {
        let id = fields.text("uuid|debug_id|code_id|buildId");
        return values::id(&id.unwrap_or_default());
    }
    let build = fields.peek("code_id").map_or(Vec::new(), values::id);
    if !build.is_empty() {
        return build;
    }
    let mut id = fields.peek("debug_id").map_or(Vec::new(), values::id);
    if id.len() == 16 {
        for number in [0..4, 4..6, 6..8] {
            id[number].reverse();
        }
    }
    id
}

/// Registers by name; in Apple's layout `x` is an array, and each value may be in an object.
pub(super) fn registers(mut state: JsonFields) -> Vec<(String, u64)> {
    let value = |value: Value| match value {
        Value::Map(_) => JsonFields::of(value).unsigned("value"),
        other => unsigned(&other),
    };
    let number_entry = state.list("x").into_iter().enumerate();
    let number_entry = number_entry.map(|(number, register)| (format!("x{number}"), register));
    let all = number_entry.chain(state.into_extra());
    all.filter_map(|(name, register)| Some((name, value(register)?)))
        .collect()
}
