// Runs the async functions of frames.swift as a task does, without Swift's runtime: a stack of contexts, one executor.
#include <stddef.h>
#include <stdint.h>

struct context;
#define ASYNC __attribute__((swiftasynccall))
#define CONTEXT __attribute__((swift_async_context)) struct context *context
typedef ASYNC void resume_function(CONTEXT, void *, uintptr_t, uintptr_t);
struct context {
  struct context *parent;
  ASYNC void (*resume)(long result, CONTEXT);
  char rest[512];
};

extern ASYNC void open_in_swift(void (*look)(void *), void *with, CONTEXT) __asm__("$s6frames4openySiySvXC_SvtYaF");

static struct context root, task;
static _Alignas(16) char contexts[1 << 14];
static size_t used;
static long result;

// include/swift/Runtime/Concurrency.h
__attribute__((swiftcall)) void *swift_task_alloc(size_t size) {
  void *allocated = contexts + used;
  used += (size + 15) & ~(size_t)15;
  return allocated;
}
__attribute__((swiftcall)) void swift_task_dealloc(void *allocated) {
  for (char *byte = allocated; byte < contexts + used; byte++) *byte = 0x5a;
  used = (size_t)((char *)allocated - contexts);
}
ASYNC void swift_task_switch(CONTEXT, void *resume, uintptr_t executor, uintptr_t more) {
  __attribute__((musttail)) return ((resume_function *)resume)(context, resume, executor, more);
}

static ASYNC void task_ends(long value, CONTEXT) {
  (void)context;
  result = value;
}

// Returns what the task has: 10.
__attribute__((noinline, visibility("default"))) long run_task(void (*look)(void *), void *with) {
  task.parent = &root;
  task.resume = task_ends;
  open_in_swift(look, with, &task);
  return result;
}

#ifdef MAIN
static volatile long looked;
static void look(void *with) { looked += (long)with; }
int main(void) { return run_task(look, (void *)1) != 10 || looked != 2; }
#endif
