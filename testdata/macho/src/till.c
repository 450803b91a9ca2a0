// Sums up orders: a loop with calls inlined two deep from a header, a helper of its own inlined,
// and one that is not.
#include "kiosk.h"
#include "tax.h"

static __attribute__((noinline)) uint64_t discount(uint64_t cents, uint32_t count) {
  if (count > 1000)
    kiosk_fault(count);
  return count >= 10 ? cents - cents / 10 : cents;
}

static inline __attribute__((always_inline)) uint64_t price(const struct order *o) {
  uint64_t cents = (uint64_t)o->count * o->cents;
  cents = discount(cents, o->count);
  return with_tax(cents, o->item);
}

uint64_t till_total(const struct order *orders, uint32_t n) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < n; i++)
    total += price(&orders[i]);
  return total;
}
