//! The whole of `std` that a program needs to say a word: start, TLS, stdout, a thread, a panic.
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};

fn main() {
    println!("hello");
    let (tx, rx) = mpsc::channel();
    let threads: Vec<_> = (0..8)
        .map(|n| {
            let tx = tx.clone();
            std::thread::Builder::new()
                .name(format!("worker {n}"))
                .spawn(move || tx.send(n * n).unwrap())
                .unwrap()
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    drop(tx);
    println!("sum {}", rx.iter().sum::<u32>());

    let pair = Arc::new((Mutex::new(false), Condvar::new()));
    let other = pair.clone();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(3600));
        *other.0.lock().unwrap() = true;
        other.1.notify_all();
    });
    let start = Instant::now();
    let mut done = pair.0.lock().unwrap();
    while !*done {
        done = pair.1.wait(done).unwrap();
    }
    drop(done);
    thread.join().unwrap();
    println!(
        "slept an hour: {}",
        start.elapsed() >= Duration::from_secs(3600)
    );

    let caught = std::panic::catch_unwind(|| panic!("on purpose"));
    println!("caught: {}", caught.is_err());
}
