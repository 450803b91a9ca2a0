//! The fleet's reports, by the writer that the recorder uses.

use std::time::{Duration, SystemTime};

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use wedjat::new;
use wedjat::report::{
    AppView, ClosedBy, EventKind, EventView, Found, HeadView, ImageView, OsView, RawFrame,
    ReportWriter, SampleView, StallClass, StallEndView, StallOutcome, ThreadState, ThreadView,
    ThresholdsView, WalkEnd,
};

use super::app::{App, BASE, Language, VERSIONS};
use super::random::Random;
use super::stalls::World;

const DEVICES: [&str; 12] = [
    "ThinkPad X1",
    "XPS 13",
    "Latitude 7440",
    "EliteBook 840",
    "Surface Pro 9",
    "NUC 12",
    "Till 3000",
    "Till 3000 Plus",
    "Kiosk Mini",
    "ProDesk 400",
    "OptiPlex 7010",
    "Raspberry Pi 5",
];
/// The exponent of Zipf's law.
const ZIPF: f64 = 1.07;
/// Reports that were cut, and such of which bytes were changed.
const CUT: f64 = 0.02;
const DAMAGED: f64 = 0.01;
/// Samples that show something else than the stall.
const ELSEWHERE: f64 = 0.15;
/// Reports of which the first stack was taken when something else ran.
const LATE: f64 = 0.1;
/// Reports in a folder.
const FOLDER: u64 = 1000;

pub struct Fleet {
    pub language: Language,
    /// How many stalls the app has.
    pub stalls: usize,
    /// How many of the app's versions there are.
    pub versions: usize,
    pub count: u64,
    pub seed: u64,
    pub per_file: u64,
}

impl Fleet {
    pub fn write(&self, folder: &Path) -> Result<(), Box<dyn Error>> {
        let world = World::new(self.seed, self.stalls);
        let mut apps = Vec::new();
        let versions = VERSIONS.iter().take(self.versions);
        for (index, (version, _)) in versions.clone().enumerate() {
            apps.push(App::compile(
                &world,
                self.language,
                self.seed,
                index,
                &folder.join("debug").join(version),
            )?);
        }
        let mut sum = 0.0;
        let zipf: Vec<f64> = (0..self.stalls)
            .map(|rank| {
                sum += 1.0 / ((rank + 1) as f64).powf(ZIPF);
                sum
            })
            .collect();
        let mut sum = 0.0;
        let shares: Vec<f64> = versions
            .map(|(_, share)| {
                sum += share;
                sum
            })
            .collect();
        let mut truth = BufWriter::new(File::create(folder.join("truth.tsv"))?);
        let mut random = Random::new(self.seed);
        let (mut file, mut bytes, mut frames) = (Vec::new(), 0, 0);
        for number in 0..self.count {
            let stall = random.weighted(&zipf);
            let version = random.weighted(&shares);
            let mut report = Report {
                world: &world,
                app: &apps[version],
                version: VERSIONS[version].0,
                stall,
                random: &mut random,
                frames: 0,
            };
            let (id, mut report_bytes) = report.write(number)?;
            frames += report.frames;
            damage(&mut report_bytes, &mut random);
            writeln!(truth, "{id}\t{stall}")?;
            file.extend_from_slice(&report_bytes);
            if (number + 1) % self.per_file == 0 || number + 1 == self.count {
                let index = number / self.per_file;
                let below = folder.join(format!("reports/{:04}", index / FOLDER));
                if index.is_multiple_of(FOLDER) {
                    std::fs::create_dir_all(&below)?;
                }
                std::fs::write(below.join(format!("{index:07}.wedjat")), &file)?;
                bytes += file.len();
                file.clear();
            }
        }
        truth.flush()?;
        println!(
            "{} reports of {} stalls in {} versions: {frames} frames, {bytes} bytes",
            self.count,
            self.stalls,
            apps.len()
        );
        Ok(())
    }
}

/// Cuts a report, or changes some of its bytes, as often as that happens.
fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    if random.chance(CUT) {
        bytes.truncate(random.below(bytes.len()).max(200));
    } else if random.chance(DAMAGED) {
        for _ in 0..4 {
            let at = random.below(bytes.len());
            bytes[at] = random.next() as u8;
        }
    }
}

struct Report<'a> {
    world: &'a World,
    app: &'a App,
    version: &'a str,
    stall: usize,
    random: &'a mut Random,
    frames: u64,
}

/// Where libc lies; its offsets are of no version, and its debug file is nowhere.
const LIBC: u64 = 0x7f00_0000_0000;

