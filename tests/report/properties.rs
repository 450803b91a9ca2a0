//! Writer and reader agree, over reports of any kind; and what a reader promises, over any bytes.

use std::time::Duration;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use crate::support::any_report;
use crate::support::report::{assert_is_part_of, full_report};
use arbitrary::Unstructured;
use proptest::collection::vec;
use proptest::prelude::*;
use wedjat::new;
use wedjat::report::{
    self, AppContextView, AppView, ClosedBy, DamageKind, EventView, Found, HeadView, ImageView,
    LossView, RawFrame, Report, ReportWriter, Sink, SinkError, ThreadView, ValueView, VitalsView,
};

/// The unit of the format.
const NANO: Duration = Duration::from_nanos(1);

fn reports() -> impl Strategy<Value = Report> {
    let report = |bytes: Vec<u8>| any_report::report(&mut Unstructured::new(&bytes));
    vec(any::<u8>(), 0..2000).prop_filter_map("too few bytes", move |bytes| report(bytes).ok())
}

/// `report` with the CRC and count that `other` states: those of its bytes.
fn with_end_of(mut report: Report, other: &Report) -> Report {
    if let (Some(end), Some(other)) = (&mut report.end, &other.end) {
        (end.crc32, end.sections) = (other.crc32, other.sections);
    }
    report
}

proptest! {
    #[test]
    fn writing_and_reading_is_the_identity(report in reports()) {
        let reading = report::read(&report::to_bytes(&report)).unwrap();
        let is_end_missing = |kind| report.end.is_none() && kind == DamageKind::NoEnd;
        prop_assert!(reading.damage.iter().all(|damage| is_end_missing(damage.kind)));
        prop_assert_eq!(&with_end_of(report, &reading.report), &reading.report);
    }

    #[test]
    fn cutting_gives_a_prefix(report in reports(), at in any::<prop::sample::Index>()) {
        let bytes = report::to_bytes(&report);
        let at = at.index(bytes.len());
        if let Ok(cut) = report::read(&bytes[..at]) {
            prop_assert!(!cut.damage.is_empty());
            let whole = report::read(&bytes).unwrap().report;
            assert_is_part_of(&cut.report, &whole);
            prop_assert!(whole.threads.starts_with(&cut.report.threads));
            prop_assert!(whole.images.starts_with(&cut.report.images));
            prop_assert!(whole.samples.starts_with(&cut.report.samples));
        }
    }

    #[test]
    fn flipping_a_byte_is_reported(
        report in reports(),
        at in any::<prop::sample::Index>(),
        flip in 1..=255_u8,
    ) {
        let mut bytes = report::to_bytes(&report);
        let whole = report::read(&bytes).unwrap().report;
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        if let Ok(flipped) = report::read(&bytes) {
            let is_last_check = whole.end.is_some() && at + 4 >= bytes.len();
            prop_assert!(is_last_check || !flipped.damage.is_empty());
            for image in &flipped.report.images {
                prop_assert!(whole.images.contains(image));
            }
            prop_assert!(flipped.report.event.is_none() || flipped.report.event == whole.event);
        }
    }

    #[test]
    fn lying_lengths_cost_no_memory(
        kind in "head|event|thread|image|sample|vitals|context|loss|end|other",
        bytes in vec(any::<u8>(), 0..300),
        length in prop_oneof![Just([0xdf_u8]), Just([0xdd]), Just([0xdb]), Just([0xc6]), Just([0xc9])],
    ) {
        let mut file = vec![0x92, 0xa0 | kind.len() as u8];
        file.extend(kind.as_bytes());
        file.extend([0x81, 0xa6]);
        file.extend(b"frames");
        file.extend(length);
        file.extend([0xff, 0xff, 0xff, 0xfe]);
        file.extend(bytes);
        assert_bounded(&file);
    }
}

