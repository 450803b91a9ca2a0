// Shapes of functions that unwinders differ on, each called once or a few times: leaves with and
// without frames, early returns before the frame is made, large and variable frames, tail calls, jump
// tables, floating point in saved registers, calls by pointer, calls that do not return, longjmp; and
// more of the kind: arguments that vary, large arguments and results, aligned frames, thread locals.
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, used))
#define SEEN(x) __asm__ volatile("" : : "r"(x) : "memory")

#if defined(EH_FRAME) && defined(__arm64__)
// clang leaves __eh_frame out unless some function cannot do without: here is one.
__asm__(".globl _by_scratch\n_by_scratch:\n.cfi_startproc\n.cfi_def_cfa x9, 16\nret\n.cfi_endproc\n");
#endif

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

// Its frame is aligned beyond what callers grant.
KEEP uint64_t aligned_frame(uint64_t n) {
  _Alignas(64) uint64_t room[16];
  for (unsigned i = 0; i < 16; i++)
    room[i] = mix(n, i);
  SEEN(room);
  return room[n & 15] ^ ((uintptr_t)room & 63);
}

KEEP uint64_t aligned_and_variable(uint64_t n) {
  _Alignas(128) uint64_t room[16];
  uint64_t more[n % 13 + 1];
  memset(room, (int)n, sizeof room);
  memset(more, (int)n, sizeof more);
  SEEN(room);
  SEEN(more);
  return mix(room[3], more[n % 13]);
}

KEEP uint64_t sum_of(int count, ...) {
  va_list list;
  uint64_t sum = 0;
  va_start(list, count);
  for (int i = 0; i < count; i++)
    sum = mix(sum, va_arg(list, uint64_t));
  va_end(list);
  return sum;
}

struct large {
  uint64_t words[20];
};
KEEP struct large make_large(uint64_t n) {
  struct large made;
  for (unsigned i = 0; i < 20; i++)
    made.words[i] = n * i;
  made.words[7] = mix(n, 7);
  return made;
}
KEEP uint64_t take_large(struct large taken, uint64_t n) { return taken.words[n % 20] + count_down(n & 3); }
KEEP uint64_t hand_large(uint64_t n) { return take_large(make_large(n), n) + take_large(make_large(n + 1), 3); }

// Nothing but the rare way needs a frame.
KEEP uint64_t rare_way(uint64_t n) {
  if (__builtin_expect(n % 11 != 0, 1))
    return n * 3 + 1;
  struct large kept = make_large(n);
  return mix(kept.words[2], n) + leaf_with_frame(kept.words);
}

// Registers that calls preserve, used in the middle only.
KEEP uint64_t preserved(uint64_t n) {
  uint64_t sum = n;
  if (n & 1) {
#if defined(__arm64__)
    __asm__ volatile("" : : : "x19", "x20", "x21", "x22", "x23", "d8", "d9", "d10", "d11");
#else
    __asm__ volatile("" : : : "rbx", "r12", "r13", "r14", "r15");
#endif
    sum += mix(n, 2);
  }
  return sum;
}

KEEP double many_floats(double a, double b, double c, double d) {
  double e = floats(a) + b, f = floats(b) * c, g = floats(c) - d;
  return e * f + floats(g) * a + b * c + d * e;
}

static __thread uint64_t of_thread = 5;
KEEP uint64_t thread_local_word(uint64_t n) { return of_thread = mix(of_thread, n); }

static int by_value(const void *left, const void *right) {
  uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
  return (a > b) - (a < b);
}
KEEP uint64_t sorted(uint64_t n) {
  uint64_t list[9];
  for (unsigned i = 0; i < 9; i++)
    list[i] = mix(n, i) >> 40;
  qsort(list, 9, sizeof *list, by_value);
  return list[4];
}

KEEP uint64_t with_heap(uint64_t n) {
  char *text = malloc(n % 40 + 16);
  if (text == NULL)
    abort();
  memcpy(text, "twelve bytes", 13);
  uint64_t length = strlen(text) + (uint64_t)strcmp(text, "twelve");
  free(text);
  return length;
}

KEEP uint64_t even(uint64_t n);
KEEP uint64_t odd(uint64_t n) { return n == 0 ? 0 : even(n - 1); }
KEEP uint64_t even(uint64_t n) { return n == 0 ? 1 : odd(n - 1); }

KEEP uint64_t count_down_of(uint64_t n) { return count_down(n & 7); }
KEEP uint64_t variable_of(uint64_t n) { return variable_frame(n % 50 + 1); }

static uint64_t (*const functions[])(uint64_t) = {
    count_down_of, early_return, large_leaf, variable_of, tail_call, aligned_frame, aligned_and_variable,
    hand_large, rare_way, preserved, thread_local_word, sorted, with_heap, even, large_frame,
};
#define FUNCTIONS (sizeof functions / sizeof *functions)

// Picks by what it is given: a tail call by a register.
KEEP uint64_t any_of(uint64_t which, uint64_t n) { return functions[which % FUNCTIONS](n); }

KEEP uint64_t two_deep(uint64_t n) {
  jmp_buf outer;
  memcpy(&outer, &back, sizeof back);
  uint64_t sum = jumps((n & 3) + 1);
  uint64_t again = jumps((n & 1) + 1);
  memcpy(&back, &outer, sizeof back);
  return mix(sum, again);
}

KEEP uint64_t all_with(uint64_t n) {
  uint64_t from[4] = {n, n + 1, n + 2, n * n};
  uint64_t sum = leaf_with_frame(from) + jump_table((unsigned)n, from);
  for (unsigned which = 0; which < FUNCTIONS; which++)
    sum = mix(sum, any_of(which, n + which));
  sum += sum_of(6, n, n + 1, n + 2, n + 3, n + 4, n + 5) + (uint64_t)many_floats((double)n, 1.5, 2.5, 3.5);
  sum += many_saved(n, 2, 3, 4, 5, 6, 7, 8, 9) + by_pointer(rare_way, n) + two_deep(n + 1);
  return sum;
}
