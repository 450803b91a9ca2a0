// How a program begins and ends (stdlib.h, crt_externs.h).
#include "thread.h"
#include <mach/mach.h>
#include <stdlib.h>
#include <unistd.h>

mach_port_t mach_task_self_ = 0x203;
mach_port_t bootstrap_port = 0;
vm_size_t vm_page_size = 0x4000;
vm_size_t vm_kernel_page_size = 0x4000;
unsigned long __stack_chk_guard = 0x5afe5afe5afe5a00;

static int count;
static char **arguments, **environment;
static struct { void (*function)(void *); void *argument; } exits[32];
static int exit_count;

int *_NSGetArgc(void) { return &count; }
char ***_NSGetArgv(void) { return &arguments; }
char ***_NSGetEnviron(void) { return &environment; }

char *getenv(const char *name) {
  for (char **e = environment; e && *e; e++) {
    const char *n = name, *p = *e;
    while (*n && *n == *p)
      n++, p++;
    if (!*n && *p == '=')
      return (char *)p + 1;
  }
  return NULL;
}

int atexit(void (*function)(void)) {
  if (exit_count == 32)
    return -1;
  exits[exit_count++].function = (void (*)(void *))function;
  return 0;
}

int __cxa_atexit(void (*function)(void *), void *argument, void *image) {
  (void)image;
  if (exit_count == 32)
    return -1;
  exits[exit_count].argument = argument;
  exits[exit_count++].function = function;
  return 0;
}

void exit(int status) {
  while (exit_count > 0) {
    exit_count--;
    exits[exit_count].function(exits[exit_count].argument);
  }
  _exit(status);
}

__attribute__((noreturn)) void start(int (*main)(int, char **, char **, char **), int argc, char **argv,
                                     struct thread *t, char *stack_top, size_t stack_size) {
  count = argc;
  arguments = argv;
  environment = argv + argc + 1;
  t->stack_top = stack_top;
  t->stack_size = stack_size;
  char **apple = environment;
  while (*apple)
    apple++;
  run_initializers(0);
  exit(main(argc, argv, environment, apple + 1));
}

__attribute__((noreturn)) void __stack_chk_fail(void) { abort(); }
