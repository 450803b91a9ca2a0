//! The task and the host (`mach/task.h`, `mach/task_info.h`, `mach/mach_host.h`,
//! `mach/host_info.h`).

use super::kern;
use crate::machine::{Machine, Outcome, Turn};
use crate::ports::{HOST, TASK};

/// Resident and footprint of the process: fixed, so that tests can ask for them.
const RESIDENT: u64 = 48 << 20;
const FOOTPRINT: u64 = 33 << 20;

/// Plays its functions.
pub fn call(m: &mut Machine, name: &str, a: &[u64; 8]) -> Option<Outcome> {
    Some(Outcome::Return(match name {
        "mach_task_self" => u64::from(TASK),
        "mach_host_self" => {
            m.ports.retain(HOST);
            u64::from(HOST)
        }
        // (task, &list, &count): memory and references are the caller's
        "task_threads" => {
            let alive: Vec<u32> = m
                .threads
                .iter()
                .filter(|t| !matches!(t.turn, Turn::Over))
                .map(|t| t.port)
                .collect();
            let Machine { memory, uc, .. } = m;
            let list = memory.map(uc, None, 4 * alive.len() as u64, 3);
            for (index, port) in alive.iter().enumerate() {
                m.ports.retain(*port);
                m.write_u32(list + 4 * index as u64, *port);
            }
            m.write_u64(a[1], list);
            m.write_u32(a[2], alive.len() as u32);
            kern::SUCCESS
        }
        "task_info" => task_info(m, a),
        // HOST_VM_INFO64: free, active, inactive, wired, ...; pages
        "host_statistics64" | "host_statistics" => {
            let room = m.read_u32(a[3]).unwrap_or(0) as usize;
            let mut words = vec![0u32; room];
            for (word, value) in words.iter_mut().zip([100_000u32, 200_000, 150_000, 50_000]) {
                *word = value;
            }
            let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            m.write(a[2], &bytes);
            kern::SUCCESS
        }
        // PROCESSOR_CPU_LOAD_INFO: (host, flavor, &processors, &info, &count), ticks user, system, idle, nice
        "host_processor_info" => {
            let ticks = (m.now / 10_000_000) as u32;
            let Machine { memory, uc, .. } = m;
            let info = memory.map(uc, None, 32, 3);
            for core in 0..2u64 {
                for (k, word) in [ticks / 2, ticks / 4, ticks / 4, 0].into_iter().enumerate() {
                    m.write_u32(info + 16 * core + 4 * k as u64, word);
                }
            }
            m.write_u32(a[2], 2);
            m.write_u64(a[3], info);
            m.write_u32(a[4], 8);
            kern::SUCCESS
        }
        "host_page_size" => {
            m.write_u64(a[1], 0x4000);
            kern::SUCCESS
        }
        _ => return None,
    }))
}

fn task_info(m: &mut Machine, a: &[u64; 8]) -> u64 {
    let room = m.read_u32(a[3]).unwrap_or(0) as usize * 4;
    let cpu: u64 = m
        .threads
        .iter()
        .filter(|t| !matches!(t.turn, Turn::Over))
        .map(|t| t.cpu)
        .sum();
    let dead: u64 = m
        .threads
        .iter()
        .filter(|t| matches!(t.turn, Turn::Over))
        .map(|t| t.cpu)
        .sum();
    let time = |ns: u64| {
        (
            (ns / 1_000_000_000) as u32,
            (ns % 1_000_000_000 / 1000) as u32,
        )
    };
    let mut out: Vec<u8> = vec![];
    match a[1] {
        // TASK_THREAD_TIMES_INFO: user_time, system_time of living threads
        3 => {
            let (seconds, micros) = time(cpu);
            for word in [seconds, micros, 0, 0] {
                out.extend(word.to_le_bytes());
            }
        }
        // MACH_TASK_BASIC_INFO: virtual, resident, resident_max, user_time, system_time (dead threads), policy, suspend
        20 => {
            for word in [4u64 << 30, RESIDENT, RESIDENT + (1 << 20)] {
                out.extend(word.to_le_bytes());
            }
            let (seconds, micros) = time(dead);
            for word in [seconds, micros, 0, 0, 1, 0] {
                out.extend(word.to_le_bytes());
            }
        }
        // TASK_VM_INFO: phys_footprint is the 18th word of 64 bits (virtual_size, region_count and
        // page_size, resident_size, resident_size_peak, 6 pairs of device .. purgeable, compressed 3)
        22 => {
            out.resize(room.min(4 * 93), 0);
            let mut put = |at: usize, value: u64| {
                if let Some(place) = out.get_mut(at..at + 8) {
                    place.copy_from_slice(&value.to_le_bytes());
                }
            };
            put(0, 4 << 30);
            put(8, 0x4000 << 32 | 40);
            put(16, RESIDENT);
            put(24, RESIDENT + (1 << 20));
            put(144, FOOTPRINT);
        }
        _ => return kern::INVALID_ARGUMENT,
    }
    if room < out.len() {
        return kern::INVALID_ARGUMENT;
    }
    m.write(a[2], &out);
    m.write_u32(a[3], out.len() as u32 / 4);
    kern::SUCCESS
}
