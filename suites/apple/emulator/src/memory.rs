//! Guest memory: regions with protections, as `mach/mach_vm.h` and `sys/mman.h` give them.

use std::collections::BTreeMap;

use unicorn_engine::Prot;

use crate::cpu::Uc;

/// arm64's page, a multiple of x86_64's.
pub const PAGE: u64 = 0x4000;

/// What sizes are rounded to: the smaller page.
const GRAIN: u64 = 0x1000;

/// Where mappings without a wish go.
const FIRST: u64 = 0x1_8000_0000;

/// The map of guest memory.
#[derive(Default)]
pub struct Memory {
    regions: BTreeMap<u64, (u64, u32)>,
    next: u64,
}

fn prot(bits: u32) -> Prot {
    let mut prot = Prot::NONE;
    for (bit, one) in [(1, Prot::READ), (2, Prot::WRITE), (4, Prot::EXEC)] {
        if bits & bit != 0 {
            prot |= one;
        }
    }
    prot
}

fn round(size: u64) -> u64 {
    (size + GRAIN - 1) & !(GRAIN - 1)
}

impl Memory {
    /// Maps zeroed memory, at `at` or anywhere; with a gap behind it, so that overruns fault.
    pub fn map(&mut self, uc: &mut Uc, at: Option<u64>, size: u64, bits: u32) -> u64 {
        let size = round(size.max(1));
        let at = at.unwrap_or_else(|| {
            let at = self.next.max(FIRST);
            self.next = (at + size + 2 * PAGE - 1) & !(PAGE - 1);
            at
        });
        self.unmap(uc, at, size);
        uc.mem_map(at, size, prot(bits))
            .unwrap_or_else(|e| panic!("mapping {size:#x} bytes at {at:#x}: {e:?}"));
        self.regions.insert(at, (size, bits));
        at
    }

    /// Bytes that are mapped.
    pub fn mapped(&self) -> u64 {
        self.regions.values().map(|(size, _)| size).sum()
    }

    /// Unmaps whatever lies in the range.
    pub fn unmap(&mut self, uc: &mut Uc, at: u64, size: u64) {
        self.carve(at, at + round(size), |start, end, _| {
            let _ = uc.mem_unmap(start, end - start);
            None
        });
    }

    /// Changes rights; false where the range is not mapped.
    pub fn protect(&mut self, uc: &mut Uc, at: u64, size: u64, bits: u32) -> bool {
        let mut found = false;
        self.carve(at & !(GRAIN - 1), at + round(size), |start, end, _| {
            found = true;
            uc.mem_protect(start, end - start, prot(bits))
                .expect("a range that is mapped");
            Some(bits)
        });
        found
    }

    /// Start, size and rights of the region at or above an address.
    pub fn region(&self, at: u64) -> Option<(u64, u64, u32)> {
        let below = self
            .regions
            .range(..=at)
            .next_back()
            .filter(|(start, (size, _))| at < **start + size);
        let found = below.or_else(|| self.regions.range(at..).next())?;
        Some((*found.0, found.1.0, found.1.1))
    }

    /// Whether a read of all these bytes would succeed.
    pub fn readable(&self, at: u64, size: u64) -> bool {
        let Some(end) = at.checked_add(size) else {
            return false;
        };
        let mut at = at;
        while at < end {
            match self.region(at) {
                Some((start, size, bits)) if start <= at && bits & 1 != 0 => at = start + size,
                _ => return false,
            }
        }
        true
    }

    /// Splits regions at both ends and lets `change` say what becomes of what lies between.
    fn carve(&mut self, from: u64, to: u64, mut change: impl FnMut(u64, u64, u32) -> Option<u32>) {
        let touched: Vec<(u64, u64, u32)> = self
            .regions
            .range(..to)
            .map(|(s, (n, b))| (*s, *s + *n, *b))
            .filter(|(_, end, _)| *end > from)
            .collect();
        for (start, end, bits) in touched {
            self.regions.remove(&start);
            if start < from {
                self.regions.insert(start, (from - start, bits));
            }
            if end > to {
                self.regions.insert(to, (end - to, bits));
            }
            let (start, end) = (start.max(from), end.min(to));
            if let Some(bits) = change(start, end, bits) {
                self.regions.insert(start, (end - start, bits));
            }
        }
    }
}
