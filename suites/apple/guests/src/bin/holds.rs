//! What must not be done, is, and ends the machine by name: memory is allocated while another thread is
//! suspended, which might be in the middle of that.
fn main() {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // SAFETY: no arguments.
        sender
            .send(unsafe { libc::pthread_mach_thread_np(libc::pthread_self()) })
            .unwrap();
        std::thread::sleep(std::time::Duration::from_secs(60));
    });
    let other = receiver.recv().unwrap();
    println!("suspends");
    // SAFETY: a name only.
    unsafe { mach2::thread_act::thread_suspend(other) };
    let memory = std::hint::black_box(vec![0u8; 64]);
    println!("has allocated {}", memory.len());
}
