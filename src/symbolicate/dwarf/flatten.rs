//! One unit, flattened: each address to its chain of inlined frames.

use gimli::Unit;
use rustc_hash::FxHashMap;

use super::R;
use super::functions::Functions;
use super::lines::{Files, Lines};
use super::units::Walk;
use crate::symbolicate::overlay::{Claim, Segment, overlay};

/// In place of an index: there is none.
pub(crate) const NONE: u32 = u32::MAX;

/// A function, as its DIE names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    /// Linkage name, or plain name; empty where the DIE has neither.
    pub name: String,
    /// Stated address of its first instruction; 0 where only inlined copies are known.
    pub entry: u64,
    /// Whether the symbol at `entry` says it better, if there is one that agrees.
    pub wants_symbol: bool,
}

/// One frame, with the frame it was inlined into. All are indices or [`NONE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Chain {
    pub function: u32,
    pub file: u32,
    /// 0: none.
    pub line: u32,
    /// The caller's chain.
    pub caller: u32,
}

/// A unit's answer for every address it knows.
#[derive(Debug, Default)]
pub(crate) struct UnitTable {
    /// By address; the value is an index into `chains`.
    pub segments: Vec<Segment<u32>>,
    pub chains: Vec<Chain>,
    pub functions: Vec<Function>,
    pub files: Vec<String>,
}

impl<'a> Walk<'a> {
    /// Flattens the unit at `offset` in `.debug_info`; with `only`, as far as this one address needs:
    /// the same answer, sooner. Empty where it is damaged.
    pub(crate) fn flatten(&self, offset: usize, only: Option<u64>) -> UnitTable {
        let Ok(unit) = self.unit_at(offset) else {
            return UnitTable::default();
        };
        match super::split::of_unit(self, &unit, |walk, split| {
            flatten(walk, split, self, &unit, only)
        }) {
            Some(table) => table,
            None => flatten(self, &unit, self, &unit, only),
        }
    }
}

/// `lined` is the unit with the line program: `unit` itself, or the skeleton of a split one.
fn flatten<'a, 'l>(
    walk: &Walk<'a>,
    unit: &Unit<R<'a>>,
    lined_walk: &Walk<'l>,
    lined: &Unit<R<'l>>,
    only: Option<u64>,
) -> UnitTable {
    let Functions {
        nodes,
        mut claims,
        functions,
    } = Functions::read(walk, unit, only);
    // Of a function that was folded with others, the line at its entry says which lines are its own.
    let points = only.map(|at| {
        let entries = nodes.iter().filter(|node| node.caller.is_none());
        entries
            .map(|node| node.entry)
            .chain([at])
            .collect::<Vec<_>>()
    });
    let lines = match &lined.line_program {
        Some(program) => Lines::read(program.clone(), &walk.file.code, points.as_deref()),
        None => Lines::default(),
    };
    // Code with lines but without a function's DIE, as hand-written assembly has it.
    let sequences = lines.sequences.iter().map(|s| (s.start, s.end));
    let wanted = |(start, end): (u64, u64)| match only {
        None => Some((start, end)),
        Some(at) => (start <= at && at < end).then_some((at, at + 1)),
    };
    claims.extend(sequences.filter_map(wanted).map(|(start, end)| Claim {
        start,
        end,
        rank: 0,
        value: NONE,
    }));
    for claim in &mut claims {
        claim.rank += u64::from(claim.value != NONE);
    }

    let mut chains = Chains {
        chains: Vec::new(),
        known: FxHashMap::default(),
    };
    let mut files = Files::new(lined_walk, lined);
    let mut callers: FxHashMap<u32, u32> = FxHashMap::default(); // node -> the chain it was called from
    let mut preferred: FxHashMap<u32, Option<usize>> = FxHashMap::default(); // outer node -> sequence
    let mut claimed: Vec<Claim<u32>> = Vec::new();

    for Segment {
        start,
        end,
        value: node,
    } in overlay(claims)
    {
        let (function, caller) = match nodes.get(node as usize) {
            Some(of) => (
                of.function,
                calls(&nodes, node, &mut chains, &mut files, &mut callers),
            ),
            None => (NONE, NONE),
        };
        let sequence = match outermost(&nodes, node) {
            Some(outer) => *preferred.entry(outer).or_insert_with(|| {
                let of = &nodes[outer as usize];
                best_sequence(&lines, of.entry, of.line)
            }),
            None => None,
        };
        let mut at = start;
        while at < end {
            let holds = |&i: &usize| lines.sequences[i].start <= at && at < lines.sequences[i].end;
            let Some(index) = sequence.filter(holds).or_else(|| lines.around(at).next()) else {
                // No line here: up to the next sequence.
                let next = lines.sequences.partition_point(|s| s.start <= at);
                let stop = lines.sequences.get(next).map_or(end, |s| s.start.min(end));
                let chain = chains.add(Chain {
                    function,
                    file: NONE,
                    line: 0,
                    caller,
                });
                claimed.push(Claim {
                    start: at,
                    end: stop,
                    rank: 0,
                    value: chain,
                });
                at = stop;
                continue;
            };
            for (from, to, row) in lines.sequences[index].over(at, end) {
                let file = files.index(row.file).unwrap_or(NONE);
                let chain = chains.add(Chain {
                    function,
                    file,
                    line: row.line,
                    caller,
                });
                claimed.push(Claim {
                    start: from,
                    end: to,
                    rank: 0,
                    value: chain,
                });
            }
            at = lines.sequences[index].end.min(end);
        }
    }
    UnitTable {
        segments: overlay(claimed),
        chains: chains.chains,
        functions,
        files: files.paths,
    }
}

