//! Threads as Mach sees them (`mach/thread_act.h`, `mach/thread_info.h`).

use super::kern;
use crate::cpu;
use crate::machine::{Machine, Outcome, Turn};

/// Plays its functions.
pub fn call(m: &mut Machine, name: &str, a: &[u64; 8]) -> Option<Outcome> {
    let known = [
        "thread_suspend",
        "thread_resume",
        "thread_get_state",
        "thread_set_state",
        "thread_info",
        "thread_abort_safely",
        "thread_policy_set",
    ];
    if name == "mach_thread_self" {
        let port = m.threads[m.current].port;
        m.ports.retain(port);
        return Some(Outcome::Return(u64::from(port)));
    }
    if !known.contains(&name) {
        return None;
    }
    let index = m.ports.thread_of(a[0] as u32);
    let Some(index) = index.filter(|i| !matches!(m.threads[*i].turn, Turn::Over)) else {
        // A dead name.
        return Some(Outcome::Return(kern::INVALID_ARGUMENT));
    };
    let code = match name {
        "thread_suspend" => {
            m.threads[index].suspended += 1;
            super::thread::holds(m, true);
            crate::hunt::stopped(m, index);
            kern::SUCCESS
        }
        "thread_resume" => {
            let depth = &mut m.threads[index].suspended;
            if *depth == 0 {
                kern::FAILURE
            } else {
                *depth -= 1;
                super::thread::holds(m, false);
                kern::SUCCESS
            }
        }
        // (thread, flavor, state, &count)
        "thread_get_state" => {
            let (flavor, words) = cpu::flavor(m.arm);
            let room = m.read_u32(a[3]).unwrap_or(0) as usize;
            match &m.threads[index].context {
                Some(context) if a[1] == flavor && room >= words => {
                    let state = cpu::thread_state(context, m.arm);
                    m.write(a[2], &state[..4 * words]);
                    m.write_u32(a[3], words as u32);
                    kern::SUCCESS
                }
                // The kernel refuses the caller's own registers, another flavour, or too little room.
                _ => kern::INVALID_ARGUMENT,
            }
        }
        "thread_info" => info(m, index, a),
        _ => kern::SUCCESS,
    };
    Some(Outcome::Return(code))
}

fn info(m: &mut Machine, index: usize, a: &[u64; 8]) -> u64 {
    let room = m.read_u32(a[3]).unwrap_or(0) as usize;
    let thread = &m.threads[index];
    let (cpu, suspended) = (thread.cpu, thread.suspended);
    // TH_STATE_RUNNING 1, TH_STATE_STOPPED 2, TH_STATE_WAITING 3
    let state = match thread.turn {
        Turn::Waiting(..) => 3,
        _ if suspended > 0 => 2,
        _ => 1u32,
    };
    let mut out = vec![];
    match a[1] {
        // THREAD_BASIC_INFO: user_time, system_time, cpu_usage, policy, run_state, flags, suspend_count, sleep_time
        3 => {
            let seconds = (cpu / 1_000_000_000) as u32;
            let micros = (cpu % 1_000_000_000 / 1000) as u32;
            for word in [seconds, micros, 0, 0, 0, 1, state, 0, suspended, 0] {
                out.extend(word.to_le_bytes());
            }
        }
        // THREAD_IDENTIFIER_INFO: thread_id, thread_handle, dispatch_qaddr
        4 => {
            let queue = thread.pthread + super::thread::QUEUE;
            for word in [thread.tid, thread.pthread, queue] {
                out.extend(word.to_le_bytes());
            }
        }
        // THREAD_EXTENDED_INFO: times (ns), usage, policy, state, flags, sleep, priorities, name[64]
        5 => {
            for word in [cpu, 0] {
                out.extend(word.to_le_bytes());
            }
            for word in [0, 1, state, 0, 0, 31, 31, 31u32] {
                out.extend(word.to_le_bytes());
            }
            let mut name = thread.name.clone().into_bytes();
            name.resize(64, 0);
            out.extend(name);
        }
        _ => return kern::INVALID_ARGUMENT,
    }
    if room * 4 < out.len() {
        return kern::INVALID_ARGUMENT;
    }
    m.write(a[2], &out);
    m.write_u32(a[3], out.len() as u32 / 4);
    kern::SUCCESS
}
