// What the files of the fixture share.
#pragma once
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

// One order at the kiosk: what, how many, at which price in cents.
struct order {
  uint32_t item, count, cents;
};

uint64_t till_total(const struct order *orders, uint32_t n);    // till.c
uint64_t render_receipt(const struct order *orders, uint32_t n); // receipt.cpp
uint64_t grain_grind(const uint32_t *beans, uint64_t n);         // grain/src/lib.rs
void kiosk_fault(uint64_t code) __attribute__((noreturn));       // kiosk.c

#ifdef __cplusplus
}
#endif
