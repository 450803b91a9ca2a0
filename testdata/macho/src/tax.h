// Inlined into its callers, two deep: `with_tax` calls `percent`.
#pragma once
#include <stdint.h>

static inline __attribute__((always_inline)) uint64_t percent(uint64_t cents, uint64_t rate) {
  uint64_t scaled = cents * rate;
  return (scaled + 50) / 100;
}

static inline __attribute__((always_inline)) uint64_t with_tax(uint64_t cents, uint32_t item) {
  if (item & 1)
    return cents + percent(cents, 7);
  return cents + percent(cents, 19);
}
