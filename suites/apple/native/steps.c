// Each of the shapes, with one argument and another.
#include "shapes.h"

KEEP __attribute__((noreturn)) void ends(uint64_t sum) {
  if (sum != 0)
    exit(write(1, "steps\n", 6) == 6 ? 0 : 1);
  abort();
}

int main(int count, char **arguments) {
  (void)arguments;
  uint64_t sum = (uint64_t)count;
  for (uint64_t n = 0; n < 12; n++)
    sum += all_with(n);
  ends(sum | 1);
}
