//! What was seen, counted.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::judges::Chain;
use super::kinds::RESTORES;
use crate::machine::Machine;
use crate::shadow::Held;

/// Stops by how well an unwinder did.
#[derive(Clone, Copy, Default)]
struct Counts {
    exact: u64,
    short: u64,
    wrong: u64,
    guessed: u64,
}

/// What was seen of one unwinder.
#[derive(Default)]
pub struct Tally {
    counts: Counts,
    wrong_at: HashSet<u64>,
    kinds: BTreeMap<&'static str, Counts>,
    misses: BTreeMap<String, (u64, u64)>,
}

/// What was seen.
#[derive(Default)]
pub struct Table {
    pub seen: HashMap<u64, u32>,
    pub stops: u64,
    depth: u64,
    tallies: Vec<(&'static str, Tally)>,
    /// Functions, by address.
    names: Vec<(u64, String)>,
    /// Prints the misses by place.
    places: bool,
}

impl Table {
    /// An empty one for these unwinders.
    pub fn new(m: &Machine, unwinders: &[&'static str], places: bool) -> Table {
        let images = m.images.iter();
        let mut names: Vec<_> = images
            .flat_map(|i| i.file.symbols.iter().map(|s| (s.0 + i.slide, s.1.clone())))
            .collect();
        names.sort();
        Table {
            tallies: unwinders.iter().map(|u| (*u, Tally::default())).collect(),
            names,
            places,
            ..Table::default()
        }
    }

    /// Counts a stop whose true chain is `want`.
    pub fn count(&mut self, stop: &Held, want: &[u64]) {
        let landed = stop.callers != want;
        let kind = if landed { RESTORES } else { stop.kind };
        self.stops += 1;
        self.depth += want.len() as u64;
        for at in 0..self.tallies.len() {
            self.judge(at, stop, want, kind);
        }
    }

    fn judge(&mut self, at: usize, stop: &Held, want: &[u64], kind: &'static str) {
        let (Some(chain), Some((_, tally))) = (stop.found.get(at), self.tallies.get_mut(at)) else {
            return;
        };
        let (got, early) = chain;
        let pairs = got.iter().zip(want);
        let same = pairs.take_while(|(g, w)| g.0 == **w).count();
        let of_kind = tally.kinds.entry(kind).or_default();
        let add = |what: fn(&mut Counts) -> &mut u64, tally: &mut Counts, kind: &mut Counts| {
            *what(tally) += 1;
            *what(kind) += 1;
        };
        let mut certain = false;
        let miss = if same == want.len() && same == got.len() && !(*early && want.is_empty()) {
            add(|c| &mut c.exact, &mut tally.counts, of_kind);
            return;
        } else if same == got.len() {
            add(|c| &mut c.short, &mut tally.counts, of_kind);
            if *early {
                "stopped early"
            } else {
                "stopped early, as if at the root"
            }
        } else {
            tally.wrong_at.insert(stop.pc);
            certain = got[same].1;
            if certain {
                add(|c| &mut c.wrong, &mut tally.counts, of_kind);
            } else {
                add(|c| &mut c.guessed, &mut tally.counts, of_kind);
            }
            describe(chain, want, same)
        };
        let miss = if certain {
            format!("certain, {miss}")
        } else {
            miss.into()
        };
        let place: String = match same.checked_sub(1).and_then(|at| want.get(at)) {
            Some(frame) => format!("{miss}, below {}", self.place(*frame)),
            None => format!("{miss} in {}", self.function(stop.pc)),
        };
        self.tallies[at]
            .1
            .misses
            .entry(place)
            .or_insert((0, stop.pc))
            .0 += 1;
    }

    fn near(&self, pc: u64) -> Option<&(u64, String)> {
        let near = self.names.partition_point(|n| n.0 <= pc);
        self.names.get(near.checked_sub(1)?)
    }

    fn function(&self, pc: u64) -> &str {
        self.near(pc).map_or("", |near| &near.1)
    }

    fn place(&self, pc: u64) -> String {
        let near = self.near(pc.wrapping_sub(1));
        near.map_or(String::new(), |(at, name)| format!("{name}+{:#x}", pc - at))
    }

    /// A line of the table for each unwinder; then, for the first one, one for each kind of code, in
    /// numbers that can be added up.
    pub fn print(&self, name: &str, m: &Machine) {
        let percent = |n: u64, of: u64| 100.0 * n as f64 / of.max(1) as f64;
        let arch = if m.arm { "arm64" } else { "x86_64" };
        for (unwinder, tally) in &self.tallies {
            let Counts {
                exact,
                short,
                wrong,
                guessed,
            } = tally.counts;
            println!(
                "| {arch} | {name} | {unwinder} | {} | {:.3} % | {:.3} % | {:.3} % | {:.3} % | {:.3} % | {} | {:.1} |",
                self.stops,
                percent(exact, self.stops),
                percent(short, self.stops),
                percent(wrong, self.stops),
                percent(guessed, self.stops),
                percent(tally.wrong_at.len() as u64, self.seen.len() as u64),
                self.seen.len(),
                self.depth as f64 / self.stops.max(1) as f64,
            );
            if self.places {
                let mut misses: Vec<_> = tally.misses.iter().collect();
                misses.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
                for (miss, (count, pc)) in misses.into_iter().take(60) {
                    eprintln!("  {unwinder} {count:6} {miss}, as at {}", m.place(*pc));
                }
            }
        }
        let first = self.tallies.first();
        for (kind, c) in first.iter().flat_map(|(_, tally)| &tally.kinds) {
            let Counts {
                exact,
                short,
                wrong,
                guessed,
            } = c;
            println!("kind|{arch}|{kind}|{exact}|{short}|{wrong}|{guessed}");
        }
    }
}

/// In what way a chain is wrong that is right in its first frames.
fn describe((got, _): &Chain, want: &[u64], same: usize) -> &'static str {
    let pcs: Vec<u64> = got.iter().map(|g| g.0).collect();
    match same {
        0 if want.len() > pcs.len() && pcs[..] == want[want.len() - pcs.len()..] => {
            "caller skipped"
        }
        0 if pcs.len() == want.len() + 1 && pcs[1..] == want[..] => "a frame that is not there",
        0 => "another caller",
        _ => "wrong deeper",
    }
}
