//! Async frames on Linux arm64: the programs run in qemu, which steps them by gdb's remote protocol, from `main` to its end.
//!
//! The truth is that of the calls and returns since `main`; callers of `main` are not judged.
//!
//! Source: "GDB Remote Serial Protocol" in gdb's manual, and QEMU's gdb-xml/aarch64-core.xml (order of the registers).

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};
use wedjat::unwind::{
    Arch, Bytes, Images, LoadedImage, Memory, Missing, Registers, Section, Unwinder, Walk, WalkEnd,
};

use crate::table::Outcome;
use crate::trace::judge;

type Error = Box<dyn std::error::Error>;

/// The builds: by clang, linked with the cross compiler's C library.
const LEVELS: [&str; 4] = ["-O0", "-O1", "-O2", "-Os"];

/// Most stops of a program.
const MOST: u64 = 1_000_000;

/// Runs all builds; returns true if each stop is exact.
pub fn run(folder: &Path) -> Result<bool, Error> {
    println!("| arm64, async frames | stops | exact | early | certain | guess |");
    println!("| --- | --: | --: | --: | --: | --: |");
    let mut good = true;
    for level in LEVELS {
        let program = build(folder, level)?;
        let counts = step_through(&program, folder)?;
        let [exact, early, wrong, guess] = counts;
        println!(
            "| {level} | {} | {exact} | {early} | {wrong} | {guess} |",
            counts.iter().sum::<u64>()
        );
        good &= exact > 1_000 && early + wrong + guess == 0;
    }
    Ok(good)
}

