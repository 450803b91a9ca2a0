// C++ under a sanitizer: the faults that it recovers from are writes to a page that its handler opens.
#include "host.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

static char *page;
static volatile int came;

static void open_page(int, siginfo_t *info, void *) {
  if (info->si_addr != page) {
    static const char text[] = "not ours\n";
    fwrite(text, 1, sizeof text - 1, stderr);
    _Exit(9);
  }
  came = came + 1;
  mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

int main(int, char **argv) {
  bool recovers = !strcmp(argv[1], "recover");
  if (recovers) {
    page = static_cast<char *>(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    struct sigaction action {};
    action.sa_sigaction = open_page;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
  }
  host_install();
  if (recovers) {
    for (int i = 0; i < 10000; i++) {
      mprotect(page, 4096, PROT_NONE);
      *static_cast<volatile char *>(page) = 1;
    }
    printf("recovered %d\n", came);
  } else if (!strcmp(argv[1], "stall")) {
    host_stall();
  } else if (!strcmp(argv[1], "crash")) {
    host_crash();
  } else {
    // What the sanitizer itself ends the process for: a read behind the end, a null pointer.
    volatile char *bytes = static_cast<char *>(malloc(10));
    volatile int *nothing = nullptr;
    int read = bytes[10 + came];
    free(const_cast<char *>(bytes));
    *nothing = read;
  }
  // What is registered for the exit is shown by a process that leaves with its recorder.
  if (recovers) host_uninstall();
}
