//! Any bytes as a stream of reports that comes in pieces: the pieces must not matter.
#![no_main]

use std::io::{self, Read};

use libfuzzer_sys::fuzz_target;
use wedjat::report::{self, ReportReader};

fuzz_target!(|input: (u8, &[u8])| {
    let (piece, bytes) = input;
    let whole: Vec<String> = ReportReader::new(bytes)
        .map(|found| format!("{found:?}"))
        .collect();
    let pieces = ReportReader::new(Pieces(usize::from(piece).max(1), bytes));
    let pieces: Vec<String> = pieces.map(|found| format!("{found:?}")).collect();
    // Patience with what only looks like sections grows with what was read: in long inputs it may run
    // out sooner in pieces.
    if bytes.len() <= 1024 {
        assert_eq!(whole, pieces);
    }
    assert!(whole.len() <= bytes.len().max(1));
    // A stream that fails gives out what came before, then the error, and then it ends.
    let failing = ReportReader::new(bytes.chain(Failing(false)));
    let failing: Vec<_> = failing
        .map(|found| found.map_err(|error| error.to_string()))
        .collect();
    assert!(failing.last().is_some_and(|last| last.is_err()));
    assert!(failing.len() == whole.len() + usize::from(!bytes.is_empty()));
    if let Ok(reading) = report::read(bytes)
        && reading.damage.is_empty()
    {
        assert_eq!(
            whole,
            [format!("{:?}", Ok::<_, report::ReadError>(reading))]
        );
    }
});

/// Fails at its end, after it was interrupted.
struct Failing(bool);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        let kind = if self.0 {
            io::ErrorKind::BrokenPipe
        } else {
            io::ErrorKind::Interrupted
        };
        self.0 = true;
        Err(kind.into())
    }
}

struct Pieces<'a>(usize, &'a [u8]);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.min(self.1.len()).min(buffer.len());
        let (piece, rest) = self.1.split_at(count);
        buffer[..count].copy_from_slice(piece);
        self.1 = rest;
        Ok(count)
    }
}
