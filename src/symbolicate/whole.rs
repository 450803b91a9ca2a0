//! The lookup table of a whole debug file, made from all of its units and its symbol table.

use super::dwarf::{Chain, DwarfFile, Function, NONE, UnitTable};
use super::names;
use super::overlay::{Claim, overlay};
use super::symbols::Symbols;
use super::table::{Builder, FROM_SYMBOLS, Table, WANTS_SYMBOL};

/// Makes the table of the whole file, with `jobs` threads. `base` is the image's stated address.
pub(crate) fn build(dwarf: Option<&DwarfFile>, symbols: &Symbols, base: u64, jobs: usize) -> Table {
    let mut builder = Builder::default();
    let mut claims = Vec::new();
    if let Some(dwarf) = dwarf {
        let units = dwarf.read(|walk| walk.unit_offsets());
        for (index, unit) in flatten_all(dwarf, &units, jobs).into_iter().enumerate() {
            let settle = |function: &Function| {
                function
                    .wants_symbol
                    .then(|| agreeing(symbols, function.entry, &function.name))
                    .flatten()
            };
            // Among units that claim one address the first wins, if it knows the function.
            add_unit(
                &mut builder,
                &mut claims,
                &unit,
                (units.len() - index) as u64,
                base,
                settle,
            );
        }
    }
    add_symbols(&mut builder, &mut claims, symbols, base);
    let segments = overlay(claims);
    builder.finish(&segments, base)
}

/// Fills with the symbol table what DWARF says nothing about.
fn add_symbols(builder: &mut Builder, claims: &mut Vec<Claim<u32>>, symbols: &Symbols, base: u64) {
    let known = overlay(claims.clone());
    let mut at = 0;
    for symbol in symbols.all() {
        let relative = symbol
            .entry
            .checked_sub(base)
            .and_then(|e| u32::try_from(e).ok());
        let mut function = None;
        while at > 0 && known[at - 1].end > symbol.start {
            at -= 1;
        }
        while known
            .get(at)
            .is_some_and(|segment| segment.end <= symbol.start)
        {
            at += 1;
        }
        let mut add = |builder: &mut Builder, start, end, file, line| {
            let function = *function.get_or_insert_with(|| {
                let demangled = names::demangle(symbol.name);
                builder.function(symbol.name, Some(&demangled), relative, FROM_SYMBOLS)
            });
            let chain = builder.chain(Chain {
                function,
                file,
                line,
                caller: NONE,
            });
            claims.push(Claim {
                start,
                end,
                rank: u64::MAX,
                value: chain,
            });
        };
        let mut from = symbol.start;
        while from < symbol.end {
            match known.get(at) {
                Some(segment) if segment.start < symbol.end => {
                    if from < segment.start {
                        add(builder, from, segment.start, NONE, 0);
                    }
                    let end = segment.end.min(symbol.end);
                    if let Some(chain) = builder.chain_at(segment.value)
                        && chain.function == NONE
                        && chain.caller == NONE
                    {
                        add(
                            builder,
                            segment.start.max(from),
                            end,
                            chain.file,
                            chain.line,
                        );
                    }
                    from = end;
                    if segment.end <= symbol.end {
                        at += 1;
                    }
                }
                _ => {
                    add(builder, from, symbol.end, NONE, 0);
                    from = symbol.end;
                }
            }
        }
    }
}

/// Flattens all units, on `jobs` threads that take the next one each; in the order of `units`.
fn flatten_all(dwarf: &DwarfFile, units: &[usize], jobs: usize) -> Vec<UnitTable> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        dwarf.read(|walk| {
            let mut done = Vec::new();
            loop {
                let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let Some(&offset) = units.get(index) else {
                    return done;
                };
                done.push((index, walk.flatten(offset, None)));
            }
        })
    };
    let mut done: Vec<(usize, UnitTable)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..jobs.clamp(1, 64)).map(|_| scope.spawn(work)).collect();
        let mut done = work();
        for other in others {
            match other.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_by_key(|&(index, _)| index);
    done.into_iter().map(|(_, unit)| unit).collect()
}

/// Puts a unit's answers among those of the others. `settle` gives a function a better name.
pub(super) fn add_unit<'s>(
    builder: &mut Builder,
    claims: &mut Vec<Claim<u32>>,
    unit: &UnitTable,
    rank: u64,
    base: u64,
    settle: impl Fn(&Function) -> Option<&'s str>,
) {
    let whole = rank != 0;
    let mut functions: Vec<Option<u32>> = vec![None; unit.functions.len()];
    let mut files: Vec<Option<u32>> = vec![None; unit.files.len()];
    let mut chains: Vec<u32> = Vec::with_capacity(unit.chains.len());
    for chain in &unit.chains {
        let function = match unit.functions.get(chain.function as usize) {
            None => NONE,
            Some(function) => *functions[chain.function as usize].get_or_insert_with(|| {
                let entry = function
                    .entry
                    .checked_sub(base)
                    .filter(|_| function.entry != 0);
                let entry = entry.and_then(|entry| u32::try_from(entry).ok());
                let better = settle(function);
                let name = better.unwrap_or(&function.name);
                let flags = match (better, function.wants_symbol) {
                    (Some(_), _) => FROM_SYMBOLS,
                    (None, true) if !whole => WANTS_SYMBOL,
                    _ => 0,
                };
                let demangled = whole.then(|| names::demangle(name));
                builder.function(name, demangled.as_deref(), entry, flags)
            }),
        };
        let file = match unit.files.get(chain.file as usize) {
            None => NONE,
            Some(path) => *files[chain.file as usize].get_or_insert_with(|| builder.file(path)),
        };
        // A caller's chain always stands before those inlined into it.
        let caller = chains.get(chain.caller as usize).copied().unwrap_or(NONE);
        chains.push(builder.chain(Chain {
            function,
            file,
            line: chain.line,
            caller,
        }));
    }
    claims.extend(unit.segments.iter().map(|segment| {
        let chain = unit.chains[segment.value as usize];
        let known = chain.function != NONE || chain.caller != NONE;
        let rank = rank + if known { 1 << 40 } else { 0 };
        Claim {
            start: segment.start,
            end: segment.end,
            rank,
            value: chains[segment.value as usize],
        }
    }));
}

/// The symbol at a function's entry that agrees with its plain name; any, if it has none.
pub(super) fn agreeing<'s>(symbols: &'s Symbols, entry: u64, plain: &str) -> Option<&'s str> {
    let mut at_entry = symbols.names_at(entry);
    at_entry.find(|symbol| plain.is_empty() || names::agree(symbol, plain))
}