fn build(folder: &Path, level: &str) -> Result<std::path::PathBuf, Error> {
    let program = folder.join(format!("arm64{level}"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/exactness/async.c");
    const OPTIONS: [&str; 5] = [
        "--target=aarch64-linux-gnu",
        "-static",
        "-fno-omit-frame-pointer",
        // Swift's default.
        "-fasynchronous-unwind-tables",
        "-fswift-async-fp=always",
    ];
    let status = Command::new("/usr/lib/llvm-22/bin/clang")
        .args(OPTIONS)
        .arg(level)
        .arg(source)
        .arg("-o")
        .arg(&program)
        .status()?;
    status
        .success()
        .then_some(program)
        .ok_or_else(|| "clang failed".into())
}

/// Counts of the stops by their outcome: exact, early, wrong and certain, guessed.
fn step_through(program: &Path, folder: &Path) -> Result<[u64; 4], Error> {
    let bytes = std::fs::read(program)?;
    let file = object::File::parse(&*bytes)?;
    let main = file
        .symbols()
        .find(|symbol| symbol.name() == Ok("main"))
        .ok_or("no main")?
        .address();
    let images = Images::new(vec![image(&bytes).ok_or("an odd program")?]);
    let mut guest = Guest::start(program, &folder.join("gdb"))?;
    let mut registers = guest.run_to(main)?;
    // Return addresses of the calls under way.
    let mut calls = vec![registers.lr()];
    let (mut unwinder, mut counts, mut chain) = (Unwinder::new(), [0; 4], Vec::new());
    // By address and outcome.
    let mut misses = BTreeMap::<(u64, usize), u64>::new();
    for _ in 0..MOST {
        chain.clear();
        chain.push(registers.pc());
        chain.extend(calls.iter().rev());
        let outcome = judge_walk(unwinder.walk(&registers, &images, &mut guest), &chain);
        counts[outcome as usize] += 1;
        if outcome != Outcome::Exact {
            *misses
                .entry((registers.pc(), outcome as usize))
                .or_default() += 1;
        }
        let instruction = guest.word(registers.pc()).map_err(|_| "no code at pc")? as u32;
        let before = registers.pc();
        registers = guest.step()?;
        let is_call =
            instruction & 0xfc00_0000 == 0x9400_0000 || instruction & 0xffff_fc1f == 0xd63f_0000;
        if is_call {
            calls.push(before + 4);
        } else if instruction & 0xffff_fc1f == 0xd65f_0000 {
            let target = calls.pop();
            if target != Some(registers.pc()) {
                return Err(format!("{before:#x} returned to {:#x}", registers.pc()).into());
            }
            if calls.is_empty() {
                for ((pc, outcome), count) in misses.iter().take(20) {
                    let what = ["exact", "early", "certain", "guess"][*outcome];
                    eprintln!("{count:8} {what} at {pc:#x} of {}", program.display());
                }
                return Ok(counts);
            }
        }
    }
    Err("the program did not end".into())
}

/// As far as `main`'s caller.
fn judge_walk(mut walk: Walk<'_, &mut Guest>, chain: &[u64]) -> Outcome {
    let frames: Vec<_> = walk.by_ref().take(chain.len()).collect();
    // A walk that was cut short would have gone on.
    let is_cut = frames.len() == chain.len();
    let end = if is_cut {
        Some(WalkEnd::Root)
    } else {
        walk.end()
    };
    judge(chain, &frames, end)
}

/// The one image of a static program.
fn image(bytes: &[u8]) -> Option<LoadedImage> {
    let file = object::File::parse(bytes).ok()?;
    let start = file
        .segments()
        .map(|segment| segment.address() & !0xfff)
        .min()?;
    let end = file
        .segments()
        .map(|segment| segment.address() + segment.size())
        .max()?;
    let section = |name: &str| {
        let section = file.section_by_name(name)?;
        let bytes = Bytes::new(std::sync::Arc::new(section.data().ok()?.to_vec()));
        Some(Section::new(section.address(), bytes))
    };
    let code = [".text", ".plt"].into_iter().filter_map(section);
    let ranges = code
        .map(|code| code.svma..code.svma + code.bytes.len() as u64)
        .collect();
    let image = LoadedImage::new("arm64", start, start, end - start).with_arch(Arch::Arm64);
    let image = image.with_code(ranges).with_text(section(".text")?);
    Some(image.with_eh_frame(section(".eh_frame")?, section(".eh_frame_hdr")))
}

/// A program that qemu runs, and the connection by which it is stepped.
struct Guest {
    qemu: Child,
    connection: UnixStream,
    /// Memory that was read since the last step.
    near: (u64, Vec<u8>),
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

impl Guest {
    fn start(program: &Path, socket: &Path) -> Result<Guest, Error> {
        let _ = std::fs::remove_file(socket);
        let arguments = [OsStr::new("-g"), socket.as_os_str(), program.as_os_str()];
        let mut command = Command::new("qemu-aarch64");
        let mut qemu = command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        let connection = loop {
            match UnixStream::connect(socket) {
                Ok(connection) => break connection,
                Err(error) if qemu.try_wait()?.is_some() => return Err(error.into()),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        connection.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Guest {
            qemu,
            connection,
            near: (0, Vec::new()),
        })
    }

    fn run_to(&mut self, address: u64) -> Result<Registers, Error> {
        self.ask(&format!("Z0,{address:x},4"))?;
        self.ask("c")?;
        self.ask(&format!("z0,{address:x},4"))?;
        self.registers()
    }

    fn step(&mut self) -> Result<Registers, Error> {
        self.near.1.clear();
        match self.ask("s")? {
            reply if reply.starts_with('T') || reply.starts_with('S') => self.registers(),
            reply => Err(format!("the program ended: {reply}").into()),
        }
    }

    fn registers(&mut self) -> Result<Registers, Error> {
        let bytes = from_hex(&self.ask("g")?);
        let words = bytes.chunks_exact(8).take(33);
        let mut registers = Registers::new(Arch::Arm64);
        for (number, word) in words.enumerate() {
            registers.set(number, u64::from_le_bytes(word.try_into()?));
        }
        Ok(registers)
    }

    fn word(&mut self, address: u64) -> Result<u64, Missing> {
        let held = |(base, bytes): &(u64, Vec<u8>)| {
            let offset = usize::try_from(address.checked_sub(*base)?).ok()?;
            let word = bytes.get(offset..offset.checked_add(8)?)?;
            Some(u64::from_le_bytes(word.try_into().ok()?))
        };
        if let Some(word) = held(&self.near) {
            return Ok(word);
        }
        // The highest words of the stack may have less behind them.
        for length in [2048, 256, 8] {
            let reply = self.ask(&format!("m{address:x},{length:x}"));
            let bytes = from_hex(&reply.map_err(|_| Missing::Unreadable)?);
            if bytes.len() == length {
                let read = (address, bytes);
                let word = held(&read).ok_or(Missing::Unreadable)?;
                self.near = read;
                return Ok(word);
            }
        }
        Err(Missing::Unreadable)
    }

    /// Sends a packet, and returns the reply's text.
    fn ask(&mut self, packet: &str) -> Result<String, Error> {
        let sum = packet.bytes().fold(0u8, u8::wrapping_add);
        write!(self.connection, "${packet}#{sum:02x}")?;
        let mut reply = Vec::new();
        let mut buffer = [0; 8192];
        // An acknowledgement, and then `$text#sum`.
        while !(reply.len() > 3 && reply[reply.len() - 3] == b'#') {
            match self.connection.read(&mut buffer)? {
                0 => return Err("qemu has closed the connection".into()),
                count => reply.extend_from_slice(&buffer[..count]),
            }
        }
        self.connection.write_all(b"+")?;
        let text = String::from_utf8(reply)?;
        let begin = text.find('$').ok_or("no packet")? + 1;
        Ok(text[begin..text.len() - 3].to_string())
    }
}

impl Memory for Guest {
    fn read(&mut self, address: u64) -> Result<u64, Missing> {
        self.word(address)
    }
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks_exact(2);
    let byte = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    digits.map_while(byte).collect()
}
