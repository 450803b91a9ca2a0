//! The operations that the handshakes use on an atomic word, so that a model checker's can stand in for the
//! processor's.

use std::sync::atomic::Ordering;

/// A word that threads and signal handlers share. All of it is signal-safe.
pub(crate) trait Atomic {
    type Value;
    fn load(&self, order: Ordering) -> Self::Value;
    fn store(&self, value: Self::Value, order: Ordering);
    fn fetch_add(&self, value: Self::Value, order: Ordering) -> Self::Value;
    fn fetch_sub(&self, value: Self::Value, order: Ordering) -> Self::Value;
    fn compare_exchange(
        &self,
        current: Self::Value,
        new: Self::Value,
        success: Ordering,
        failure: Ordering,
    ) -> Result<Self::Value, Self::Value>;
    /// As [`std::sync::atomic::fence`].
    fn fence(order: Ordering);
}

macro_rules! atomics {
    ($fence:path, $around:path, $($word:ty: $value:ty),*) => {
        $(impl Atomic for $word {
            type Value = $value;
            fn load(&self, order: Ordering) -> $value {
                $around(order, || self.load(order))
            }
            fn store(&self, value: $value, order: Ordering) {
                $around(order, || self.store(value, order));
            }
            fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                $around(order, || self.fetch_add(value, order))
            }
            fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                $around(order, || self.fetch_sub(value, order))
            }
            fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }
            fn fence(order: Ordering) {
                $fence(order);
            }
        })*
    };
}

/// The processor's own order is enough.
#[inline(always)]
fn plainly<T>(_order: Ordering, access: impl FnOnce() -> T) -> T {
    access()
}

atomics!(
    std::sync::atomic::fence,
    plainly,
    std::sync::atomic::AtomicU64: u64,
    std::sync::atomic::AtomicUsize: usize
);

/// loom takes accesses that are sequentially consistent for acquire and release alone; with fences they are what they
/// say (loom's documentation, "Limitations").
#[cfg(all(loom, test))]
fn fenced<T>(order: Ordering, access: impl FnOnce() -> T) -> T {
    let fence = || {
        if order == Ordering::SeqCst {
            loom::sync::atomic::fence(order);
        }
    };
    fence();
    let value = access();
    fence();
    value
}

#[cfg(all(loom, test))]
atomics!(
    loom::sync::atomic::fence,
    fenced,
    loom::sync::atomic::AtomicU64: u64,
    loom::sync::atomic::AtomicUsize: usize
);
