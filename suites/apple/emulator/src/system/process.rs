//! The process and what `sysctl` says (`unistd.h`, `sys/sysctl.h`, `sys/random.h`).

use super::error;
use crate::machine::{Machine, Outcome};

const ENOENT: u32 = 2;
const ENOMEM: u32 = 12;
const CTL_KERN: u32 = 1;
const KERN_PROC: u32 = 14;

/// Plays its functions.
pub fn call(m: &mut Machine, name: &str, a: &[u64; 8]) -> Option<Outcome> {
    Some(match name {
        "_exit" | "_Exit" => Outcome::Exit(a[0] as i32 & 0xff),
        "getpid" => Outcome::Return(4242),
        "getppid" => Outcome::Return(1),
        "getuid" | "geteuid" | "getgid" | "getegid" => Outcome::Return(501),
        "getentropy" => {
            // Deterministic: the same run, the same ids. Mixed from the clock by splitmix64.
            let mut seed = m.now;
            let mut bytes = vec![];
            while (bytes.len() as u64) < a[1] {
                seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut z = seed;
                z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                bytes.extend((z ^ (z >> 31)).to_le_bytes());
            }
            bytes.truncate(a[1] as usize);
            m.write(a[0], &bytes);
            Outcome::Return(0)
        }
        // (name, old, &old length, new, new length)
        "sysctlbyname" => {
            let name = m.read_text(a[0]);
            match by_name(m, &name) {
                Some(value) => put(m, &value, a[1], a[2]),
                None => error(m, ENOENT),
            }
        }
        // (mib, count, old, &old length, ..)
        "sysctl" => {
            let mib: Vec<u32> = (0..a[1] & 0xf)
                .filter_map(|k| m.read_u32(a[0] + 4 * k))
                .collect();
            match mib[..] {
                // KERN_PROC_PID: a kinfo_proc of 648 bytes; p_flag at 32 has P_TRACED 0x800
                [CTL_KERN, KERN_PROC, 1, _] => {
                    let mut info = vec![0; 648];
                    let flags = 0x4004 | if m.traced { 0x800u32 } else { 0 };
                    info[32..36].copy_from_slice(&flags.to_le_bytes());
                    info[0..8].copy_from_slice(&1_704_067_200u64.to_le_bytes());
                    put(m, &info, a[2], a[3])
                }
                _ => error(m, ENOENT),
            }
        }
        _ => return None,
    })
}

fn by_name(m: &Machine, name: &str) -> Option<Vec<u8>> {
    let text = |t: &str| Some([t.as_bytes(), &[0]].concat());
    let word = |w: u32| Some(w.to_le_bytes().to_vec());
    match name {
        "kern.ostype" => text("Darwin"),
        "kern.osproductversion" => text("14.5"),
        "kern.osversion" => text("23F79"),
        "kern.osrelease" => text("23.5.0"),
        "kern.bootsessionuuid" => text("5A1D2E9C-60B7-4F0E-9C53-2B7A8D1E4F60"),
        "hw.model" => text(if m.arm { "Mac14,2" } else { "MacBookPro16,1" }),
        "hw.machine" => text(if m.arm { "arm64" } else { "x86_64" }),
        "hw.memsize" => Some((16u64 << 30).to_le_bytes().to_vec()),
        "hw.ncpu" | "hw.logicalcpu" | "hw.activecpu" => word(2),
        "hw.pagesize" => word(if m.arm { 0x4000 } else { 0x1000 }),
        _ => None,
    }
}

fn put(m: &mut Machine, value: &[u8], at: u64, length_at: u64) -> Outcome {
    let room = m.read_u64(length_at).unwrap_or(0) as usize;
    m.write_u64(length_at, value.len() as u64);
    if at != 0 {
        if room < value.len() {
            return error(m, ENOMEM);
        }
        m.write(at, value);
    }
    Outcome::Return(0)
}
