/* A program under a sanitizer, compiled as C++, or of musl: the faults that it recovers from are writes to a page that its
   handler opens. */
#include "host.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static char *page;
static volatile int came;

static void open_page(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  if (info->si_addr != page) {
    static const char text[] = "not ours\n";
    fwrite(text, 1, sizeof text - 1, stderr);
    _Exit(9);
  }
  came = came + 1;
  mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

int main(int count, char **words) {
  const char *what = count > 1 ? words[1] : "";
  int recovers = !strcmp(what, "recover");
  if (recovers) {
    page = (char *)mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = open_page;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, NULL);
  }
  host_install();
  if (recovers) {
    for (int i = 0; i < 10000; i++) {
      mprotect(page, 4096, PROT_NONE);
      *(volatile char *)page = 1;
    }
    printf("recovered %d\n", came);
  } else if (!strcmp(what, "stall")) {
    host_stall();
  } else if (!strcmp(what, "crash")) {
    host_crash();
  } else {
    /* What a sanitizer ends the process for itself: a read behind the end, a null pointer. */
    volatile char *bytes = (char *)malloc(10);
    volatile int *nothing = NULL;
    int read = bytes[10 + came];
    free((char *)bytes);
    *nothing = read;
  }
  /* What is registered for the exit is shown by a process that leaves with its recorder. */
  if (recovers) host_uninstall();
  return 0;
}
