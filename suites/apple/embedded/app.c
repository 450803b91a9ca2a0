// An app in C with the recorder in it, by include/wedjat.h: `c FOLDER KIND`. It freezes or dies as KIND
// says, in functions with names, one of them inlined. A comment `@name` marks a line that the reports
// are held against (table).
#include <assert.h>
#include <dlfcn.h>
#include <mach/mach_time.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "app.h"

static volatile uint64_t turns;
static pthread_mutex_t documents = PTHREAD_MUTEX_INITIALIZER;
static volatile int holds;

KEEP static void spin_until(uint64_t end) {
  while (mach_absolute_time() < end)
    turns++;
  AFTER;
}

__attribute__((always_inline)) static inline void convert(uint64_t milliseconds) {
  spin_until(mach_absolute_time() + milliseconds * 1000000); // @convert
  AFTER;
}

KEEP static void busy(void) {
  convert(600); // @busy
  AFTER;
}

KEEP static void sleeping(void) {
  usleep(600000); // @sleeping
  AFTER;
}

static void *hold(void *unused) {
  pthread_mutex_lock(&documents);
  holds = 1;
  usleep(700000);
  pthread_mutex_unlock(&documents);
  return unused;
}

KEEP static void lock(void) {
  pthread_t holder;
  pthread_create(&holder, NULL, hold, NULL);
  while (!holds)
    usleep(1000);
  pthread_mutex_lock(&documents); // @lock
  pthread_mutex_unlock(&documents);
  pthread_join(holder, NULL);
}

// Another thread loads a library while this one freezes and is captured; then this one goes on freezing
// in there.
static void (*volatile lay_out)(uint64_t);
static void *load(void *unused) {
  usleep(330000);
  void *library = dlopen("/usr/local/lib/libpages.dylib", RTLD_NOW);
  lay_out = library ? (void (*)(uint64_t))dlsym(library, "lay_out_pages") : NULL;
  return unused;
}

KEEP static void new_library(void) {
  pthread_t loader;
  pthread_create(&loader, NULL, load, NULL);
  while (!lay_out)
    turns++;
  lay_out(800); // @new-library
  pthread_join(loader, NULL);
}

KEEP static uint64_t overflow(uint64_t depth) {
  volatile uint64_t room[64];
  room[depth % 64] = depth;
  return depth == UINT64_MAX ? 0 : overflow(depth + 1) + room[depth % 64]; // @overflow
}

__attribute__((always_inline)) static inline uint64_t fetch(const volatile uint64_t *from) {
  return *from; // @fetch
}

KEEP static uint64_t null(const volatile uint64_t *from) {
  uint64_t value = fetch(from); // @null
  AFTER;
  return value;
}

KEEP static void constant(void) {
  *(volatile uint64_t *)(uintptr_t)constant = 1; // @constant
  AFTER;
}

KEEP static void wild(void) {
  void (*volatile to)(void) = (void (*)(void))(uintptr_t)0x5ead0;
  to(); // @wild
  AFTER;
}

KEEP static void illegal(void) {
#if defined(__arm64__)
  __asm__ volatile("udf #0"); // @illegal-arm64
#else
  __asm__ volatile("ud2"); // @illegal-x86_64
#endif
  AFTER;
}

KEEP static void trap(void) {
#if defined(__arm64__)
  __asm__ volatile("brk #1"); // @trap-arm64
#else
  __asm__ volatile("int3"); // @trap-x86_64
#endif
  AFTER;
}

KEEP static void divide(void) {
#if defined(__arm64__)
  raise(SIGFPE);
#else
  uint32_t low = 1, high = 0;
  __asm__ volatile("divl %2" : "+a"(low), "+d"(high) : "r"(0)); // @divide-x86_64
#endif
  AFTER;
} // @divide-arm64: the signal comes as raise returns

KEEP static void gives_up(void) {
  abort(); // @abort
}

KEEP static void asserts(int pages) {
  assert(pages > 0); // @assert
  AFTER;
}

// As a library's runtime does that traps instead of aborting: last words for the crash report.
static struct { uint64_t version, message, signature, backtrace, message2, thread, dialog, cause; } last_words
    __attribute__((section("__DATA,__crash_info"), used)) = {5};
KEEP static void last_word(void) {
  last_words.message = (uint64_t) "Fatal error: Index out of range\n";
  last_words.message2 = (uint64_t) "Pages.swift:12\n";
  __builtin_trap(); // @last-word
}

KEEP static void handle_click(const char *kind) {
  if (strcmp(kind, "busy") == 0) busy(); // @click-busy
  else if (strcmp(kind, "sleeping") == 0) sleeping();
  else if (strcmp(kind, "lock") == 0) lock();
  else if (strcmp(kind, "new library") == 0) new_library();
  else if (strcmp(kind, "overflow") == 0) turns += overflow(0);
  else if (strcmp(kind, "null") == 0) turns += null((void *)8); // @click-null
  else if (strcmp(kind, "constant") == 0) constant();
  else if (strcmp(kind, "wild") == 0) wild();
  else if (strcmp(kind, "illegal") == 0) illegal();
  else if (strcmp(kind, "trap") == 0) trap();
  else if (strcmp(kind, "divide") == 0) divide();
  else if (strcmp(kind, "abort") == 0) gives_up();
  else if (strcmp(kind, "assert") == 0) asserts((int)turns - 1);
  else if (strcmp(kind, "last word") == 0) last_word();
  AFTER;
}

int main(int count, char **arguments) {
  if (count != 3)
    return 2;
  wedjat_monitor *monitor = begin("c", arguments[1]);
  turns = 0;
  handle_click(arguments[2]); // @main
  end(monitor);
  return 0;
}
