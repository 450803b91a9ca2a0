//! Goes wrong as `WEDJAT_FAULT` says. A line that ends in `// MARK: NAME` is the one that a report of NAME must blame.

use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(3);
/// The first turns go well: what goes wrong in them is the launch's.
const TURNS: u32 = 5;

static TURN: AtomicU32 = AtomicU32::new(0);
static STOCK: Mutex<u64> = Mutex::new(0);
static HELD: AtomicBool = AtomicBool::new(false);

/// Goes wrong in one turn, if the environment says how.
pub fn happen() {
    if TURN.fetch_add(1, Ordering::Relaxed) != TURNS {
        return;
    }
    match std::env::var("WEDJAT_FAULT").as_deref() {
        Ok("freeze") => count_stock(),
        Ok("lock") => take_from_stock(),
        Ok("panic") => open_stock(),
        Ok("null") => _ = black_box(read_price(std::ptr::null())),
        Ok("overflow") => _ = black_box(sum_of_parts(1)),
        _ => {}
    }
}

fn count_stock() {
    let (begin, mut sum) = (Instant::now(), 1u64);
    while begin.elapsed() < LONG { sum = black_box(sum.wrapping_mul(31) ^ 7); } // MARK: freeze
    *STOCK.lock().unwrap() = sum;
}

fn take_from_stock() {
    let holder = std::thread::spawn(hold_stock);
    while !HELD.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    *STOCK.lock().unwrap() += 1; // MARK: lock
    holder.join().unwrap();
}

fn hold_stock() {
    let mut stock = STOCK.lock().unwrap();
    HELD.store(true, Ordering::Release);
    std::thread::sleep(LONG); // MARK: holder
    *stock += 1;
}

fn open_stock() {
    panic!("the stock is empty"); // MARK: panic
}

fn read_price(price: *const u64) -> u64 {
    unsafe { black_box(price).read_volatile() } // MARK: null
}

fn sum_of_parts(part: u64) -> u64 { // MARK: overflow
    let parts = black_box([part; 64]);
    if parts[1] == 0 { 0 } else { sum_of_parts(parts[0] + 1) + parts[2] }
} // MARK: overflow ends
