//! The hunt for deadlocks: once the main thread has entered a function that has `hunted` in its
//! name, and until it enters `hunt_is_over`, it is held before each instruction that it has not stood
//! at often enough, wherever that is, until another thread has stopped it and looked at its stack.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use unicorn_engine::{HookType, Unicorn};

use crate::cpu::{self, Stopped};
use crate::machine::Machine;
use crate::shadow::Held;

/// A chain of callers, innermost first, each with whether it is presented as certain; and whether the
/// walk says that it ended at the root.
type Chain = (Vec<(u64, bool)>, bool);

/// What the guest has found of its main thread, held against the shadow stack.
#[derive(Default)]
pub struct Found {
    stops: u64,
    exact: u64,
    early: u64,
    wrong: u64,
    guessed: u64,
    addresses: HashSet<u64>,
    misses: BTreeMap<u64, (u64, String)>,
    /// How often the thread was suspended.
    suspended: u64,
    /// The last stop that each thread has made, by number.
    last: HashMap<usize, u64>,
    /// What was found at stops whose true chain may not be known yet, by number.
    chains: HashMap<u64, Chain>,
}

/// How often the main thread has stood at each instruction.
#[derive(Default)]
pub struct Stood {
    begun: bool,
    times: HashMap<u64, u32>,
}

/// Begins; `each` is how often it is held at each instruction.
pub fn watch(m: &mut Machine, each: u32) -> Rc<RefCell<Stood>> {
    let arm = m.arm;
    m.uc.get_data_mut().watching = true;
    let named = |part: &str| -> HashSet<u64> {
        let images = m.images.iter();
        let symbols =
            images.flat_map(|i| i.file.symbols.iter().map(move |s| (s.0 + i.slide, &s.1)));
        let found = symbols.filter(|(_, name)| name.contains(part));
        found.map(|(at, _)| at).collect()
    };
    let (begin, end) = (named("hunted"), named("hunt_is_over"));
    let stood = Rc::new(RefCell::new(Stood::default()));
    let seen = stood.clone();
    let hold = Rc::new(RefCell::new(
        move |uc: &mut Unicorn<'_, Stopped>, pc: u64, size: u32| {
            // Only the main thread's stack is judged.
            if !uc.get_data().is_main {
                return;
            }
            let mut now = cpu::registers(uc, arm);
            now.pc = pc;
            uc.get_data_mut().shadow.settle(arm, now);
            let mut stood = seen.borrow_mut();
            stood.begun = (stood.begun || begin.contains(&pc)) && !end.contains(&pc);
            if stood.begun {
                let times = stood.times.entry(pc).or_default();
                *times += 1;
                if *times <= each {
                    uc.get_data_mut().held = true;
                    let _ = uc.emu_stop();
                    return;
                }
            }
            let mut code = vec![0; size as usize];
            let _ = uc.mem_read(pc, &mut code);
            uc.get_data_mut().shadow.look(arm, pc, &code);
        },
    ));
    for range in m.texts() {
        let hold = hold.clone();
        m.uc.add_code_hook(range.start, range.end - 1, move |uc, pc, size| {
            (hold.borrow_mut())(uc, pc, size);
        })
        .expect("a code hook");
    }
    if !arm {
        m.uc.add_mem_hook(HookType::MEM_WRITE, 1, 0, |uc, _, at, _, _| {
            let stopped = uc.get_data_mut();
            if stopped.is_main {
                stopped.shadow.written(at);
            }
            true
        })
        .expect("a memory hook");
    }
    stood
}

/// `thread` has been suspended: whoever called whom there is kept, to judge by, if it is the main one.
pub fn stopped(m: &mut Machine, thread: usize) {
    if !m.uc.get_data().watching || thread != 0 {
        return;
    }
    if m.held.is_some_and(|(held, _)| held == thread) {
        m.held = None;
    }
    let Some(context) = m.threads[thread].context.as_ref() else {
        return;
    };
    let state = cpu::thread_state(context, m.arm);
    let word = |k: usize| u64::from_le_bytes(state[8 * k..][..8].try_into().unwrap_or_default());
    let [pc, sp, fp, lr] = if m.arm {
        [32, 31, 29, 30].map(word)
    } else {
        [word(16), word(7), word(6), 0]
    };
    let now = cpu::Registers { pc, sp, fp, lr };
    let shadow = &mut m.threads[thread].shadow;
    shadow.settle(m.arm, now);
    m.found.suspended += 1;
    m.found.last.insert(m.current, m.found.suspended);
    let stop = Held {
        number: m.found.suspended,
        pc,
        kind: "",
        callers: shadow.callers(),
        found: vec![],
    };
    if shadow.is_in_doubt(m.arm, now) {
        shadow.hold(stop);
    } else {
        let callers = stop.callers.clone();
        shadow.settled.push((stop, callers));
    }
}

/// The guest's own chain of callers of the main thread, as the running thread has suspended it last.
pub fn judge(m: &mut Machine, chain: &[(u64, bool)], root: bool) {
    let Some(number) = m.found.last.remove(&m.current) else {
        return;
    };
    m.found.chains.insert(number, (chain.to_vec(), root));
    let settled = std::mem::take(&mut m.threads[0].shadow.settled);
    count(m, settled);
}

/// Counts stops whose true chain is known; those without a reader of the result are left out.
fn count(m: &mut Machine, settled: Vec<(Held, Vec<u64>)>) {
    for (stop, want) in settled {
        if let Some(chain) = m.found.chains.remove(&stop.number) {
            compare(m, stop.pc, chain, &want);
        }
    }
}

fn compare(m: &mut Machine, pc: u64, (chain, root): Chain, want: &[u64]) {
    let pairs = chain.iter().zip(want);
    let same = pairs.take_while(|(got, want)| got.0 == **want).count();
    let place = m.place(pc);
    let found = &mut m.found;
    found.stops += 1;
    found.addresses.insert(pc);
    if same == want.len() && same == chain.len() && root {
        found.exact += 1;
        return;
    }
    let kind = match chain.get(same) {
        None => {
            found.early += 1;
            "early"
        }
        Some((_, true)) => {
            found.wrong += 1;
            "wrong"
        }
        Some((_, false)) => {
            found.guessed += 1;
            "guessed"
        }
    };
    let miss = || (0, format!("{kind} in {place}, {same} of {}", want.len()));
    found.misses.entry(pc).or_insert_with(miss).0 += 1;
}

/// Says what came of it: a line of the table, then the misses.
pub fn print(m: &mut Machine, stood: &Stood, name: &str) {
    // The main thread's shadow is the running one's, if that is how the process ended.
    let mut rest = m.threads[0].shadow.rest();
    rest.extend(m.uc.get_data_mut().shadow.rest());
    count(m, rest);
    let found = &m.found;
    let percent = |n: u64| 100.0 * n as f64 / found.stops.max(1) as f64;
    println!(
        "| {} | {name} | wedjat, in the guest | {} | {:.3} % | {:.3} % | {:.3} % | {:.3} % | {} of {} |",
        if m.arm { "arm64" } else { "x86_64" },
        found.stops,
        percent(found.exact),
        percent(found.early),
        percent(found.wrong),
        percent(found.guessed),
        found
            .addresses
            .intersection(&stood.times.keys().copied().collect())
            .count(),
        stood.times.len(),
    );
    for (count, place) in found.misses.values() {
        eprintln!("  {count:6} {place}");
    }
}
