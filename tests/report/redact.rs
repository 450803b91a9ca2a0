//! What scrubbing leaves of a report, and what not.

use std::time::Duration;

use wedjat::new;
use wedjat::report::{
    self, AppContext, Event, Found, Frame, Image, Redact, Report, Signal, Thread, Value, Watched,
    redact,
};

/// The unit of the format.
const NANO: Duration = Duration::from_nanos(1);

const SLIDE: u64 = 0x5555_1234_5000;

fn report() -> Report {
    let mut report = Report::default();
    report.head.app.name = "MyApp".to_owned();
    report.event = Some(new!(Event {
        reason: Some("alice's file C:\\Users\\Alice B\\x.txt is locked".to_owned()),
        message: Some(
            "no /home/alice/.config/app, nor /Users/alice: ask alice or malice".to_owned(),
        ),
        signal: Some(new!(Signal {
            address: Some(SLIDE + 0x10),
        })),
        watched: Some(new!(Watched {
            name: "alice-sync".to_owned(),
        })),
    }));
    let frame = |pc, image| {
        new!(Frame {
            pc,
            found: Found::UnwindInfo,
            image,
            name: None,
        })
    };
    report.threads = vec![new!(Thread {
        id: 77,
        name: Some("alice-worker".to_owned()),
        registers: vec![
            ("rip".to_owned(), SLIDE + 0x10),
            ("rsp".to_owned(), 0x7ffd_1234_5678),
            ("rax".to_owned(), 0x6c61_6963_6500),
        ],
        frames: vec![frame(SLIDE + 0x10, Some(0)), frame(0x7f00_2345_6789, None)],
    })];
    report.images = vec![
        new!(Image {
            name: "/home/alice/bin/myapp".to_owned(),
            id: vec![7; 20],
            base: SLIDE,
            base_svma: 0x1000,
            size: 0x4000,
        }),
        new!(Image {
            name: "/usr/lib/libc.so.6".to_owned(),
            base: 0x7fff_0000_0000,
            size: 0x20_0000,
        }),
    ];
    report.memory = vec![new!(report::NearMemory {
        of: "rdi".to_owned(),
        at: 0x7ffd_1234_5678,
        bytes: b"alice's password".to_vec(),
        text: Some("hunter2".to_owned()),
    })];
    let text = |text: &str| Value::Text(text.to_owned());
    report.context = Some(new!(AppContext {
        keys: vec![
            ("screen".to_owned(), text("Checkout")),
            ("userEmail".to_owned(), text("a@example.org")),
            ("access_TOKEN".to_owned(), text("eyJh")),
            ("blob".to_owned(), Value::Bytes(b"secret".to_vec())),
            (
                "login".to_owned(),
                Value::Map(vec![(text("Password"), text("hunter2"))]),
            ),
            ("view".to_owned(), Value::Unsigned(SLIDE + 0x20)),
        ],
        breadcrumbs: vec![
            (NANO, "opened /Users/alice/Documents/My plan.pdf".to_owned()),
            (
                2 * NANO,
                format!("error 0x80070005 at {SLIDE:#x}, <View: 0x7ffd1234abcd>"),
            ),
        ],
    }));
    report.unknown = vec![(
        "heap".to_owned(),
        Value::Map(vec![(
            text("stack"),
            Value::Array(vec![Value::Bytes(b"secret".to_vec())]),
        )]),
    )];
    report
}

fn redacted() -> Report {
    let mut report = report();
    redact(&mut report, &Redact::default());
    report
}

#[test]
fn nothing_secret_is_left_in_the_bytes() {
    let before = report::to_bytes(&report());
    let after = report::to_bytes(&redacted());
    let holds = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
    let secrets: &[&[u8]] = &[
        b"/alice",
        b"alice-",
        b"Alice B",
        b"ask alice",
        b"a@example.org",
        b"alice-sync",
        b"eyJh",
        b"hunter2",
        b"0x555512345000",
        b"0x7ffd1234abcd",
        b"secret",
        // The randomised parts of addresses, as the report holds them: big-endian.
        &(SLIDE + 0x10).to_be_bytes(),
        &SLIDE.to_be_bytes(),
        &0x7ffd_1234_5678_u64.to_be_bytes(),
        &0x7f00_2345_6789_u64.to_be_bytes(),
        &0x7fff_0000_0000_u64.to_be_bytes(),
        &0x6c61_6963_6500_u64.to_be_bytes(),
    ];
    for secret in secrets {
        assert!(holds(&before, secret), "{secret:x?} was never there");
        assert!(!holds(&after, secret), "{secret:x?} is still there");
    }
}

