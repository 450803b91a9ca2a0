/* Contexts of their own stack (ucontext), entered, left and entered again; and one that begins another. */
#include <stdlib.h>
#include <ucontext.h>

#define KEEP __attribute__((noinline, noclone, used))
enum { STACK = 1 << 21 };
static volatile long sink;
static ucontext_t home, one, two;

KEEP static long leaf(long n) { return n * 3 + sink; }

KEEP static void waits(ucontext_t *from, ucontext_t *to, int depth) {
  if (depth > 0) {
    waits(from, to, depth - 1);
    sink += leaf(depth);
    return;
  }
  swapcontext(from, to);
  sink += leaf(1);
}

static void body_one(void) {
  for (int turn = 0; turn < 3; turn++) waits(&one, &two, turn);
  setcontext(&home);
}

static void body_two(int a, int b) {
  for (;;) {
    sink += leaf(a) + b;
    waits(&two, &one, 2);
  }
}

KEEP static void make(ucontext_t *context, char *stack, void (*body)(void)) {
  getcontext(context);
  context->uc_stack.ss_sp = stack;
  context->uc_stack.ss_size = STACK;
  context->uc_link = &home;
  makecontext(context, body, 2, 1, 2);
}

KEEP static void run(long turns) {
  char *room = malloc(4 * (size_t)STACK);
  for (long turn = 0; turn < turns; turn++) {
    make(&one, room, body_one);
    make(&two, room + 2 * (size_t)STACK, (void (*)(void))body_two);
    swapcontext(&home, &one);
    sink += leaf(turn);
  }
  free(room);
}

int main(void) {
  run(2);
  return 0;
}
