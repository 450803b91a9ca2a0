//! Memory: `mach/mach_vm.h`, `mach/vm_map.h`, `sys/mman.h`.

use super::{error, kern};
use crate::machine::{Machine, Outcome};
use crate::memory::PAGE;

const ENOMEM: u32 = 12;
const EINVAL: u32 = 22;
const MAP_FIXED: u64 = 0x10;
const MAP_ANON: u64 = 0x1000;

/// Plays its functions.
pub fn call(m: &mut Machine, name: &str, a: &[u64; 8]) -> Option<Outcome> {
    Some(match name {
        "mmap" => {
            if a[1] == 0 {
                return Some(error(m, EINVAL));
            }
            let at = (a[3] & MAP_FIXED != 0).then_some(a[0]);
            let Machine { memory, uc, .. } = m;
            let at = memory.map(uc, at, a[1], a[2] as u32);
            if a[3] & MAP_ANON == 0 {
                use std::os::unix::fs::FileExt;
                let mut bytes = vec![0; a[1] as usize];
                // SAFETY: the descriptor is the guest's; the file is not closed by this.
                let file = std::mem::ManuallyDrop::new(unsafe {
                    <std::fs::File as std::os::fd::FromRawFd>::from_raw_fd(a[4] as i32)
                });
                let read = file.read_at(&mut bytes, a[5]).unwrap_or(0);
                m.write(at, &bytes[..read]);
            }
            Outcome::Return(at)
        }
        "munmap" => {
            let Machine { memory, uc, .. } = m;
            memory.unmap(uc, a[0], a[1]);
            Outcome::Return(0)
        }
        "mprotect" => {
            let Machine { memory, uc, .. } = m;
            if memory.protect(uc, a[0], a[1], a[2] as u32) {
                Outcome::Return(0)
            } else {
                error(m, ENOMEM)
            }
        }
        "madvise" | "mlock" | "munlock" | "minherit" => Outcome::Return(0),
        "mach_vm_allocate" | "vm_allocate" => {
            let Machine { memory, uc, .. } = m;
            let at = memory.map(uc, None, a[2], 3);
            m.write_u64(a[1], at);
            Outcome::Return(kern::SUCCESS)
        }
        "mach_vm_deallocate" | "vm_deallocate" => {
            let Machine { memory, uc, .. } = m;
            memory.unmap(uc, a[1], a[2]);
            Outcome::Return(kern::SUCCESS)
        }
        "mach_vm_protect" | "vm_protect" => {
            let Machine { memory, uc, .. } = m;
            let done = memory.protect(uc, a[1], a[2], a[4] as u32);
            Outcome::Return(if done {
                kern::SUCCESS
            } else {
                kern::INVALID_ADDRESS
            })
        }
        // (task, address, size, data, out size)
        "mach_vm_read_overwrite" | "vm_read_overwrite" => {
            if !m.memory.readable(a[1], a[2]) {
                let known = m.memory.region(a[1]).is_some_and(|r| r.0 <= a[1]);
                let code = if known {
                    kern::PROTECTION_FAILURE
                } else {
                    kern::INVALID_ADDRESS
                };
                return Some(Outcome::Return(code));
            }
            let bytes = m.read(a[1], a[2]).unwrap_or_default();
            if !m.memory.readable(a[3], a[2]) || !m.write(a[3], &bytes) {
                return Some(Outcome::Return(kern::INVALID_ADDRESS));
            }
            m.write_u64(a[4], a[2]);
            Outcome::Return(kern::SUCCESS)
        }
        // (task, &address, &size, flavor, info, &count, &object): VM_REGION_BASIC_INFO_64
        "mach_vm_region" => {
            let Some((start, size, bits)) = m.read_u64(a[1]).and_then(|at| m.memory.region(at))
            else {
                return Some(Outcome::Return(kern::INVALID_ADDRESS));
            };
            m.write_u64(a[1], start);
            m.write_u64(a[2], size);
            m.write(a[4], &[0; 36]);
            m.write_u32(a[4], bits);
            m.write_u32(a[4] + 4, 7);
            m.write_u32(a[5], 9);
            m.write_u32(a[6], 0);
            Outcome::Return(kern::SUCCESS)
        }
        "getpagesize" => Outcome::Return(if m.arm { PAGE } else { 0x1000 }),
        _ => return None,
    })
}
