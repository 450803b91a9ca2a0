/* Shapes that the other programs have not: coroutines (ucontext) with a handler within one, longjmp out of
 * nested calls, frames of more than a page and than a short rule can say, alloca under stack probes, realigned
 * frames, a naked function, states that are remembered and restored, a CFA in rbx, `enter`, functions that
 * push in their bodies, a thread that ends itself. */
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone, used))
volatile long sink;

KEEP static long leaf(long n) { return n * 3 + sink; }

/* Coroutines. */
static ucontext_t main_context, one, other;
KEEP static void inner(int depth) {
    if (depth) { inner(depth - 1); sink++; return; }
    swapcontext(&one, &other);
    sink += leaf(2);
}
static void runs(int signal) { sink += leaf(signal); }
static void body_one(void) { inner(3); raise(SIGUSR1); inner(1); }
static void body_other(void) { for (int n = 0; n < 2; n++) { sink += leaf(n); swapcontext(&other, &one); } }
KEEP static void coroutines(void) {
    const size_t size = 1 << 18;
    char *room = mmap(0, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    getcontext(&one);
    one.uc_stack.ss_sp = room; one.uc_stack.ss_size = size; one.uc_link = &main_context;
    makecontext(&one, body_one, 0);
    getcontext(&other);
    other.uc_stack.ss_sp = room + (2 << 20); other.uc_stack.ss_size = size; other.uc_link = &main_context;
    makecontext(&other, body_other, 0);
    swapcontext(&main_context, &one);
    sink++;
}

/* longjmp past frames with saved registers. */
static jmp_buf back;
KEEP static long throws(long n) { if (n == 0) longjmp(back, 7); return throws(n - 1) * 3 + n; }
KEEP static long catches(long n) { volatile long kept = n; int r = setjmp(back); if (!r) kept += throws(4); return kept + r; }

/* Frames of more than a page, and of more than 512 KiB. */
KEEP static long large(long n) { volatile char room[20000]; room[n] = 1; return leaf(n) + room[n]; }
KEEP static long huge(long n) { volatile char room[700000]; room[n] = 1; return leaf(n) + room[n]; }
KEEP static long varied(long n) {
    char *room = alloca(n * 5000 + 16), *more = alloca(n);
    room[0] = 1; more[0] = 2; sink += (long)room + (long)more;
    return leaf(n) + large(n);
}
KEEP static long aligned(long n) {
    _Alignas(256) volatile char room[300]; room[n] = 1;
    volatile char *more = alloca(n + 64); more[0] = 1;
    return leaf(n) + room[n] + more[0];
}

/* Many arguments: pushes in the body. */
KEEP static long many(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j) {
    return leaf(a + b + c + d + e + f + g + h + i + j);
}
KEEP static long pushes(long n) { return many(n, 1, 2, 3, 4, 5, 6, 7, n, 9) + many(1, n, 3, 4, 5, 6, 7, 8, 9, n); }
KEEP static long varargs(int count, ...) {
    va_list list; long sum = 0;
    va_start(list, count);
    while (count--) sum += va_arg(list, long);
    va_end(list);
    return sum + leaf(1);
}

/* By hand. */
__attribute__((naked, noinline)) static long naked(long n) { __asm__("push %rdi; call leaf_by_hand; pop %rdi; add %rdi, %rax; ret"); (void)n; }
__asm__(
".text\n.type leaf_by_hand,@function\nleaf_by_hand: lea 5(%rdi), %rax; ret\n"
/* Two epilogues, with the state remembered between them. */
".globl remembers\n.type remembers,@function\nremembers:\n.cfi_startproc\n"
"push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset rbx, 0\n"
"sub $16, %rsp\n.cfi_adjust_cfa_offset 16\n"
"mov %rdi, %rbx\ntest %rdi, %rdi\njz 1f\n"
"call leaf_by_hand\n.cfi_remember_state\n"
"add $16, %rsp\n.cfi_adjust_cfa_offset -16\npop %rbx\n.cfi_adjust_cfa_offset -8\n.cfi_restore rbx\nret\n"
".cfi_restore_state\n1: mov $3, %edi\ncall leaf_by_hand\nadd %rbx, %rax\n"
"add $16, %rsp\n.cfi_def_cfa_offset 16\npop %rbx\n.cfi_def_cfa_offset 8\nret\n.cfi_endproc\n"
/* A CFA in a register that is neither, kept there while the stack pointer is odd. */
".globl by_rbx\n.type by_rbx,@function\nby_rbx:\n.cfi_startproc\n"
"push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset rbx, 0\n"
"mov %rsp, %rbx\n.cfi_def_cfa_register rbx\n"
"and $-64, %rsp\nsub $64, %rsp\ncall leaf_by_hand\n"
"mov %rbx, %rsp\n.cfi_def_cfa_register rsp\npop %rbx\n.cfi_adjust_cfa_offset -8\n.cfi_restore rbx\nret\n.cfi_endproc\n"
/* enter, leave. */
".globl enters\n.type enters,@function\nenters:\n.cfi_startproc\n"
"enter $32, $0\n.cfi_def_cfa rbp, 16\n.cfi_offset rbp, -16\ncall leaf_by_hand\nleave\n.cfi_def_cfa rsp, 8\nret\n.cfi_endproc\n");
long remembers(long), by_rbx(long), enters(long);

KEEP static int compare(const void *a, const void *b) { return (int)(*(const long *)a - *(const long *)b) + (int)(sink & 0); }
static void *threads(void *n) { pthread_exit((void *)(leaf((long)n))); }

int main(void) {
    struct sigaction action = { .sa_handler = runs, .sa_flags = SA_ONSTACK };
    static char alternate[1 << 16];
    stack_t stack = { .ss_sp = alternate, .ss_size = sizeof alternate };
    sigaltstack(&stack, 0);
    sigaction(SIGUSR1, &action, 0);
    coroutines();
    sink += catches(3) + large(5) + huge(7) + varied(3) + aligned(9) + pushes(4) + varargs(9, 1L, 2L, 3L, 4L, 5L, 6L, 7L, 8L, 9L);
    sink += naked(3) + remembers(0) + remembers(1) + by_rbx(2) + enters(3);
    long list[] = { 5, 3, 9, 1, 2 };
    qsort(list, 5, sizeof *list, compare);
    pthread_t thread;
    void *result;
    pthread_create(&thread, 0, threads, (void *)5);
    pthread_join(thread, &result);
    return 0;
}
