//! With the feature `tracing`: stalls and reports are events, spans are marks, and errors are breadcrumbs.

use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use wedjat::load::{CpuLoad, MemoryLoad, SlowFrames};
use wedjat::stall::StallEvent;
use wedjat::{Crash, Stall};

use crate::support::stall::{burn, is_child, tell_all_starved};
use crate::{MS, builder, folder, reports, stalls};

/// The events of the recorder from now on, a line each.
fn listen() -> Arc<Mutex<Vec<String>>> {
    use std::fmt::Write;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    struct Listener(Arc<Mutex<Vec<String>>>);
    struct Words(String);
    impl Visit for Words {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            write!(self.0, "{}={value:?} ", field.name()).unwrap();
        }
    }
    impl Subscriber for Listener {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "wedjat"
        }
        fn event(&self, event: &Event<'_>) {
            let mut words = Words(String::new());
            event.record(&mut words);
            self.0.lock().unwrap().push(words.0);
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }
    let events = Arc::new(Mutex::new(Vec::new()));
    tracing::subscriber::set_global_default(Listener(events.clone())).unwrap();
    events
}

#[test]
fn a_stall_and_its_report_are_events_of_tracing() {
    let test = "with_tracing::a_stall_and_its_report_are_events_of_tracing";
    if is_child() {
        let events = listen();
        let monitor = builder(&folder(test))
            .stall(Stall::default())
            .install()
            .unwrap();
        println!("ready");
        stalls(&monitor, |stats| stats.reports > 0);
        drop(monitor);
        tell_all_starved();
        let events = events.lock().unwrap();
        let all = events.join("\n");
        assert_eq!(events.len(), 3, "{all}");
        for (word, count) in [
            ("message=stall thread=", 1),
            ("message=stall over", 1),
            ("class=", 2),
            ("path=", 1),
        ] {
            assert_eq!(all.matches(word).count(), count, "{word} in {all}");
        }
        return;
    }
    assert_eq!(reports(test).len(), 1);
}

/// A report of each kind that a process which goes on can have.
#[test]
fn each_kind_of_report_is_an_event() {
    let test = "with_tracing::each_kind_of_report_is_an_event";
    const KINDS: [&str; 5] = ["-live-", "-panic-", "-cpu-", "-memory-", "-stall-"];
    if is_child() {
        let events = listen();
        let frames = SlowFrames::default().lasting(500 * MS).cpu(0.02);
        let monitor = builder(&folder(test))
            .crash(Crash::default())
            .cpu(CpuLoad::default().share(0.01).over(1_000 * MS))
            .memory(MemoryLoad::default().bytes(2 << 20))
            .slow_frames(frames)
            .install()
            .unwrap();
        println!("ready");
        monitor.record("now").unwrap();
        std::panic::catch_unwind(|| panic!("the basket is empty")).unwrap_err();
        let is_told = |kind: &str| {
            let events = events.lock().unwrap();
            let mut of_kind = events.iter().filter(|event| event.contains(kind));
            of_kind
                .next()
                .is_some_and(|event| event.starts_with("message=report path="))
        };
        let begin = Instant::now();
        while !KINDS.into_iter().all(is_told) && begin.elapsed() < Duration::from_secs(60) {
            monitor.frame();
            burn(150 * MS);
        }
        tell_all_starved();
        assert!(KINDS.into_iter().all(is_told), "{:?}", events.lock());
        return;
    }
    // Slow frames are reported as a stall.
    assert!(reports(test).len() >= KINDS.len());
}

/// With the feature `tracing`, a report recorded within a span has it as a mark, and what went wrong so far as breadcrumbs.
#[test]
fn spans_are_marks_and_errors_are_breadcrumbs() {
    use tracing_subscriber::layer::SubscriberExt;
    use wedjat::context::TracingLayer;

    let test = "with_tracing::spans_are_marks_and_errors_are_breadcrumbs";
    if is_child() {
        let monitor = builder(&folder(test)).install().unwrap();
        let layer = TracingLayer::new(monitor.context());
        let registry = tracing_subscriber::registry().with(layer);
        tracing::subscriber::set_global_default(registry).unwrap();
        println!("ready");
        let checkout = tracing::info_span!("checkout", user = 7).entered();
        tracing::info_span!("load prices").in_scope(|| sleep(20 * MS));
        tracing::error!(target: "till", status = 503, host = "a b", "no {}", "prices");
        tracing::warn!(target: "till", "slow");
        tracing::info!(target: "till", "not wanted");
        tracing::error!(target: "wedjat", "the recorder's own");
        tracing::warn!(target: "till", long = "ä".repeat(500), "much");
        monitor.record("within").unwrap();
        drop(checkout);
        monitor.record("after").unwrap();
        return;
    }
    let mut reports = reports(test);
    assert_eq!(reports.len(), 2);
    // While the span lasts its mark has no duration.
    reports.sort_by_key(|report| report.context.as_ref().unwrap().marks[0].2);
    let [within, after] = [0, 1].map(|at| reports[at].context.as_ref().unwrap());
    let [checkout, load] = &within.marks[..] else {
        panic!("{:?}", within.marks);
    };
    assert_eq!((checkout.0.as_str(), checkout.2), ("checkout", None));
    assert_eq!(load.0, "load prices");
    assert!(load.2.unwrap() >= 20 * MS && load.1 >= checkout.1);
    let texts: Vec<&str> = within
        .breadcrumbs
        .iter()
        .map(|(_, text)| text.as_str())
        .collect();
    assert_eq!(
        texts[..2],
        [
            "ERROR till: no prices status=503 host=\"a b\"",
            "WARN till: slow"
        ]
    );
    assert!(texts.len() == 3 && texts[2].starts_with("WARN till: much long=\"ää"));
    // Once the span is closed, its mark has an end.
    assert!(after.marks[0].2.unwrap() >= load.2.unwrap());
}

/// The thread that watches does not wait for a log that the app is stalled in.
#[test]
fn a_stall_within_the_log_is_told_while_it_lasts() {
    let test = "with_tracing::a_stall_within_the_log_is_told_while_it_lasts";
    if is_child() {
        let events = listen();
        let (told, was_told) = std::sync::mpsc::channel();
        let monitor = builder(&folder(test))
            .stall(Stall::default())
            .on_stall(move |event| told.send(matches!(event, StallEvent::Began(_))).unwrap())
            .install()
            .unwrap();
        println!("ready");
        monitor.heartbeat().turn(|| ());
        monitor.heartbeat().turn(|| {
            let _writes = events.lock().unwrap();
            assert!(was_told.recv_timeout(Duration::from_secs(20)).unwrap());
        });
        return;
    }
    assert_eq!(reports(test).len(), 1);
}
