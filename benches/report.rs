//! Reports: how large, where the bytes go, how long to write and to read.
//!
//! `cargo bench --bench report` prints a table of bytes first.

#[path = "../tests/report_support/mod.rs"]
mod report_support;

use std::hint::black_box;
use std::io::Write;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use report_support::{Lengths, Shape, stall_report};
use wedjat::report;

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
        group.bench_function("survey", |b| b.iter(|| report::survey(black_box(&bytes))));
        let reading = report::read(&bytes).unwrap();
        group.bench_function("to_bytes", |b| {
            b.iter(|| report::to_bytes(black_box(&reading.report)))
        });
        group.finish();
    }
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

criterion_group!(benches, reports);
criterion_main!(benches);
