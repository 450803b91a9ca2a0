//! Sends the reports that earlier launches left, and removes each only once it was accepted.
//!
//! `cargo run --example upload --features debuginfod -- FOLDER URL` posts every report in FOLDER to URL, the oldest
//! first. If URL is a DSN of Sentry or GlitchTip (`https://KEY@HOST/PROJECT`), each report goes there as an event. One that
//! the server has no time for stays, and the next one is tried; without a network, and once a quota is used up, all stay.
//! One that cannot be read, or that the server says it will never take, is set aside, and the others go on. Without
//! arguments it shows that: a process panics, a server of its own is busy, and then takes the report.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use wedjat::report::{Redact, redact};
use wedjat::store::{self, Answer, Sent};
use wedjat::symbolicate::format::{Format, Sentry, Style};
use wedjat::symbolicate::{DebugFiles, Symbolicator};
use wedjat::{Crash, Monitor};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        [folder, url] => {
            let sent = upload(folder.as_ref(), url)?;
            println!(
                "{} sent, {} to come, {} set aside",
                sent.accepted,
                sent.deferred,
                sent.refused.len()
            );
            Ok(())
        }
        [] => show(),
        _ => Err("upload FOLDER URL".into()),
    }
}

/// Posts the reports in `folder` to `url`, the oldest first.
///
/// An app does this on a thread of its own, after `install`: reports of the present launch, and
/// those that another process is writing or sending, are none of these.
fn upload(folder: &Path, url: &str) -> std::io::Result<Sent> {
    let agent = ureq::Agent::config_builder()
        .max_redirects(0)
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(30)))
        .build()
        .new_agent();
    let sent = store::send(folder, |stored| {
        let path = stored.path().display();
        let mut report = match stored.read() {
            Ok(reading) => reading.report,
            Err(error) => {
                eprintln!("{error}");
                return Answer::Refused;
            }
        };
        // What names a person stays on the device.
        redact(&mut report, &Redact::default());
        let version = report.head.app.version.clone();
        let posted = match dsn(url) {
            Some((url, auth)) => agent
                .post(url)
                .content_type("application/x-sentry-envelope")
                .header("X-Sentry-Auth", auth)
                .send(&envelope(report)[..]),
            None => agent
                .post(url)
                .content_type("application/x-wedjat")
                // So that a server that had accepted it when the connection broke knows it again.
                .header("Idempotency-Key", &hex(&report.head.id))
                .send(&wedjat::report::to_bytes(&report)[..]),
        };
        let answer = match posted {
            Ok(answer) => answer.status(),
            Err(error) => {
                eprintln!("{path}: {error}");
                return Answer::Stop;
            }
        };
        println!("{path}: version {version}: {answer}");
        match answer.as_u16() {
            200..=299 => Answer::Accepted,
            // The report itself is at fault. Any other answer may be another one tomorrow.
            400 | 413 | 415 | 422 => Answer::Refused,
            // The quota is used up: what is left waits for the next launch.
            429 => Answer::Stop,
            _ => Answer::Later,
        }
    })?;
    for path in &sent.refused {
        eprintln!("{}: set aside", path.display());
    }
    Ok(sent)
}

/// The address for envelopes of a DSN, and the header with its key; `None` for any other URL.
fn dsn(url: &str) -> Option<(String, String)> {
    let (scheme, rest) = url.split_once("://")?;
    let (key, rest) = rest.split_once('@')?;
    let (host, project) = rest.rsplit_once('/')?;
    let auth = format!("Sentry sentry_version=7, sentry_client=wedjat, sentry_key={key}");
    Some((format!("{scheme}://{host}/api/{project}/envelope/"), auth))
}

