//! An exception server as others have it, in place before the monitor: it answers by 32-bit codes
//! with states, gives up or, where the page is its own, deals with it.
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use mach2::mach_port::{mach_port_allocate, mach_port_deallocate, mach_port_insert_right};
use mach2::message::mach_msg;
use mach2::task::task_set_exception_ports;
use mach2::traps::mach_task_self;

/// How many requests it got.
pub static REQUESTS: AtomicUsize = AtomicUsize::new(0);
/// A page that it gives access to when it is touched; 0 for none.
pub static PAGE: AtomicU64 = AtomicU64::new(0);

const EXC_MASK_BAD_ACCESS: u32 = 1 << 1;
const STATE_IDENTITY: u32 = 3;
/// `ARM_THREAD_STATE64`, `x86_THREAD_STATE64`
const FLAVOR: i32 = if cfg!(target_arch = "aarch64") { 6 } else { 4 };

/// Begins.
pub fn begin() {
    let mut port = 0;
    // SAFETY: names only.
    unsafe {
        assert_eq!(mach_port_allocate(mach_task_self(), 1, &mut port), 0);
        assert_eq!(mach_port_insert_right(mach_task_self(), port, port, 20), 0);
        let behavior = STATE_IDENTITY;
        let set = task_set_exception_ports(
            mach_task_self(),
            EXC_MASK_BAD_ACCESS,
            port,
            behavior as _,
            FLAVOR,
        );
        assert_eq!(set, 0);
    }
    std::thread::Builder::new()
        .name("old-server".into())
        .spawn(move || serve(port))
        .unwrap();
}

fn serve(port: u32) {
    loop {
        let mut message = [0u32; 512];
        // SAFETY: the kernel writes at most so many bytes; layouts as in mach/exc.defs: header 24,
        // two descriptors 28, NDR 8, exception, count, two codes, flavour, count, state.
        unsafe {
            let header = message.as_mut_ptr().cast();
            assert_eq!(mach_msg(header, 2, 0, 2048, port, 0, 0), 0);
            let words = &message;
            let (reply, id, address) = (words[2], words[5], words[18]);
            assert_eq!(
                (id, words[15]),
                (2403, 1),
                "exception_raise_state_identity, EXC_BAD_ACCESS"
            );
            mach_port_deallocate(mach_task_self(), words[7]);
            mach_port_deallocate(mach_task_self(), words[10]);
            REQUESTS.fetch_add(1, Ordering::SeqCst);
            let page = PAGE.load(Ordering::SeqCst);
            let dealt = page != 0 && page as u32 == address & !0x3fff;
            if dealt {
                libc::mprotect(page as *mut _, 0x4000, libc::PROT_READ | libc::PROT_WRITE);
            }
            let (flavor, count) = (words[19], words[20] as usize);
            let mut answer = vec![
                18,
                0,
                reply,
                0,
                0,
                id + 100,
                0,
                1,
                if dealt { 0 } else { 5 },
                flavor,
            ];
            answer.push(count as u32);
            answer.extend(&words[21..21 + count]);
            answer[1] = 4 * answer.len() as u32;
            let size = answer[1];
            assert_eq!(mach_msg(answer.as_mut_ptr().cast(), 1, size, 0, 0, 0, 0), 0);
        }
    }
}
