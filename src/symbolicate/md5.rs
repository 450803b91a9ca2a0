//! MD5 (RFC 1321), by which compilers sum up source files. It holds against changes, not against forgers.

/// Left rotations, four for each round.
const ROTATIONS: [[u32; 4]; 4] = [
    [7, 12, 17, 22],
    [5, 9, 14, 20],
    [4, 11, 16, 23],
    [6, 10, 15, 21],
];

/// Returns the sum of these bytes.
pub(super) fn md5(bytes: &[u8]) -> [u8; 16] {
    let mut state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let constants: [u32; 64] =
        std::array::from_fn(|at| (((at + 1) as f64).sin().abs() * 4_294_967_296.0) as u32);
    let (blocks, rest) = bytes.as_chunks::<64>();
    // A bit that is set, and zeros up to the length in bits.
    let mut end = [rest, &[0x80]].concat();
    end.resize((rest.len() + 9).next_multiple_of(64) - 8, 0);
    end.extend_from_slice(&(bytes.len() as u64).wrapping_mul(8).to_le_bytes());
    for block in blocks.iter().chain(end.as_chunks::<64>().0) {
        add(&mut state, block, &constants);
    }
    let mut sum = [0; 16];
    for (bytes, word) in sum.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *bytes = word.to_le_bytes();
    }
    sum
}

fn add(state: &mut [u32; 4], block: &[u8; 64], constants: &[u32; 64]) {
    let words: [u32; 16] = std::array::from_fn(|at| {
        let bytes = block.as_chunks::<4>().0[at];
        u32::from_le_bytes(bytes)
    });
    let [mut a, mut b, mut c, mut d] = *state;
    for (at, constant) in constants.iter().enumerate() {
        let (mixed, word) = match at / 16 {
            0 => ((b & c) | (!b & d), at),
            1 => ((d & b) | (!d & c), 5 * at + 1),
            2 => (b ^ c ^ d, 3 * at + 5),
            _ => (c ^ (b | !d), 7 * at),
        };
        let sum = a.wrapping_add(mixed).wrapping_add(*constant);
        let sum = sum.wrapping_add(words[word % 16]);
        let turned = sum.rotate_left(ROTATIONS[at / 16][at % 4]);
        (a, d, c, b) = (d, c, b, b.wrapping_add(turned));
    }
    for (word, more) in state.iter_mut().zip([a, b, c, d]) {
        *word = word.wrapping_add(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> String {
        md5(bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// The RFC's own.
    #[test]
    fn sums_are_those_of_the_rfc() {
        let digits = "1234567890".repeat(8);
        for (bytes, sum) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            (
                "abcdefghijklmnopqrstuvwxyz",
                "c3fcd3d76192e4007dfb496cca67e13b",
            ),
            (&digits, "57edf4a22be3c955ac49da2e2107b67a"),
        ] {
            assert_eq!(text(bytes.as_bytes()), sum, "{bytes}");
        }
        // By coreutils: about the ends of a block.
        for (length, sum) in [
            (55, "ef1772b6dff9a122358552954ad0df65"),
            (56, "3b0c8ac703f828b04c6c197006d17218"),
            (64, "014842d480b571495a4a0363793f7367"),
        ] {
            assert_eq!(text(&vec![b'a'; length]), sum, "{length}");
        }
    }
}