impl Report<'_> {
    /// Its id, and its bytes.
    fn write(&mut self, number: u64) -> Result<(String, Vec<u8>), Box<dyn Error>> {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.random.next().to_be_bytes());
        id[8..].copy_from_slice(&number.to_be_bytes());
        let mut buffer = vec![0; 1 << 14];
        let mut writer = ReportWriter::new(&mut buffer, Vec::new());
        let failed = |error| format!("{error}");
        let device = DEVICES[self.random.below(DEVICES.len())];
        writer
            .section(&HeadView {
                id,
                launch: id,
                time: SystemTime::UNIX_EPOCH + Duration::from_secs(1_790_000_000 + number),
                clock: Duration::from_nanos(1 + number),
                app: AppView {
                    name: "till",
                    version: self.version,
                },
                os: OsView {
                    name: "Linux",
                    version: "6.1.0",
                    ..OsView::default()
                },
                device: Some(device),
                arch: "x86_64",
                pid: 1000 + number % 30_000,
                ..HeadView::default()
            })
            .map_err(failed)?;
        writer
            .section(&EventView {
                kind: EventKind::Stall,
                fatal: false,
                reason: Some("the main thread did not come round for 250 ms"),
                signal: None,
                name: None,
                message: None,
                location: None,
                class: Some(StallClass::Busy),
                thread: None,
                thresholds: Some(ThresholdsView {
                    timeout: Duration::from_millis(50),
                    strikes: 5,
                }),
                watched: None,
            })
            .map_err(failed)?;
        // Each launch has its libc elsewhere; the program itself is not moved.
        let libc = LIBC + ((self.random.next() & 0xfff_ffff) << 12);
        let late = self.random.chance(LATE);
        let first = self.stack(libc, late);
        writer
            .section(&ThreadView {
                id: 1000 + number % 30_000,
                name: Some("main"),
                main: true,
                crashed: false,
                state: Some(ThreadState::Running),
                syscall: None,
                cpu: None,
                registers: &[],
                frames: &first,
                tasks: Default::default(),
                end: Some(WalkEnd::Root),
                omitted: None,
            })
            .map_err(failed)?;
        let image = |name, id, base, size| ImageView {
            name,
            id,
            base,
            base_svma: if base == BASE { BASE } else { 0 },
            size,
            arch: Some("x86_64"),
            text_hash: None,
        };
        let program = image(
            "/opt/till/till",
            &self.app.build_id[..],
            BASE,
            self.app.size,
        );
        writer.section(&program).map_err(failed)?;
        let system = image(
            "/usr/lib/x86_64-linux-gnu/libc.so.6",
            &[7; 20][..],
            libc,
            0x1f_0000,
        );
        writer.section(&system).map_err(failed)?;
        let spread = 0.3 + 2.0 * self.random.share() * self.random.share();
        let duration = (self.world.millis[self.stall] * spread).max(251.0) * 1e6;
        let mut before: Vec<RawFrame> = Vec::new();
        let count = 3 + self.random.below(8);
        for index in 0..count {
            let elsewhere = self.random.chance(ELSEWHERE);
            let stack = self.stack(libc, elsewhere);
            let same = stack.iter().rev().zip(before.iter().rev());
            let keep = same.take_while(|(a, b)| a == b).count();
            writer
                .section(&SampleView {
                    at: nanos(duration * (0.25 + 0.7 * index as f64 / count as f64)),
                    state: Some(ThreadState::Running),
                    count: 1 + self.random.below(3) as u64,
                    keep: keep as u64,
                    frames: &stack[..stack.len() - keep],
                    ..SampleView::default()
                })
                .map_err(failed)?;
            before = stack;
        }
        writer
            .section(&StallEndView {
                duration: nanos(duration),
                how: StallOutcome::Recovered,
                ..StallEndView::default()
            })
            .map_err(failed)?;
        let bytes = writer.finish(ClosedBy::Writer).map_err(failed)?;
        let id = id.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok((id, bytes))
    }

    /// A stack, innermost first: of the stall, or of something else.
    fn stack(&mut self, libc: u64, elsewhere: bool) -> Vec<RawFrame> {
        let stall = if elsewhere {
            self.random.below(self.world.chains.len())
        } else {
            self.stall
        };
        let chain = &self.world.chains[stall];
        // Sometimes it is on its way there.
        let depth = if elsewhere {
            3 + self.random.below(chain.len() - 3)
        } else {
            chain.len()
        };
        let recursive = self.world.recursive[stall] && depth == chain.len();
        let again = if recursive { self.random.below(6) } else { 0 };
        let own = self.app.stack(&chain[..depth], again);
        let mut frames = Vec::new();
        if self.random.chance(0.6) {
            for _ in 0..1 + self.random.below(3) {
                frames.push((libc + 0x2_8000 + self.random.below(0x10_0000) as u64, 1));
            }
        }
        frames.extend(own.into_iter().map(|offset| (BASE + offset, 0)));
        frames.push((libc + 0x2_724a, 1));
        frames.push((libc + 0x2_7305, 1));
        self.frames += frames.len() as u64;
        let raw = frames.into_iter().enumerate().map(|(at, (pc, image))| {
            new!(RawFrame {
                pc,
                found: if at == 0 {
                    Found::Context
                } else {
                    Found::UnwindInfo
                },
                image,
            })
        });
        raw.collect()
    }
}

fn nanos(count: f64) -> Duration {
    Duration::from_nanos(count as u64)
}
