//! What must not be done, is, and ends the machine by name: memory is asked for while another thread is
//! suspended, which might be in the middle of that.
fn main() {
    let (say, said) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // SAFETY: no arguments.
        say.send(unsafe { libc::pthread_mach_thread_np(libc::pthread_self()) })
            .unwrap();
        std::thread::sleep(std::time::Duration::from_secs(60));
    });
    let other = said.recv().unwrap();
    println!("suspends");
    // SAFETY: a name only.
    unsafe { mach2::thread_act::thread_suspend(other) };
    let memory = std::hint::black_box(vec![0u8; 64]);
    println!("has allocated {}", memory.len());
}
