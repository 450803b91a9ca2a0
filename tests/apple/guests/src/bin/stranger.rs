//! Calls a function of libSystem's that is not emulated: the emulator ends it by name.
fn main() {
    println!("calls");
    // SAFETY: all zero is a valid value of that plain struct, which lives across the call.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
    }
    println!("has come back");
}
