//! Two burrs behind one trait: `Coarse` is inlined whole, `Fine` calls a function of its own.

pub trait Burr {
    fn crush(bean: u32) -> u64;
}

pub struct Coarse;

pub struct Fine;

impl Burr for Coarse {
    #[inline(always)]
    fn crush(bean: u32) -> u64 {
        crack(bean, 3)
    }
}

impl Burr for Fine {
    #[inline(always)]
    fn crush(bean: u32) -> u64 {
        let shards = crack(bean, 7);
        mill(shards, bean)
    }
}

#[inline(always)]
fn crack(bean: u32, edge: u64) -> u64 {
    let bean = u64::from(bean);
    (bean * edge) ^ (bean >> 2)
}

#[inline(never)]
fn mill(shards: u64, turns: u32) -> u64 {
    let mut dust = shards;
    for turn in 0..turns % 8 {
        dust = dust.wrapping_mul(0x9e37_79b9).wrapping_add(u64::from(turn));
    }
    dust
}
