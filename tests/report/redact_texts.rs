//! What scrubbing leaves of single texts: home folders and addresses in every spelling.

use wedjat::new;
use wedjat::report::{Event, Image, Redact, Report, Value, redact};

/// The message of a report with this one, and with an image at 0x104f3c000, after scrubbing.
fn scrubbed(message: &str) -> String {
    let mut report = Report::default();
    report.event = Some(new!(Event {
        message: Some(message.to_owned()),
    }));
    report.images.push(new!(Image {
        name: "/usr/lib/libapp.so".to_owned(),
        base: 0x1_04f3_c000,
        size: 0x10_0000,
    }));
    redact(&mut report, &Redact::default());
    report.event.unwrap().message.unwrap()
}

fn check(table: &[(&str, &str)]) {
    let wrong: Vec<String> = table
        .iter()
        .map(|(text, expected)| (text, expected, scrubbed(text)))
        .filter(|(_, expected, found)| **expected != found)
        .map(|(text, expected, found)| format!("{text}\n  {found}\n  {expected} was expected"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn users_in_paths() {
    check(&[
        ("/Users/alice/x", "/Users/(user)/x"),
        ("/home/alice", "/home/(user)"),
        ("/home/alice/", "/home/(user)/"),
        (r"C:\Users\alice\x", r"C:\Users\(user)\x"),
        ("C:/Users/alice/x", "C:/Users/(user)/x"),
        (r"\\?\C:\Users\alice\x", r"\\?\C:\Users\(user)\x"),
        // Escaped: JSON, JSON in JSON, URLs.
        (
            r#"{"p":"\/Users\/alice\/x"}"#,
            r#"{"p":"\/Users\/(user)\/x"}"#,
        ),
        (
            r#"{"p":"C:\\Users\\alice\\x"}"#,
            r#"{"p":"C:\\Users\\(user)\\x"}"#,
        ),
        (
            r#"{\"p\":\"C:\\\\Users\\\\alice\"}"#,
            r#"{\"p\":\"C:\\\\Users\\\\(user)\"}"#,
        ),
        (
            r#"{\"p\":\"\\/home\\/alice\"}"#,
            r#"{\"p\":\"\\/home\\/(user)\"}"#,
        ),
        (
            r"\u002fUsers\u002Falice\u002fx",
            r"\u002fUsers\u002F(user)\u002fx",
        ),
        ("?f=%2FUsers%2falice%2Fx", "?f=%2FUsers%2f(user)%2Fx"),
        ("%252Fhome%252Falice%252Fx", "%252Fhome%252F(user)%252Fx"),
        ("C%3A%5CUsers%5Calice%5Cx", "C%3A%5CUsers%5C(user)%5Cx"),
        ("file:///Users/alice/x.txt", "file:///Users/(user)/x.txt"),
        ("file:///home/alice?line=3", "file:///home/(user)?line=3"),
        // Written twice, or by way of here and there.
        ("//home//alice//x", "//home//(user)//x"),
        ("/home/./alice/x", "/home/./(user)/x"),
        ("/Users/.//./alice/x", "/Users/.//./(user)/x"),
        ("/home/alice/../bob/x", "/home/(user)/../(user)/x"),
        ("/home/../home/alice/x", "/home/../home/(user)/x"),
        (r"C:\\Users\\.\\alice", r"C:\\Users\\.\\(user)"),
        // Letter case, of the folder, and of the name elsewhere.
        ("/users/alice/x", "/users/(user)/x"),
        (r"c:\USERS\ALICE\x", r"c:\USERS\(user)\x"),
        ("/HOME/alice/x", "/HOME/(user)/x"),
        (
            "/home/alice/x: Alice may not",
            "/home/(user)/x: (user) may not",
        ),
        ("ALICE, see /home/alice", "(user), see /home/(user)"),
        ("/home/zoë/x for ZOË", "/home/(user)/x for (user)"),
        // Other folders of users.
        ("/export/home/alice/x", "/export/home/(user)/x"),
        ("/nfs/homes/alice/x", "/nfs/homes/(user)/x"),
        (
            "/System/Volumes/Data/Users/alice/x",
            "/System/Volumes/Data/Users/(user)/x",
        ),
        (
            r"C:\Documents and Settings\alice\x",
            r"C:\Documents and Settings\(user)\x",
        ),
        (
            "/c/Documents%20and%20Settings/alice/x",
            "/c/Documents%20and%20Settings/(user)/x",
        ),
        ("open ~alice/notes.txt", "open ~(user)/notes.txt"),
        ("HOME=/home/alice", "HOME=/home/(user)"),
        // Where the name ends.
        ("/Users/Alice Smith/x, Alice", "/Users/(user)/x, (user)"),
        ("in /Users/alice.", "in /Users/(user)."),
        ("(/home/alice)", "(/home/(user))"),
        ("</home/alice>", "</home/(user)>"),
        ("/home/alice,/home/bob", "/home/(user),/home/(user)"),
        ("/home/alice;x", "/home/(user);x"),
        ("'/home/alice'", "'/home/(user)'"),
        ("`/home/alice`", "`/home/(user)`"),
        ("/home/alice|/x", "/home/(user)|/x"),
        ("file:///home/alice#top", "file:///home/(user)#top"),
        // What is none, or is no name to remove elsewhere.
        ("malice in /home/alice", "malice in /home/(user)"),
        ("/usr/share/x", "/usr/share/x"),
        ("/home/", "/home/"),
        ("/homework/x", "/homework/x"),
        ("about ~10/20 of it", "about ~10/20 of it"),
        (
            "GET https://x.org/users/profile: no profile",
            "GET https://x.org/users/(user): no profile",
        ),
        ("/home/root/x as root", "/home/(user)/x as root"),
    ]);
}

#[test]
fn addresses_in_every_spelling() {
    check(&[
        ("at 0x7ffd12345678", "at 0x678"),
        ("at 0X7FFD12345678", "at 0X678"),
        ("at 7ffd12345678", "at 000000000678"),
        ("at 7FFD12345678.", "at 000000000678."),
        ("at 00007ffd12345678", "at 0000000000000678"),
        ("at 0000000016fd0000", "at 0000000016fd0000"),
        ("at 000000016fdff120", "at 0000000000000120"),
        ("at 0x0000000000007ffd12345678", "at 0x678"),
        ("at 0x7ffd_1234_5678", "at 0x678"),
        ("at 00007ffd`12345678", "at 0000000000000678"),
        ("mov 7ffd12345678h", "mov 000000000678h"),
        (
            "7f1234567000-7f1234589000 r-xp",
            "000000000000-000000000000 r-xp",
        ),
        ("$7ffd12345678", "$000000000678"),
        ("<7ffd12345678>", "<000000000678>"),
        // Those in an image move with it.
        ("0x104f3c010", "0x100000010"),
        ("0X104F3C010", "0X100000010"),
        ("104f3c010", "100000010"),
        ("0000000104f3c010", "0000000100000010"),
        ("4378050576 in decimal", "4294967312 in decimal"),
        // No addresses: codes, times, ids, hashes, names.
        ("code 0xdeadbeef", "code 0xdeadbeef"),
        ("EXC_BAD_ACCESS 0x10", "EXC_BAD_ACCESS 0x10"),
        ("at 1795219200000", "at 1795219200000"),
        ("on 2026-11-21", "on 2026-11-21"),
        (
            "550e8400-e29b-41d4-a716-446655440abc",
            "550e8400-e29b-41d4-a716-446655440abc",
        ),
        (
            "d41d8cd98f00b204e9800998ecf8427e",
            "d41d8cd98f00b204e9800998ecf8427e",
        ),
        ("_ZN3foo17h0123456789abcdefE", "_ZN3foo17h0123456789abcdefE"),
        ("foo_7ffd12345678", "foo_7ffd12345678"),
        ("acceded 12345678", "acceded 12345678"),
        ("größe7ffd12345678", "größe7ffd12345678"),
    ]);
}

#[test]
fn values_of_keys_that_hold_names_and_secrets() {
    let is_removed = |key: &str| {
        let mut report = Report::default();
        let value = Value::Map(vec![(
            Value::Text(key.to_owned()),
            Value::Text("value".to_owned()),
        )]);
        report.head.extra = vec![("state".to_owned(), value)];
        report.head.app.extra = vec![(key.to_owned(), Value::Text("value".to_owned()))];
        redact(&mut report, &Redact::default());
        let nested = !format!("{:?}", report.head.extra).contains("value");
        assert_eq!(
            nested,
            report.head.app.extra[0].1 != Value::Text("value".into())
        );
        nested
    };
    let secret = [
        "pwd",
        "PWD",
        "user_pwd",
        "jwt",
        "idJwt",
        "private_key",
        "privateKey",
        "PRIVATE-KEY",
        "privkey",
        "passphrase",
        "passcode",
        "accessKeyId",
        "ssh_key",
        "csrf",
        "pin",
        "bearer",
        "cardNumber",
        "iban",
        "firstName",
        "last_name",
        "nickname",
        "birthday",
        "login",
        "hostname",
        "deviceName",
        "serialNumber",
        "ip",
        "ipAddr",
        "ssid",
        "postcode",
        "gps",
        "idfa",
    ];
    let kept: Vec<_> = secret.iter().filter(|key| !is_removed(key)).collect();
    assert!(kept.is_empty(), "{kept:?}");
    let plain = [
        "screen",
        "plan",
        "spinner",
        "mapping",
        "className",
        "tip",
        "clip",
        "option",
        "pipeline",
        "name",
        "key",
        "private",
        "fileName",
        "credits",
        "count",
    ];
    let removed: Vec<_> = plain.iter().filter(|key| is_removed(key)).collect();
    assert!(removed.is_empty(), "{removed:?}");
}

/// A key names a user as a value does.
#[test]
fn users_in_keys() {
    let mut report = Report::default();
    let value = Value::Text("open".to_owned());
    report.head.extra = vec![("/home/alice/a.db".to_owned(), value)];
    redact(&mut report, &Redact::default());
    assert_eq!(report.head.extra[0].0, "/home/(user)/a.db");
}
