/* Plain C: recursion, alloca, arrays of variable length, function pointers, tail calls, switches,
 * variable arguments, returned structs, setjmp. */
#include <alloca.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#define KEEP __attribute__((noinline, noclone))

volatile long sink;

struct big { long words[9]; };

KEEP static long leaf(long n) { return n * 3 + sink; }
KEEP static long fib(long n) { return n < 2 ? leaf(n) : fib(n - 1) + fib(n - 2); }

KEEP static long with_alloca(long n) {
    volatile char *room = alloca(16 + n * 8);
    room[0] = 1;
    room[n] = 2;
    return leaf(n) + room[0];
}

KEEP static long with_vla(long n) {
    volatile long room[n + 1];
    for (long i = 0; i <= n; i++) room[i] = leaf(i);
    return room[n] + room[0];
}

KEEP static long aligned(long n) {
    volatile long room[4] __attribute__((aligned(64)));
    room[n & 3] = leaf(n);
    return room[n & 3];
}

KEEP static long large_frame(long n) {
    volatile char room[20000];
    room[n] = 1;
    room[19999] = 2;
    return leaf(room[n]);
}

KEEP static struct big returns_struct(long n) {
    struct big b;
    memset(&b, 0, sizeof b);
    b.words[n % 9] = leaf(n);
    return b;
}

KEEP static long many(int count, ...) {
    va_list list;
    long sum = 0;
    va_start(list, count);
    for (int i = 0; i < count; i++) sum += va_arg(list, long);
    va_end(list);
    return sum;
}

KEEP static long tail_target(long n) { return leaf(n) + 1; }
KEEP static long tail(long n) { return tail_target(n + 1); }

KEEP static long early_out(long n, long m) {
    if (n == 0) return m;
    long sum = 0;
    for (long i = 0; i < n; i++) sum += leaf(i) * leaf(m);
    return sum + fib(3);
}

KEEP static long selects(long n) {
    switch (n) {
    case 0: return leaf(1);
    case 1: return tail(2);
    case 2: return with_alloca(3);
    case 3: return with_vla(4);
    case 4: return aligned(5);
    case 5: return large_frame(6);
    default: return many(7, 1L, 2L, 3L, 4L, 5L, 6L, n);
    }
}

typedef long (*function)(long);
static function volatile table[] = { leaf, fib, tail, with_alloca, with_vla, aligned, selects };

static jmp_buf target;
KEEP static void jumps(long n) {
    if (n == 0) longjmp(target, 1);
    jumps(n - 1);
    sink++;
}

int main(void) {
    long sum = 0;
    for (long round = 0; round < 3; round++) {
        for (unsigned i = 0; i < sizeof table / sizeof *table; i++) sum += table[i](round + 3);
        for (long i = 0; i < 7; i++) sum += selects(i);
        sum += returns_struct(round).words[round];
        sum += early_out(0, round) + early_out(round, 2);
        if (setjmp(target) == 0) jumps(4);
    }
    sink = sum;
    return 0;
}
