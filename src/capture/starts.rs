//! Function starts of an image.
//!
//! Source: `LC_FUNCTION_STARTS` (mach-o/loader.h): distances as ULEB128, the first one from the
//! image's beginning.

/// The table, and where every so many functions it stands.
#[derive(Debug, Default)]
pub(crate) struct FunctionStarts {
    bytes: Vec<u8>,
    /// Offset of a function from the image's beginning, and of what follows it in `bytes`.
    checkpoints: Vec<(u64, usize)>,
}

/// Functions from one checkpoint to the next.
const SPACING: usize = 32;

impl FunctionStarts {
    /// Reads the table once; what stands behind a broken number is left out.
    pub(crate) fn new(bytes: &[u8]) -> FunctionStarts {
        let mut starts = FunctionStarts {
            bytes: bytes.to_vec(),
            checkpoints: Vec::new(),
        };
        let mut function = 0u64;
        let mut at = 0;
        let mut count = 0usize;
        while let Some(distance) = uleb(bytes, &mut at).filter(|distance| *distance != 0) {
            function = function.wrapping_add(distance);
            if count.is_multiple_of(SPACING) {
                starts.checkpoints.push((function, at));
            }
            count = count.wrapping_add(1);
        }
        starts.bytes.truncate(at);
        starts
    }

    /// Function starts from their offsets, in order.
    pub(crate) fn of(offsets: impl Iterator<Item = u64>) -> FunctionStarts {
        let mut bytes = Vec::new();
        let mut last = 0;
        for offset in offsets {
            let mut distance = offset.wrapping_sub(last);
            last = offset;
            while distance > 0x7f {
                bytes.push(distance as u8 | 0x80);
                distance >>= 7;
            }
            bytes.push(distance as u8);
        }
        FunctionStarts::new(&bytes)
    }

    /// Returns true if it has no starts.
    pub(crate) fn is_empty(&self) -> bool {
        self.checkpoints.is_empty()
    }

    /// The last function at or before an offset, and the one behind it. Signal-safe.
    pub(crate) fn function_at(&self, offset: u64) -> Option<(u64, Option<u64>)> {
        let after = self.checkpoints.partition_point(|point| point.0 <= offset);
        let (mut function, mut at) = *self.checkpoints.get(after.checked_sub(1)?)?;
        loop {
            let next = uleb(&self.bytes, &mut at).filter(|distance| *distance != 0);
            let next = next.map(|distance| function.wrapping_add(distance));
            match next {
                Some(next) if next <= offset && next > function => function = next,
                _ => return Some((function, next)),
            }
        }
    }
}

fn uleb(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..63).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at = at.wrapping_add(1);
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_found_from_everywhere_in_it() {
        let mut bytes = Vec::new();
        let mut all = Vec::new();
        let mut function = 0u64;
        for distance in (1..300u64).map(|n| n * n % 977 + 1) {
            function += distance;
            all.push(function);
            let mut rest = distance;
            while rest > 0x7f {
                bytes.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            bytes.push(rest as u8);
        }
        assert_eq!(FunctionStarts::of(all.iter().copied()).bytes, bytes);
        bytes.extend([0, 0, 0]);
        let starts = FunctionStarts::new(&bytes);
        assert_eq!(starts.function_at(all[0] - 1), None);
        for (at, start) in all.iter().enumerate() {
            let next = all.get(at + 1).copied();
            assert_eq!(starts.function_at(*start), Some((*start, next)));
            assert_eq!(
                starts.function_at(next.unwrap_or(*start + 9) - 1),
                Some((*start, next))
            );
        }
        assert_eq!(FunctionStarts::new(&[0xff; 40]).function_at(5), None);
    }
}
