// What only a Mac can answer, as far as a program can ask it: `points FOLDER WHAT`, with reports in FOLDER. See `points`.
#include <dispatch/dispatch.h>
#include <mach/mach.h>
#include <mach/mach_time.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "../embedded/app.h"

static volatile uint64_t turns;

static uint64_t nanoseconds(uint64_t ticks) {
  mach_timebase_info_data_t base;
  mach_timebase_info(&base);
  return ticks * base.numer / base.denom;
}

static int compare(const void *one, const void *other) {
  uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
  return (a > b) - (a < b);
}

static void *waits(void *semaphore) {
  dispatch_semaphore_wait(semaphore, DISPATCH_TIME_FOREVER);
  return NULL;
}

// Suspends a thread that waits in the kernel: how long until its registers can be read?
static int suspend(void) {
  enum { TIMES = 1000 };
  static uint64_t took[TIMES];
  pthread_t thread;
  if (pthread_create(&thread, NULL, waits, dispatch_semaphore_create(0)))
    return 1;
  usleep(50000);
  mach_port_t port = pthread_mach_thread_np(thread);
  for (int time = 0; time < TIMES; time++) {
    uint64_t begin = mach_absolute_time();
    if (thread_suspend(port))
      return 1;
#if defined(__arm64__)
    arm_thread_state64_t state;
    mach_msg_type_number_t count = ARM_THREAD_STATE64_COUNT;
    kern_return_t read = thread_get_state(port, ARM_THREAD_STATE64, (thread_state_t)&state, &count);
#else
    x86_thread_state64_t state;
    mach_msg_type_number_t count = x86_THREAD_STATE64_COUNT;
    kern_return_t read = thread_get_state(port, x86_THREAD_STATE64, (thread_state_t)&state, &count);
#endif
    uint64_t end = mach_absolute_time();
    if (read || thread_resume(port))
      return 1;
    took[time] = nanoseconds(end - begin);
  }
  qsort(took, TIMES, sizeof took[0], compare);
  printf("median %d ns, most %d ns\n", (int)took[TIMES / 2], (int)took[TIMES - 1]);
  return 0;
}

KEEP static void freeze(void *unused) {
  (void)unused;
  for (uint64_t begin = mach_absolute_time(); nanoseconds(mach_absolute_time() - begin) < 1000000000;)
    turns++;
  AFTER;
}

static void leave(void *unused) {
  (void)unused;
  exit(0);
}

static void *events(void *unused) {
  (void)unused;
  usleep(300000);
  dispatch_async_f(dispatch_get_main_queue(), NULL, freeze);
  usleep(1500000);
  dispatch_async_f(dispatch_get_main_queue(), NULL, leave);
  return NULL;
}

// The main queue, which a thread of the system works off after `dispatch_main`, freezes for a second.
static int main_queue(const char *folder) {
  char why[256] = "";
  wedjat_options options = wedjat_options_init("points", "1.0", folder);
  options.stall = true;
  wedjat_monitor *monitor = wedjat_install(&options, why, sizeof why);
  if (!monitor || !wedjat_watch_main_queue(monitor)) {
    fprintf(stderr, "points: %s\n", why);
    return 1;
  }
  pthread_t thread;
  if (pthread_create(&thread, NULL, events, NULL))
    return 1;
  dispatch_main();
}

int main(int count, char **arguments) {
  if (count == 3 && strcmp(arguments[2], "suspend") == 0)
    return suspend();
  if (count == 3 && strcmp(arguments[2], "main-queue") == 0)
    return main_queue(arguments[1]);
  return 2;
}
