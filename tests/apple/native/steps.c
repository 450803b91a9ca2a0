// Shapes of functions that unwinders differ on, each called once or a few times: leaves with and
// without frames, early returns before the frame is made, large and variable frames, tail calls, jump
// tables, floating point in saved registers, calls by pointer, calls that do not return, longjmp.
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, used))
#define SEEN(x) __asm__ volatile("" : : "r"(x) : "memory")

KEEP uint64_t mix(uint64_t a, uint64_t b) { return (a ^ b >> 3) * 0x9e3779b97f4a7c15u; }

KEEP uint64_t leaf_with_frame(const uint64_t *from) {
  uint64_t room[24];
  for (int i = 0; i < 24; i++)
    room[i] = from[i & 3] + (uint64_t)i;
  SEEN(room);
  return room[5] ^ room[23];
}

KEEP uint64_t count_down(uint64_t n) { return n == 0 ? 1 : mix(n, count_down(n - 1)); }

KEEP uint64_t early_return(uint64_t n) {
  if (n < 4)
    return n;
  uint64_t kept[6] = {n, mix(n, 1), mix(n, 2), mix(n, 3), mix(n, 4), mix(n, 5)};
  SEEN(kept);
  return kept[n % 6] + count_down(3);
}

KEEP uint64_t many_saved(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g,
                         uint64_t h, uint64_t on_stack) {
  uint64_t first = mix(a, b), second = mix(c, first), third = mix(d, second), fourth = mix(e, third);
  return mix(first, f) + mix(second, g) + mix(third, h) + mix(fourth, on_stack) + a * b * c * d;
}

KEEP double floats(double x) {
  double sum = x, factor = x / 3;
  for (int i = 0; i < 5; i++)
    sum = sum * factor + (double)(mix((uint64_t)i, 3) & 7);
  return sum;
}

KEEP uint64_t large_frame(uint64_t n) {
  uint64_t room[3000];
  for (uint64_t i = 0; i < 3000; i += 97)
    room[i] = mix(i, n);
  SEEN(room);
  return room[97] ^ room[194];
}

KEEP uint64_t large_leaf(uint64_t n) {
  uint64_t room[700];
  for (uint64_t i = 0; i < 700; i += 31)
    room[i] = i * n;
  SEEN(room);
  return room[62];
}

KEEP uint64_t variable_frame(size_t n) {
  uint64_t room[n];
  memset(room, (int)n, sizeof room);
  SEEN(room);
  return mix(room[n - 1], room[0]);
}

KEEP uint64_t last_of_all(uint64_t n) { return mix(n, n) | 1; }
KEEP uint64_t tail_call(uint64_t n) {
  uint64_t near[4] = {n, n + 1, n + 2, n + 3};
  SEEN(near);
  return last_of_all(mix(n, 7));
}

KEEP uint64_t by_pointer(uint64_t (*function)(uint64_t), uint64_t n) { return function(n) + 1; }

KEEP uint64_t jump_table(unsigned which, const uint64_t *from) {
  switch (which) {
  case 0: return mix(which, 1);
  case 1: return leaf_with_frame(from) + 1;
  case 2: return from[0] * 3;
  case 3: return early_return(9);
  case 4: return variable_frame(17);
  case 5: return large_leaf(5);
  case 6: return tail_call(6);
  default: return 0;
  }
}

static jmp_buf back;
KEEP __attribute__((noreturn)) void leaves(int value) { longjmp(back, value); }
KEEP uint64_t jumps(uint64_t n) {
  if (setjmp(back) == 0) {
    if (n)
      leaves((int)n);
    exit(3);
  }
  return mix(n, 8);
}

KEEP __attribute__((noreturn)) void ends(uint64_t sum) {
  if (sum != 0)
    exit(write(1, "steps\n", 6) == 6 ? 0 : 1);
  abort();
}

int main(int count, char **arguments) {
  (void)arguments;
  uint64_t from[4] = {1, 2, 3, (uint64_t)count}, sum = 0;
  sum += leaf_with_frame(from) + count_down(6) + early_return(2) + early_return(40);
  sum += many_saved(1, 2, 3, 4, 5, 6, 7, 8, 9) + (uint64_t)floats(1.5) + large_frame(2) + large_leaf(3);
  sum += variable_frame(40) + tail_call(5) + by_pointer(tail_call, 3) + by_pointer(early_return, 11);
  for (unsigned which = 0; which < 8; which++)
    sum += jump_table(which, from);
  sum += jumps(2) + count_down(2);
  ends(sum | 1);
}
