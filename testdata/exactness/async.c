// Functions with extended frames, as Swift's async functions have them: built by clang with -fswift-async-fp=always.
#include <alloca.h>
#include <stdlib.h>
#include <string.h>

struct context;
typedef void async_function(__attribute__((swift_async_context)) struct context *)
    __attribute__((swiftasynccall));
struct context {
  struct context *parent;
  async_function *resume;
  long value;
};

#define ASYNC __attribute__((swiftasynccall, noinline))
#define CONTEXT __attribute__((swift_async_context)) struct context *context
#define TAIL __attribute__((musttail)) return

static volatile long sink;

static __attribute__((noinline)) long plain(long n) {
  sink += n;
  return n * 3 + sink;
}

static __attribute__((noinline)) long deep(long n) { return n <= 0 ? plain(n) : deep(n - 1) + plain(n); }

// Registers of its own, a large frame, and one whose size is not known.
static ASYNC long saves(long a, long b, long c, CONTEXT) {
  long x = plain(a), y = plain(b), z = plain(c), w = deep(2);
  sink += x * y + z * w;
  return plain(x) + plain(y) + plain(z) + plain(w) + context->value;
}
static ASYNC long large(CONTEXT) {
  char bytes[9000];
  memset(bytes, (int)context->value, sizeof bytes);
  return plain(bytes[sink & 1023]) + bytes[plain(3) & 1023];
}
static ASYNC long variable(long n, CONTEXT) {
  volatile char *bytes = alloca((size_t)n * 8 + 16);
  bytes[n] = (char)context->value;
  return plain(bytes[n]) + deep(n & 3);
}
// Within each other.
static ASYNC long nested(long n, CONTEXT) {
  struct context inner = {context, context->resume, n};
  if (n == 0) return plain(1);
  return nested(n - 1, &inner) + plain(n);
}
// Without a context.
static ASYNC long none(long n) { return deep(n) + plain(n); }

// One after the other in one frame, as parts of a function that awaits.
static ASYNC void last(CONTEXT) { sink += plain(context->value); }
static ASYNC void second(CONTEXT) {
  sink += deep(3) + saves(1, 2, 3, context) + large(context) + variable(sink & 31, context);
  TAIL context->resume(context->parent);
}
static ASYNC void first(CONTEXT) {
  sink += nested(4, context) + none(2);
  TAIL second(context);
}

static int order(const void *a, const void *b) {
  struct context root = {0}, context = {&root, last, *(const int *)a};
  first(&context);
  return *(const int *)a - *(const int *)b;
}

static __attribute__((noinline)) void run(int count) {
  struct context root = {0}, outer = {&root, last, 7}, inner = {&outer, last, 9};
  for (int i = 0; i < count; i++) first(&inner);
}

int main(void) {
  run(2);
  int numbers[] = {3, 1, 2};
  qsort(numbers, 3, sizeof *numbers, order);
  return sink == 0;
}
