/* Jumps by the compiler's own longjmp. Built with return thunks, each function returns by way of one. */
#define KEEP __attribute__((noinline, noclone, used))
static volatile long sink;
static void *back[5];

KEEP static long leaf(long n) { return n * 3 + sink; }

KEEP static void throws(long n) {
  if (n == 0) __builtin_longjmp(back, 1);
  throws(n - 1);
  sink += leaf(n);
}

KEEP static void throws_large(long n) {
  volatile char room[300];
  room[n] = 1;
  sink += leaf(room[n]);
  if (sink) __builtin_longjmp(back, 1);
  room[n + 1] = 2;
}

KEEP static long many(long a, long b, long c, long d, long e, long f, long g, long h) {
  return leaf(a + b + c + d) * leaf(e + f + g + h);
}

KEEP static long catches(long n, void (*thrower)(long)) {
  volatile long kept = n;
  if (__builtin_setjmp(back) == 0)
    thrower(n);
  else
    kept += leaf(kept);
  return kept + many(1, 2, 3, 4, 5, 6, 7, kept);
}

int main(void) {
  for (long n = 0; n < 3; n++) sink += catches(n, throws) + catches(n, throws_large);
  return 0;
}
