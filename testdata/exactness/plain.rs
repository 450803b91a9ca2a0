// Rust: iterators, boxed closures, panics that are caught, a thread.
use std::collections::HashMap;
use std::hint::black_box;

#[inline(never)]
fn sums(values: &[u64]) -> u64 {
    values.iter().map(|value| black_box(value * 3)).filter(|value| value % 2 == 0).sum()
}

#[inline(never)]
fn calls(function: &dyn Fn(u64) -> u64, with: u64) -> u64 {
    function(with) + 1
}

#[inline(never)]
fn panics(levels: u64) -> u64 {
    if levels == 0 {
        panic!("at the bottom: {}", levels);
    }
    black_box(panics(levels - 1)) + 1
}

struct Loud(u64);

impl Drop for Loud {
    fn drop(&mut self) {
        black_box(self.0);
    }
}

fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let values: Vec<u64> = (0..40).collect();
    let mut sum = sums(&values);
    sum += calls(&|value| black_box(value) + sum, 3);
    let caught = std::panic::catch_unwind(|| {
        let _loud = Loud(1);
        panics(3)
    });
    sum += u64::from(caught.is_err());
    let mut counts: HashMap<String, u64> = HashMap::new();
    for word in "the quick brown fox jumps over the lazy dog the end".split(' ') {
        *counts.entry(word.to_string()).or_default() += 1;
    }
    let mut words: Vec<_> = counts.into_iter().collect();
    words.sort();
    sum += std::thread::spawn(move || words.len() as u64).join().unwrap();
    println!("{sum} {:?} {:.3}", black_box(values.get(3)), black_box(1.25f64));
}