/// The sequence that belongs to a function: where folding laid several over its entry, the one whose
/// first line is nearest to the function's declaration.
fn best_sequence(lines: &Lines, entry: u64, declared: Option<u64>) -> Option<usize> {
    let mut around = lines.around(entry).peekable();
    let first = around.next()?;
    if around.peek().is_none() {
        return Some(first);
    }
    let distance = |&index: &usize| {
        let line = lines.sequences[index].line_at(entry).map_or(0, u64::from);
        declared.map_or(u64::MAX, |declared| match line.checked_sub(declared) {
            Some(after) => after,
            None => u64::MAX / 2 + (declared - line),
        })
    };
    std::iter::once(first).chain(around).min_by_key(distance)
}

fn outermost(nodes: &[super::functions::Node], node: u32) -> Option<u32> {
    let mut at = node;
    while let Some(caller) = nodes.get(at as usize)?.caller {
        at = caller;
    }
    Some(at)
}

/// The chain of the place that `node` was inlined at; [`NONE`] for a function of its own.
fn calls(
    nodes: &[super::functions::Node],
    node: u32,
    chains: &mut Chains,
    files: &mut Files<'_, '_>,
    known: &mut FxHashMap<u32, u32>,
) -> u32 {
    // From the outermost inwards, without recursion: damaged nesting may be deep.
    let mut path = Vec::new();
    let mut at = node;
    let mut chain = NONE;
    while let Some(caller) = nodes[at as usize].caller {
        if let Some(&found) = known.get(&at) {
            chain = found;
            break;
        }
        path.push(at);
        at = caller;
    }
    for inlined in path.into_iter().rev() {
        let of = &nodes[inlined as usize];
        let caller = of
            .caller
            .map_or(NONE, |caller| nodes[caller as usize].function);
        let file = files.index(of.call_file).unwrap_or(NONE);
        chain = chains.add(Chain {
            function: caller,
            file,
            line: of.call_line,
            caller: chain,
        });
        known.insert(inlined, chain);
    }
    chain
}

/// Chains, each once.
struct Chains {
    chains: Vec<Chain>,
    known: FxHashMap<Chain, u32>,
}

impl Chains {
    fn add(&mut self, chain: Chain) -> u32 {
        *self.known.entry(chain).or_insert_with(|| {
            self.chains.push(chain);
            self.chains.len() as u32 - 1
        })
    }
}
