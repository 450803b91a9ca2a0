/* Handlers: on the thread's own stack and on an alternate one, one within another, and one that is
 * left by siglongjmp from a real fault. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone))
volatile long sink;
static sigjmp_buf back;

KEEP static long work(long n) { return n < 2 ? sink : work(n - 1) + work(n - 2); }
static void plain(int signal) { sink += work(4) + signal; }
static void nests(int signal) { raise(SIGUSR1); sink += work(3) + signal; }
static void faults(int signal, siginfo_t *info, void *context) {
    sink += signal + info->si_code + (context != 0);
    siglongjmp(back, 1);
}

KEEP static void raises(int signal) { raise(signal); sink++; }
KEEP static void touches(volatile char *page) { *page = 1; }

int main(void) {
    static char room[1 << 16];
    stack_t alternate = { .ss_sp = room, .ss_size = sizeof room };
    struct sigaction action;
    sigaltstack(&alternate, 0);
    memset(&action, 0, sizeof action);
    action.sa_handler = plain;
    sigaction(SIGUSR1, &action, 0);
    action.sa_handler = nests;
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR2, &action, 0);
    action.sa_sigaction = faults;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, 0);
    raises(SIGUSR1);
    raises(SIGUSR2);
    char *page = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (sigsetjmp(back, 1) == 0) touches(page);
    return 0;
}