#[test]
fn what_helps_is_left() {
    let report = redacted();
    let event = report.event.unwrap();
    assert_eq!(
        event.reason.unwrap(),
        "(user)'s file C:\\Users\\(user)\\x.txt is locked"
    );
    assert_eq!(
        event.message.unwrap(),
        "no /home/(user)/.config/app, nor /Users/(user): ask (user) or malice"
    );
    assert_eq!(report.images[0].name, "/home/(user)/bin/myapp");
    assert_eq!(report.images[0].id, [7; 20]);
    let context = report.context.unwrap();
    assert_eq!(context.keys[0].1, Value::Text("Checkout".to_owned()));
    assert_eq!(context.keys[1].1, Value::Text(report::REMOVED.to_owned()));
    assert_eq!(
        context.breadcrumbs[0].1,
        "opened /Users/(user)/Documents/My plan.pdf"
    );
    // Codes stay; addresses move with their image, or are cut down to their place in the page.
    assert_eq!(
        context.breadcrumbs[1].1,
        "error 0x80070005 at 0x100000000, <View: 0xbcd>"
    );
    assert_eq!(context.keys[5].1, Value::Unsigned(0x1_0000_0020));
}

#[test]
fn marks_behind_a_name_are_no_part_of_it() {
    for (text, expected) in [
        (
            "cannot read /home/alice, denied for alice",
            "cannot read /home/(user), denied for (user)",
        ),
        ("alice? (/home/alice).", "(user)? (/home/(user))."),
        ("<C:\\Users\\alice>; alice!", "<C:\\Users\\(user)>; (user)!"),
        ("/Users/al.ice (x)/a: al.ice (x)", "/Users/(user)/a: (user)"),
        (
            "/home/(user), /home/(user)/a",
            "/home/(user), /home/(user)/a",
        ),
        (
            "from /home/alice, to /home/carol: alice",
            "from /home/(user), to /home/(user): (user)",
        ),
        ("/home/..., /home/", "/home/..., /home/"),
    ] {
        let mut report = Report::default();
        report.event.get_or_insert_default().reason = Some(text.to_owned());
        // Once more changes nothing.
        for _ in 0..2 {
            redact(&mut report, &Redact::default());
            let event = report.event.as_ref().unwrap();
            assert_eq!(event.reason.as_deref(), Some(expected));
        }
    }
}

#[test]
fn addresses_mean_the_same_place_in_the_same_image() {
    let report = redacted();
    let [first, second] = &report.images[..] else {
        panic!()
    };
    let frame = &report.threads[0].frames[0];
    assert_eq!(frame.pc - first.base + first.base_svma, 0x1010);
    assert_eq!(report.threads[0].registers, [("rip".to_owned(), frame.pc)]);
    assert_eq!(
        report.event.unwrap().signal.unwrap().address,
        Some(frame.pc)
    );
    assert!(first.base + first.size < second.base);
    // Of an address in no image, only its place in the page.
    assert_eq!(report.threads[0].frames[1].pc, 0x789);
}

#[test]
fn two_launches_differ_by_nothing_that_was_randomised() {
    let mut other = report();
    let text = &mut other.context.as_mut().unwrap().breadcrumbs[1].1;
    *text = text.replace("0x555512345000", "0x555522345000");
    let view = &mut other.context.as_mut().unwrap().keys[5].1;
    *view = Value::Unsigned(SLIDE + 0x20 + 0x1000_0000);
    other.images[0].base += 0x1000_0000;
    other.threads[0].frames[0].pc += 0x1000_0000;
    other.threads[0].registers[0].1 += 0x1000_0000;
    let signal = other.event.as_mut().unwrap().signal.as_mut().unwrap();
    *signal.address.as_mut().unwrap() += 0x1000_0000;
    redact(&mut other, &Redact::default());
    assert_eq!(other, redacted());
}

#[test]
fn patterns_are_the_caller_s_to_choose() {
    let mut report = report();
    let mut rules = Redact::default();
    rules.keys = vec!["SCR*n".to_owned()];
    redact(&mut report, &rules);
    let keys = report.context.unwrap().keys;
    assert_eq!(keys[0].1, Value::Text(report::REMOVED.to_owned()));
    assert_eq!(keys[1].1, Value::Text("a@example.org".to_owned()));
}

#[test]
fn a_hostile_report_is_scrubbed_too() {
    let mut report = report();
    report.images[0].size = u64::MAX;
    report.images[1].base = u64::MAX;
    report.threads[0].frames[0].image = Some(9);
    report.threads[0].name = Some("/home/é/Users//home/\u{1f4a5}".to_owned());
    redact(&mut report, &Redact::default());
}
