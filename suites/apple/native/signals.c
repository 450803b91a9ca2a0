// Handlers of signals: for faults and traps that they put right, for signals of another thread that come
// anywhere, within each other, on a stack of their own, and left by longjmp.
#include "shapes.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ucontext.h>

static volatile uint64_t handled;
static char *page;
static sigjmp_buf away;

KEEP void on_fault(int number, siginfo_t *info, void *context) {
  (void)number;
  (void)context;
  handled += any_of((uint64_t)handled, 3);
  if ((char *)info->si_addr < page || (char *)info->si_addr >= page + 0x4000)
    abort();
  mprotect(page, 0x4000, PROT_READ | PROT_WRITE);
}

KEEP void on_trap(int number, siginfo_t *info, void *context) {
  (void)number;
  (void)info;
  handled += leaf_with_frame((uint64_t[]){1, 2, 3, 4});
  ucontext_t *interrupted = context;
#if defined(__arm64__)
  interrupted->uc_mcontext->__ss.__pc += 4;
#else
  interrupted->uc_mcontext->__ss.__rip += 2;
#endif
}

KEEP void on_inner(int number) { handled += early_return((uint64_t)number + 20); }

KEEP void on_outer(int number) {
  handled += any_of(handled, (uint64_t)number);
  raise(SIGUSR2);
  handled += preserved((uint64_t)number);
}

KEEP void on_leave(int number) {
  handled += count_down(3);
  longjmp(away, number);
}

KEEP uint64_t touches(uint64_t n) {
  mprotect(page, 0x4000, PROT_NONE);
  uint64_t kept[3] = {n, mix(n, 3), mix(n, 4)};
  SEEN(kept);
  page[n] = (char)kept[n % 3];
  return kept[1];
}

KEEP uint64_t traps(uint64_t n) {
#if defined(__arm64__)
  __asm__ volatile("brk #1");
#else
  __asm__ volatile("ud2");
#endif
  return n + 1;
}

KEEP uint64_t leaves_handler(uint64_t n) {
  if (setjmp(away) == 0) {
    raise(SIGALRM);
    abort();
  }
  return mix(n, 2);
}

static pthread_t watched;
static volatile int over;
static void *sender(void *nothing) {
  for (int sent = 0; sent < 400 && !over; sent++) {
    pthread_kill(watched, SIGUSR1);
    // Time for the handler, and for what it interrupts.
    for (int turns = 0; turns < 40 && !over; turns++)
      sched_yield();
  }
  return nothing;
}

static void handle(int number, void (*handler)(int), int flags) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
  sigaction(number, &action, NULL);
}

int main(void) {
  static char stack[64 << 10];
  stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
  page = mmap(NULL, 0x4000, PROT_READ | PROT_WRITE, MAP_ANON | MAP_PRIVATE, -1, 0);
  sigaltstack(&alternate, NULL);
  uint64_t sum = 0;
  for (int flags = 0; flags <= SA_ONSTACK; flags += SA_ONSTACK) {
    for (int number = SIGBUS; number <= SIGSEGV; number++)
      handle(number, (void (*)(int))on_fault, flags | SA_SIGINFO | SA_NODEFER);
    handle(SIGTRAP, (void (*)(int))on_trap, flags | SA_SIGINFO);
    handle(SIGILL, (void (*)(int))on_trap, flags | SA_SIGINFO);
    handle(SIGUSR1, on_outer, flags);
    handle(SIGUSR2, on_inner, flags);
    handle(SIGALRM, on_leave, SA_NODEFER);
    for (uint64_t n = 0; n < 16; n++)
      sum += touches(n) + traps(n);
    sum += leaves_handler(1) + leaves_handler(2);
    pthread_t other;
    watched = pthread_self();
    over = 0;
    pthread_create(&other, NULL, sender, NULL);
    for (uint64_t n = 0; n < 4; n++)
      sum += all_with(n);
    over = 1;
    pthread_join(other, NULL);
  }
  write(1, "signals\n", 8);
  return sum != 0 && handled != 0 ? 0 : 1;
}
