// dispatch/semaphore.h, dispatch/time.h, dispatch/queue.h: as much as std and the ping need.
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
