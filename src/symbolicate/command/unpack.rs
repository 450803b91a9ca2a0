//! Reports packed by gzip or zstd, unpacked while they are read, with a bound on how much a few bytes may become.

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::report::limits;

/// Bytes that any input may unpack to, however small it is.
const MIN_UNPACKED_LIMIT: u64 = 1 << 20;
/// Above them a byte may become so many. Reports become twenty.
const MAX_RATIO: u64 = 250;
/// The largest distance that zstd may refer back: what its decoder holds. `zstd --ultra` needs no more.
const MAX_ZSTD_WINDOW: u64 = 128 << 20;

/// A packing, known by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    Gzip,
    Zstd,
}

impl Packing {
    /// Count of the bytes by which a packing is known.
    pub const MAGIC: u64 = 4;

    /// The packing of what begins with these bytes.
    pub fn of(bytes: &[u8]) -> Option<Packing> {
        match bytes {
            [0x1f, 0x8b, 8, ..] => Some(Packing::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Packing::Zstd),
            // A frame that holds nothing for a decoder, as parallel compressors put first.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Packing::Zstd),
            _ => None,
        }
    }

    /// The name of a file without the ending of a packing, or one that Apple's devices add once a report was sent.
    pub fn name_unpacked(name: &str) -> &str {
        let unpacked = [".gz", ".zst", ".beta", ".synced"].map(|ending| name.strip_suffix(ending));
        unpacked.into_iter().flatten().next().unwrap_or(name)
    }
}

impl fmt::Display for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Packing::Gzip => "gzip",
            Packing::Zstd => "zstd",
        })
    }
}

/// Unpacks a whole file.
///
/// # Errors
/// A sentence about the fault, with the offset in the packed bytes.
pub(super) fn unpacked(packing: Packing, bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut all = Vec::new();
    let most = limits::REPORT_BYTES as u64;
    let read = reader(packing, bytes).take(most + 1).read_to_end(&mut all);
    read.map_err(|error| error.to_string())?;
    if all.len() as u64 > most {
        Err(format!(
            "{packing} data of more than {most} bytes, which are not read in one piece: unpack it first"
        ))
    } else {
        Ok(all)
    }
}

/// Unpacks a stream as it comes.
pub(super) fn reader<'a>(packing: Packing, input: impl Read + 'a) -> Box<dyn Read + 'a> {
    let taken = Rc::new(Cell::new(0));
    let input = Counted {
        input: BufReader::with_capacity(1 << 16, input),
        taken: taken.clone(),
    };
    let unpacking: Box<dyn Read + 'a> = match packing {
        Packing::Gzip => Box::new(MultiGzDecoder::new(input)),
        Packing::Zstd => Box::new(Frames::new(input)),
    };
    Box::new(Bounded {
        unpacking,
        packing,
        taken,
        unpacked: 0,
    })
}

/// Counts the bytes that a decoder has taken.
struct Counted<R> {
    input: R,
    taken: Rc<Cell<u64>>,
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.taken.set(self.taken.get() + read as u64);
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.input.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.taken.set(self.taken.get() + amount as u64);
        self.input.consume(amount);
    }
}

/// The frames of a zstd stream, one after the other.
struct Frames<R> {
    input: R,
    decoder: FrameDecoder,
    is_within: bool,
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.is_within || self.next_frame()? {
            if self.decoder.can_collect() > 0 || buffer.is_empty() {
                return self.decoder.read(buffer);
            }
            self.is_within = !self.decoder.is_finished();
            if self.is_within {
                let step = BlockDecodingStrategy::UptoBlocks(1);
                let decoded = self.decoder.decode_blocks(&mut self.input, step);
                decoded.map_err(io::Error::other)?;
            }
        }
        Ok(0)
    }
}

impl<R: BufRead> Frames<R> {
    fn new(input: R) -> Frames<R> {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(MAX_ZSTD_WINDOW);
        Frames {
            input,
            decoder,
            is_within: false,
        }
    }

    /// Begins the next frame that holds something; `false` at the end.
    fn next_frame(&mut self) -> io::Result<bool> {
        while !self.input.fill_buf()?.is_empty() {
            let length = match self.decoder.init(&mut self.input) {
                Ok(()) => {
                    self.is_within = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => u64::from(length),
                Err(error) => return Err(io::Error::other(error)),
            };
            io::copy(&mut (&mut self.input).take(length), &mut io::sink())?;
        }
        Ok(false)
    }
}

/// Ends a stream that unpacks to more than reports can.
struct Bounded<'a> {
    unpacking: Box<dyn Read + 'a>,
    packing: Packing,
    taken: Rc<Cell<u64>>,
    unpacked: u64,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (packing, taken) = (self.packing, self.taken.clone());
        let read = self.unpacking.read(buffer).map_err(|error| {
            let at = taken.get();
            io::Error::other(format!(
                "{packing} data damaged or cut at byte {at}: {error}"
            ))
        })?;
        self.unpacked += read as u64;
        let taken = self.taken.get();
        if self.unpacked > MIN_UNPACKED_LIMIT.max(taken.saturating_mul(MAX_RATIO)) {
            let what = format!(
                "{packing} data that unpacks to more than {MAX_RATIO} times its size (byte {taken}): no report does; unpack it first if it is one"
            );
            return Err(io::Error::other(what));
        }
        Ok(read)
    }
}

/// The packing of a stream, and the stream from its beginning.
pub(super) fn peek<'a>(input: impl Read + 'a) -> io::Result<(Option<Packing>, Box<dyn Read + 'a>)> {
    let (mut front, mut input) = (Vec::new(), input);
    (&mut input).take(Packing::MAGIC).read_to_end(&mut front)?;
    let packing = Packing::of(&front);
    Ok((packing, Box::new(Cursor::new(front).chain(input))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        ruzstd::encoding::compress_to_vec(bytes, level)
    }

    #[test]
    fn members_and_frames_in_a_row_are_one_stream() {
        let (first, second) = (b"one report".repeat(40), b"another".repeat(99));
        let whole = [first.clone(), second.clone()].concat();
        let skipped = [&[0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        for (packing, packed) in [
            (Packing::Gzip, [gzip(&first), gzip(&second)].concat()),
            (
                Packing::Zstd,
                [skipped.clone(), zstd(&first), skipped, zstd(&second)].concat(),
            ),
        ] {
            assert_eq!(Packing::of(&packed), Some(packing));
            assert_eq!(unpacked(packing, &packed).unwrap(), whole, "{packing}");
            for cut in [5, packed.len() / 2, packed.len() - 1] {
                let _ = unpacked(packing, &packed[..cut]); // and returns
            }
            let error = unpacked(packing, &packed[..packed.len() - 3]).unwrap_err();
            assert!(error.contains("damaged or cut at byte"), "{error}");
        }
    }

    #[test]
    fn a_bomb_is_not_unpacked() {
        let bomb = vec![0; 8 << 20];
        for (packing, packed) in [(Packing::Gzip, gzip(&bomb)), (Packing::Zstd, zstd(&bomb))] {
            let error = unpacked(packing, &packed).unwrap_err();
            assert!(error.contains("250 times its size"), "{error}");
        }
    }

    #[test]
    fn names_lose_the_ending_of_a_packing_alone() {
        let names = ["a.wedjat.gz", "b.ips.zst", "c.json", "gz"].map(Packing::name_unpacked);
        assert_eq!(names, ["a.wedjat", "b.ips", "c.json", "gz"]);
    }
}
