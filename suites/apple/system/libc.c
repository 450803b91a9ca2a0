// What is left of libc: stdlib.h, signal.h, time.h, unistd.h, dirent.h, sys/utsname.h.
#include "thread.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sysctl.h>
#include <time.h>
#include <unistd.h>

// CrashReporterClient.h: what a library leaves for the crash report.
struct crashreporter_annotations_t {
  uint64_t version, message, signature_string, backtrace, message2, thread, dialog_mode, abort_cause;
};
__attribute__((section("__DATA,__crash_info"), used)) static struct crashreporter_annotations_t last_words = {5};

__attribute__((noreturn)) void abort(void) {
  if (!last_words.message)
    last_words.message = (uint64_t) "abort() called";
  // As Darwin's: SIGABRT unblocked and sent to this very thread; the default action if it returns.
  sigset_t all = 1u << (SIGABRT - 1);
  sigprocmask(SIG_UNBLOCK, &all, NULL);
  pthread_kill(pthread_self(), SIGABRT);
  struct sigaction standard = {0};
  sigaction(SIGABRT, &standard, NULL);
  pthread_kill(pthread_self(), SIGABRT);
  __builtin_trap();
}

// assert.h
__attribute__((noreturn)) void __assert_rtn(const char *function, const char *file, int line, const char *expression) {
  static char text[512];
  char digits[12], *digit = digits + sizeof digits - 1;
  *digit = 0;
  do
    *--digit = (char)('0' + line % 10);
  while (line /= 10);
  const char *parts[] = {"Assertion failed: (", expression, "), function ", function, ", file ", file, ", line ", digit, ".\n"};
  for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
    strlcat(text, parts[k], sizeof text);
  write(2, text, strlen(text));
  last_words.message = (uint64_t)text;
  abort();
}

int raise(int number) { return pthread_kill(pthread_self(), number); }

void (*signal(int number, void (*handler)(int)))(int) {
  struct sigaction new = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;
  return sigaction(number, &new, &old) == 0 ? old.sa_handler : SIG_ERR;
}
#undef sigemptyset
#undef sigfillset
#undef sigaddset
#undef sigismember
int sigemptyset(sigset_t *set) { *set = 0; return 0; }
int sigfillset(sigset_t *set) { *set = ~0u; return 0; }
int sigaddset(sigset_t *set, int number) { *set |= 1u << (number - 1); return 0; }
#undef sigdelset
int sigdelset(sigset_t *set, int number) { *set &= ~(1u << (number - 1)); return 0; }
int sigismember(const sigset_t *set, int number) { return *set >> (number - 1) & 1; }

int usleep(useconds_t micros) {
  struct timespec t = {micros / 1000000, (micros % 1000000) * 1000};
  return nanosleep(&t, NULL);
}
unsigned sleep(unsigned seconds) {
  struct timespec t = {seconds, 0};
  return nanosleep(&t, NULL), 0;
}
int pause(void) {
  for (;;)
    sleep(1000000);
}

long sysconf(int name) {
  switch (name) {
  case _SC_PAGESIZE: return getpagesize();
  case _SC_NPROCESSORS_CONF:
  case _SC_NPROCESSORS_ONLN: return 2;
  case _SC_HOST_NAME_MAX: return 255;
  default: errno = EINVAL; return -1;
  }
}

void arc4random_buf(void *to, size_t n) { getentropy(to, n); }
int CCRandomGenerateBytes(void *to, size_t n) { return getentropy(to, n); } // CommonCrypto/CommonRandom.h
uint32_t arc4random(void) {
  uint32_t word;
  getentropy(&word, sizeof word);
  return word;
}

// --- folders

struct _folder { int fd; unsigned long next; struct dirent entry; };
DIR *fdopendir(int fd) {
  struct _folder *f = calloc(1, sizeof *f);
  f->fd = fd;
  return (DIR *)f;
}
DIR *opendir(const char *path) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return fd < 0 ? NULL : fdopendir(fd);
}
int dirfd(DIR *d) { return ((struct _folder *)d)->fd; }
struct dirent *readdir(DIR *d) {
  struct _folder *f = (struct _folder *)d;
  return __emulator_entry(f->fd, f->next++, &f->entry) ? &f->entry : NULL;
}
int readdir_r(DIR *d, struct dirent *entry, struct dirent **out) {
  struct _folder *f = (struct _folder *)d;
  *out = __emulator_entry(f->fd, f->next++, entry) ? entry : NULL;
  return 0;
}
int closedir(DIR *d) {
  close(((struct _folder *)d)->fd);
  free(d);
  return 0;
}

void qsort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *)) {
  char *at = base, swap[256];
  for (size_t i = 1; i < n; i++)
    for (size_t k = i; k > 0 && compare(at + (k - 1) * size, at + k * size) > 0; k--) {
      memcpy(swap, at + k * size, size);
      memcpy(at + k * size, at + (k - 1) * size, size);
      memcpy(at + (k - 1) * size, swap, size);
    }
}