/// The report as an event with addresses alone: the server names them by the debug files that it has.
fn envelope(report: wedjat::report::Report) -> Vec<u8> {
    let symbolicator = Symbolicator::new(DebugFiles::new().no_search());
    let (style, mut envelope) = (Style::default(), Vec::new());
    // A `Vec` takes all that is written.
    let _ = Sentry::default().report(&style, "", &symbolicator.symbolicate(report), &mut envelope);
    envelope
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The first process leaves a report; a server is busy once, and takes it then.
fn show() -> Result<(), Box<dyn Error>> {
    let home = std::env::var_os("HOME").map(std::path::PathBuf::from);
    let folder = home.unwrap_or_default().join(".local/state/wedjat-upload");
    leave_a_report(&folder)?;
    let server = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/reports", server.local_addr()?);
    for status in ["503 Service Unavailable", "204 No Content"] {
        let served = server.try_clone()?;
        let serving = std::thread::spawn(move || answer(&served, status));
        println!("  {} accepted", upload(&folder, &url)?.accepted);
        let (_, bytes) = serving.join().map_err(|_| "the server panicked")??;
        println!(
            "  the server got {} bytes and answered {status}; {} left",
            bytes.len(),
            store::reports(&folder)?.len()
        );
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

/// As an earlier launch would have.
fn leave_a_report(folder: &Path) -> Result<(), Box<dyn Error>> {
    let monitor = Monitor::builder("Upload", "1.0")
        .directory(folder)
        .crash(Crash::default())
        .install()?;
    let caught = std::panic::catch_unwind(|| panic!("the basket is empty"));
    drop(monitor);
    assert!(caught.is_err());
    Ok(())
}

/// Takes one request and answers it; returns its head and its body.
fn answer(server: &TcpListener, status: &str) -> std::io::Result<(String, Vec<u8>)> {
    let (mut stream, _): (TcpStream, _) = server.accept()?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        head.push_str(&line);
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )?;
    Ok((head, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// There is one monitor a process.
    static INSTALLS: std::sync::Mutex<()> = std::sync::Mutex::new(());

    fn leave(folder: &Path, reports: usize) {
        let _alone = INSTALLS.lock();
        (0..reports).for_each(|_| leave_a_report(folder).unwrap());
    }

    /// What a server that answers so, once for each report, makes of the folder.
    fn served(folder: &Path, statuses: &[&str]) -> (Sent, Vec<Vec<u8>>) {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/reports", server.local_addr().unwrap());
        let statuses: Vec<String> = statuses.iter().map(|&status| status.into()).collect();
        let serving = std::thread::spawn(move || {
            let bodies = statuses
                .iter()
                .map(|status| answer(&server, status).unwrap().1);
            bodies.collect()
        });
        let sent = upload(folder, &url).unwrap();
        (sent, serving.join().unwrap())
    }

    fn left(folder: &Path) -> usize {
        store::reports(folder).unwrap().len()
    }

    #[test]
    fn a_report_is_removed_once_it_was_accepted_and_not_before() {
        let folder = std::env::temp_dir().join(format!("wedjat-sent-{}", std::process::id()));
        leave(&folder, 1);
        let id = store::reports(&folder).unwrap()[0]
            .read()
            .unwrap()
            .report
            .head
            .id;
        for status in [
            "500 Internal Server Error",
            "429 Too Many Requests",
            "401 Unauthorized",
            "404 Not Found",
            "302 Found",
        ] {
            assert_eq!(served(&folder, &[status]).0.deferred, 1, "{status}");
            assert_eq!(left(&folder), 1, "{status}");
        }
        let unreachable = "http://127.0.0.1:1/reports";
        assert_eq!(upload(&folder, unreachable).unwrap().deferred, 1);
        assert_eq!(left(&folder), 1);

        let (sent, bodies) = served(&folder, &["201 Created"]);
        assert_eq!((sent.accepted, left(&folder)), (1, 0));
        let received = wedjat::report::read(&bodies[0]).unwrap();
        assert!(received.damage.is_empty());
        assert_eq!(received.report.head.id, id);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_dsn_gets_an_envelope_with_the_event_and_a_full_quota_ends_the_sending() {
        let folder = std::env::temp_dir().join(format!("wedjat-dsn-{}", std::process::id()));
        leave(&folder, 2);
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let dsn = format!("http://public@{}/7", server.local_addr().unwrap());
        let serving = std::thread::spawn(move || {
            ["200 OK", "429 Too Many Requests"].map(|status| answer(&server, status).unwrap())
        });
        let sent = upload(&folder, &dsn).unwrap();
        assert_eq!((sent.accepted, left(&folder)), (1, 1));
        let [(head, body), _] = serving.join().unwrap();
        assert!(head.starts_with("POST /api/7/envelope/ HTTP/1.1"), "{head}");
        assert!(head.contains("sentry_key=public"), "{head}");
        let body = String::from_utf8(body).unwrap();
        let lines: Vec<&str> = body.lines().collect();
        assert!(lines[0].starts_with("{\"event_id\":\""), "{body}");
        assert!(lines[1].contains("\"type\":\"event\""), "{body}");
        assert!(lines[2].contains("the basket is empty"), "{body}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn one_that_cannot_be_read_or_will_never_be_taken_does_not_hold_up_the_others() {
        let folder = std::env::temp_dir().join(format!("wedjat-held-{}", std::process::id()));
        leave(&folder, 2);
        let unreadable = folder.join("2001-01-01T00-00-00.000Z-live-01234567.wedjat");
        std::fs::write(&unreadable, "no report").unwrap();
        let (sent, _) = served(&folder, &["422 Unprocessable Content", "200 OK"]);
        assert_eq!(
            (sent.accepted, sent.deferred, sent.refused.len()),
            (1, 0, 2)
        );
        assert_eq!(sent.refused[0], unreadable.with_extension("refused"));
        assert_eq!(left(&folder), 0);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
