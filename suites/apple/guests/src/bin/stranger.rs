//! Calls a function of libSystem's that is not emulated: the emulator ends it by name.
fn main() {
    println!("calls");
    // SAFETY: the function takes a plain number.
    unsafe { libc::setpgid(0, 0) };
    println!("has come back");
}
