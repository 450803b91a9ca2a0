// dispatch/semaphore.h, dispatch/time.h, dispatch/queue.h: as much as std and the ping need. The main
// queue is worked off by the main run loop, by the calls that CoreFoundation has for it; or, as
// libdispatch's own `dispatch_main` does it, by a thread of the system's while the main thread is no more.
#include "thread.h"
#include <dispatch/dispatch.h>
#include <mach/mach.h>
#include <mach/mach_time.h>
#include <mach/semaphore.h>
#include <stdlib.h>

struct semaphore { semaphore_t port; };

dispatch_semaphore_t dispatch_semaphore_create(intptr_t value) {
  struct semaphore *s = calloc(1, sizeof *s);
  semaphore_create(mach_task_self(), &s->port, SYNC_POLICY_FIFO, (int)value);
  return (dispatch_semaphore_t)s;
}
intptr_t dispatch_semaphore_signal(dispatch_semaphore_t s) {
  return semaphore_signal(((struct semaphore *)s)->port), 0;
}
dispatch_time_t dispatch_time(dispatch_time_t when, int64_t delta) {
  return (when == DISPATCH_TIME_NOW ? mach_absolute_time() : when) + delta;
}
intptr_t dispatch_semaphore_wait(dispatch_semaphore_t s, dispatch_time_t until) {
  semaphore_t port = ((struct semaphore *)s)->port;
  if (until == DISPATCH_TIME_FOREVER)
    return semaphore_wait(port);
  uint64_t now = mach_absolute_time(), left = until > now ? until - now : 0;
  mach_timespec_t t = {(unsigned)(left / 1000000000), (int)(left % 1000000000)};
  return semaphore_timedwait(port, t);
}
void dispatch_release(dispatch_object_t object) { (void)object; }

// --- the main queue

struct work { struct work *next; dispatch_function_t function; void *context; };
struct dispatch_queue_s { void *class; } _dispatch_main_q;
static uint32_t lock;
static struct work *first, **last = &first;
static struct { struct semaphore semaphore; uint32_t once; } wake_up;

static dispatch_semaphore_t main_wake_up(void) {
  word_lock(&lock);
  if (!wake_up.semaphore.port)
    semaphore_create(mach_task_self(), &wake_up.semaphore.port, SYNC_POLICY_FIFO, 0);
  word_unlock(&lock);
  return (dispatch_semaphore_t)&wake_up.semaphore;
}

void dispatch_async_f(dispatch_queue_t queue, void *context, dispatch_function_t function) {
  struct work *w = calloc(1, sizeof *w);
  w->function = function, w->context = context;
  if (queue != (dispatch_queue_t)&_dispatch_main_q)
    abort();
  word_lock(&lock);
  *last = w;
  last = &w->next;
  word_unlock(&lock);
  dispatch_semaphore_signal(main_wake_up());
}

mach_port_t _dispatch_get_main_queue_port_4CF(void) { return (main_wake_up(), wake_up.semaphore.port); }

// Works off what is there.
void _dispatch_main_queue_callback_4CF(void *message) {
  (void)message;
  const void *before = self()->queue;
  self()->queue = &_dispatch_main_q;
  for (;;) {
    word_lock(&lock);
    struct work *w = first;
    if (w && !(first = w->next))
      last = &first;
    word_unlock(&lock);
    if (!w)
      break;
    w->function(w->context);
    free(w);
  }
  self()->queue = before;
}

// The main thread works off the main queue from the start; until it is no more.
__attribute__((constructor)) static void begin(void) { self()->queue = &_dispatch_main_q; }

static void *work_off(void *unused) {
  for (;;) {
    _dispatch_main_queue_callback_4CF(unused);
    dispatch_semaphore_wait(main_wake_up(), DISPATCH_TIME_FOREVER);
  }
}

void dispatch_main(void) {
  pthread_t worker;
  pthread_create(&worker, NULL, work_off, NULL);
  pthread_detach(worker);
  pthread_exit(NULL);
}
