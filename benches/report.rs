//! Reports: how large, where the bytes go, how long to write and to read.
//!
//! `cargo bench --bench report` prints a table of bytes first.

#[path = "../tests/support/report.rs"]
mod report_support;

#[path = "../examples/read_folder.rs"]
#[allow(dead_code, unused_imports, reason = "its `read` alone is measured")]
mod read_folder;

use std::hint::black_box;
use std::io::Write;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use report_support::{Lengths, Shape, stall_report};
use wedjat::new;
use wedjat::report::{self, Found, RawFrame, ReportWriter, ThreadView};

fn reports(c: &mut Criterion) {
    let shapes = [
        ("40 images, 40 samples all different", Shape::APP, 48 << 10),
        ("40 images, 40 samples alike", Shape::ALIKE, 48 << 10),
        (
            "300 images, 40 samples all different",
            Shape::ALL_IMAGES,
            96 << 10,
        ),
    ];
    for (name, shape, budget) in shapes {
        let (bytes, lengths) = stall_report(shape);
        print_table(name, &bytes, &lengths, budget);
        let mut group = c.benchmark_group(format!("report: {name}"));
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function("read", |b| {
            b.iter(|| report::read(black_box(&bytes)).unwrap())
        });
        group.bench_function("read by rmp-serde alone", |b| {
            b.iter(|| read_folder::read(black_box(&bytes)).unwrap())
        });
        group.bench_function("survey", |b| b.iter(|| report::survey(black_box(&bytes))));
        let reading = report::read(&bytes).unwrap();
        group.bench_function("to_bytes", |b| {
            b.iter(|| report::to_bytes(black_box(&reading.report)))
        });
        group.bench_function("write", |b| b.iter(|| stall_report(black_box(shape))));
        group.finish();
    }
}

/// A stack, and breadcrumbs, of which only a part goes into the buffer.
fn what_does_not_fit(c: &mut Criterion) {
    let frame = |index: u64| {
        new!(RawFrame {
            pc: 0x7fff_1234_0000 + 64 * index,
            found: Found::UnwindInfo,
            image: (index % 40) as u32,
        })
    };
    let frames: Vec<RawFrame> = (0..20_000).map(frame).collect();
    let registers: Vec<(&str, u64)> = (0..20).map(|_| ("rax", u64::MAX)).collect();
    let thread = ThreadView {
        id: 1,
        frames: &frames,
        registers: &registers,
        ..ThreadView::default()
    };
    let mut buffer = vec![0; 16 << 10];
    let mut file = Vec::new();
    c.bench_function("report: write 20,000 frames into 16 KiB", |b| {
        b.iter(|| {
            file.clear();
            ReportWriter::new(&mut buffer, &mut file).section(black_box(&thread))
        })
    });
}

/// A hostile file: a million frames, none of which is one.
fn bad_frames(c: &mut Criterion) {
    let (mut bytes, lengths) = stall_report(Shape::APP);
    // Behind `head`.
    bytes.truncate(lengths[0].1 as usize);
    bytes.extend(b"\x92\xa6thread\x81\xa6frames\xdd\x00\x0f\x42\x40");
    bytes.extend(std::iter::repeat_n(0x01, 1_000_000));
    c.bench_function("report: read a million bad frames", |b| {
        b.iter(|| report::read(black_box(&bytes)).unwrap())
    });
}

fn print_table(name: &str, bytes: &[u8], lengths: &Lengths, budget: usize) {
    println!("\n{name}: {} bytes of {budget} allowed", bytes.len());
    println!("| kind | sections | bytes | each | share |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    let mut kinds: Vec<&str> = lengths.iter().map(|(kind, _)| *kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let of = |kind: &str| -> Vec<u64> {
        lengths
            .iter()
            .filter(|(other, _)| *other == kind)
            .map(|(_, length)| *length)
            .collect()
    };
    kinds.sort_by_key(|kind| std::cmp::Reverse(of(kind).iter().sum::<u64>()));
    for kind in kinds {
        let (count, sum) = (of(kind).len() as u64, of(kind).iter().sum::<u64>());
        let share = 100.0 * sum as f64 / bytes.len() as f64;
        println!(
            "| `{kind}` | {count} | {sum} | {} | {share:.1} % |",
            sum / count
        );
    }
    std::io::stdout().flush().ok();
}

criterion_group!(benches, reports, what_does_not_fit, bad_frames);
criterion_main!(benches);
