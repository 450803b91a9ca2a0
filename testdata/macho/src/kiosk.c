// The program: a loop over orders, and a fault that does not return.
#include "kiosk.h"

extern void exit(int) __attribute__((noreturn));

void kiosk_fault(uint64_t code) {
  exit((int)(code & 0x7f));
}

static __attribute__((noinline)) uint64_t handle_event(uint32_t event) {
  struct order orders[4];
  for (uint32_t i = 0; i < 4; i++) {
    orders[i].item = event + i;
    orders[i].count = event * 3 + i;
    orders[i].cents = 250 + 10 * i;
  }
  uint32_t beans[6] = {event, 2, 3, 5, 7, event + 11};
  uint64_t total = till_total(orders, 1 + event % 4);
  total ^= render_receipt(orders, 1 + event % 4);
  return total + grain_grind(beans, 6);
}

int main(int argc, char **argv) {
  (void)argv;
  uint64_t all = 0;
  for (uint32_t event = 0; event < (uint32_t)argc * 5; event++)
    all = all * 31 + handle_event(event);
  return (int)(all & 1);
}
