//! Sends the reports that earlier launches left, and removes each only once it was accepted.
//!
//! `cargo run --example upload -- FOLDER URL` posts every report in FOLDER to URL. One that is not
//! accepted (no network, the server is down, it says anything but 2xx) stays for the next launch,
//! and so do those behind it: the oldest goes first. Without arguments it shows all of that: a
//! process panics, a server of its own refuses the report, and then takes it.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use wedjat::report::{Scrub, scrub};
use wedjat::{Crash, Monitor, store};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        [folder, url] => {
            let sent = upload(folder.as_ref(), url)?;
            println!("{sent} reports were accepted");
            Ok(())
        }
        [] => show(),
        _ => Err("upload FOLDER URL".into()),
    }
}

/// Posts the reports in `folder` to `url`, the oldest first, and gives how many were accepted.
///
/// An app does this on a thread of its own, after `install`: reports of the present launch, and
/// those that another process is writing, are none of [`store::reports`].
fn upload(folder: &Path, url: &str) -> Result<usize, Box<dyn Error>> {
    let agent = ureq::Agent::config_builder()
        .max_redirects(0)
        .timeout_global(Some(Duration::from_secs(30)))
        .build()
        .new_agent();
    let mut accepted = 0;
    for stored in store::reports(folder)? {
        let launch = stored.previous_launch()?;
        let what = if launch.fatal { "died" } else { "went on" };
        println!(
            "{}: version {} {what}",
            stored.path().display(),
            launch.app_version
        );
        let mut report = stored.read()?.report;
        // What names a person stays on the device.
        scrub(&mut report, &Scrub::default());
        let answer = agent
            .post(url)
            .content_type("application/x-wedjat")
            // So that a server that had accepted it when the connection broke knows it again.
            .header("Idempotency-Key", &hex(&report.head.id))
            .send(&wedjat::report::to_bytes(&report)[..])
            .map_err(|error| format!("{}: {error}", stored.path().display()))?;
        if !answer.status().is_success() {
            return Err(format!("{}: {}", stored.path().display(), answer.status()).into());
        }
        // Accepted: only now.
        stored.remove()?;
        accepted += 1;
    }
    Ok(accepted)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The first process leaves a report; a server refuses it once, and takes it then.
fn show() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("wedjat-upload-{}", std::process::id()));
    leave_a_report(&folder)?;
    let server = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/reports", server.local_addr()?);
    for status in ["503 Service Unavailable", "204 No Content"] {
        let served = server.try_clone()?;
        let serving = std::thread::spawn(move || answer(&served, status));
        match upload(&folder, &url) {
            Ok(sent) => println!("  {sent} accepted"),
            Err(error) => println!("  not accepted: {error}"),
        }
        let bytes = serving.join().map_err(|_| "the server panicked")??;
        println!(
            "  the server got {} bytes and said {status}; {} left",
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

/// Takes one request and answers it; gives its body.
fn answer(server: &TcpListener, status: &str) -> std::io::Result<Vec<u8>> {
    let (mut stream, _): (TcpStream, _) = server.accept()?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
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
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_removed_once_it_was_accepted_and_not_before() {
        let folder = std::env::temp_dir().join(format!("wedjat-sent-{}", std::process::id()));
        leave_a_report(&folder).unwrap();
        let id = store::reports(&folder).unwrap()[0]
            .read()
            .unwrap()
            .report
            .head
            .id;
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/reports", server.local_addr().unwrap());
        for status in ["500 Internal Server Error", "404 Not Found", "302 Found"] {
            let served = server.try_clone().unwrap();
            let serving = std::thread::spawn(move || answer(&served, status));
            assert!(upload(&folder, &url).is_err(), "{status}");
            serving.join().unwrap().unwrap();
            assert_eq!(store::reports(&folder).unwrap().len(), 1, "{status}");
        }
        let nobody = "http://127.0.0.1:1/reports";
        assert!(upload(&folder, nobody).is_err());
        assert_eq!(store::reports(&folder).unwrap().len(), 1);

        let served = server.try_clone().unwrap();
        let serving = std::thread::spawn(move || answer(&served, "201 Created"));
        assert_eq!(upload(&folder, &url).unwrap(), 1);
        let body = serving.join().unwrap().unwrap();
        let received = wedjat::report::read(&body).unwrap();
        assert!(received.damage.is_empty());
        assert_eq!(received.report.head.id, id);
        assert!(store::reports(&folder).unwrap().is_empty());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