#[test]
fn memory_is_bounded_by_the_length_of_the_file() {
    let head = &report::to_bytes(&Report::default())[..];
    let tiny: &[(&[u8], &[u8])] = &[
        // Many sections that are as short as can be.
        (b"", b"\x92\xa5image\x80"),
        (b"", b"\x92\xa6thread\x80"),
        (b"", b"\x92\xa6sample\x80"),
        (b"", b"\x92\xa1x\x80"),
        // Sections of many small values.
        (b"\x92\xa1x\xdd\x00\x00\x80\x00", b"\xc0"),
        (b"\x92\xa1x\xdd\x00\x00\x80\x00", b"\x90"),
        (
            b"\x92\xa6thread\x81\xa6frames\xdd\x00\x00\x80\x00",
            b"\x93\x00\x00\xc0",
        ),
        (b"\x92\xa6thread\x81\xa6frames\xdd\x00\x00\x80\x00", b"\x00"),
        (
            b"\x92\xa6thread\x81\xa9registers\xdf\x00\x00\x80\x00",
            b"\xa0\x00",
        ),
        (
            b"\x92\xa7context\x81\xabbreadcrumbs\xdd\x00\x00\x80\x00",
            b"\x92\x00\xa0",
        ),
        (
            b"\x92\xa7context\x81\xa5marks\xdd\x00\x00\x80\x00",
            b"\x92\xa0\x00",
        ),
        (b"\x92\xa4loss\xdf\x00\x00\x80\x00", b"\xa0\x00"),
        // What looks like sections and is none.
        (b"\xc1", b"\x92\xa4head\x81"),
        (b"\xc1", b"\x92\xa1x\xdf\xff\xff\xff\xff"),
    ];
    for (start, repeated) in tiny {
        let file = [head, start, &repeated.repeat(0x8000)].concat();
        assert_bounded(&file);
    }
    assert_bounded(&report::to_bytes(&full_report()));
}

#[test]
fn writing_allocates_nothing() {
    struct Fixed([u8; 4096], usize);
    impl Sink for Fixed {
        fn write(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
            let to = self
                .0
                .get_mut(self.1..self.1 + bytes.len())
                .ok_or(SinkError { errno: 28 })?;
            to.copy_from_slice(bytes);
            self.1 += bytes.len();
            Ok(())
        }
    }
    let (mut buffer, mut sink) = ([0; 600], Fixed([0; 4096], 0));
    // More frames than there is room for.
    let frames = [new!(RawFrame {
        pc: u64::MAX,
        found: Found::UnwindInfo,
        image: 7,
    }); 200];
    let before = ALL.with(Cell::get);
    let mut writer = ReportWriter::new(&mut buffer, &mut sink);
    let head = HeadView {
        app: AppView {
            name: "a",
            ..AppView::default()
        },
        ..Default::default()
    };
    let mut results = [Ok(()); 8];
    results[0] = writer.section(&head);
    results[1] = writer.section(&EventView {
        message: Some("m"),
        ..Default::default()
    });
    let registers = [("rip", 1), ("rsp", 2)];
    let thread = ThreadView {
        frames: &frames,
        registers: &registers,
        ..Default::default()
    };
    results[2] = writer.section(&thread);
    results[3] = writer.section(&ImageView {
        name: "i",
        id: &[1; 20],
        ..Default::default()
    });
    results[4] = writer.section(&AppContextView {
        keys: &[("key", ValueView::Text("value"))],
        breadcrumbs: &[(NANO, "one"), (2 * NANO, "two")],
        gauges: &[("gauge", 0.5)],
        marks: &[("mark", NANO, None)],
    });
    results[5] = writer.section(&VitalsView {
        uptime: Some(NANO),
        ..Default::default()
    });
    results[6] = writer.section(&LossView {
        counts: &[("quota", 1)],
    });
    results[7] = writer.finish(ClosedBy::Writer).map(|_| ());
    assert_eq!(ALL.with(Cell::get), before, "something was allocated");
    assert_eq!(results, [Ok(()); 8]);
    assert_eq!(
        report::read(&sink.0[..sink.1])
            .unwrap()
            .report
            .threads
            .len(),
        1
    );
}

fn assert_bounded(file: &[u8]) {
    let before = PEAK.with(|peak| {
        peak.set(NOW.with(Cell::get));
        peak.get()
    });
    let reading = report::read(file);
    let used = PEAK.with(Cell::get) - before;
    drop(reading);
    // Messages of damages are counted apart: there are at most so many.
    let most = 100 * file.len() as isize + (report::limits::DAMAGES as isize + 1) * 1024;
    assert!(
        used <= most,
        "{used} bytes for a file of {}: {:x?}…",
        file.len(),
        &file[..40.min(file.len())]
    );
}

thread_local! {
    /// Bytes that this thread holds, and the most that it held.
    static NOW: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    /// How often this thread allocated.
    static ALL: Cell<u64> = const { Cell::new(0) };
}

/// Counts what each thread holds.
struct Counting;

// SAFETY: hands on to the system's allocator; counting touches thread-locals without destructors.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        ALL.with(|all| all.set(all.get() + 1));
        // SAFETY: the caller's duties are handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's duties are handed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn count(bytes: isize) {
    NOW.with(|now| {
        now.set(now.get() + bytes);
        PEAK.with(|peak| peak.set(peak.get().max(now.get())));
    });
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
