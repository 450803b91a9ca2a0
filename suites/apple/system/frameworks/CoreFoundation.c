// CFRunLoop.h, CFBase.h: a run loop with timers and observers, as much as the guests and the monitor
// need. Common modes are all modes. CoreFoundation's headers are not in the SDK; the prototypes below
// follow them.
#include <mach/mach.h>
#include <mach/mach_time.h>
#include <mach/semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

mach_port_t _dispatch_get_main_queue_port_4CF(void);
void _dispatch_main_queue_callback_4CF(void *message);

typedef double CFAbsoluteTime;
typedef void (*Observe)(void *observer, unsigned long activity, void *info);
typedef void (*Fire)(void *timer, void *info);

const void *kCFRunLoopCommonModes = "kCFRunLoopCommonModes";
const void *kCFRunLoopDefaultMode = "kCFRunLoopDefaultMode";

struct observer { struct observer *next; unsigned long activities; long order; Observe call; int added; };
struct timer { struct timer *next; double at, interval; Fire call; int added, firing; };
static struct observer *observers;
static struct timer *timers;
static int stop;
static char loop;

CFAbsoluteTime CFAbsoluteTimeGetCurrent(void) { return (double)mach_absolute_time() / 1e9; }
void *CFRunLoopGetMain(void) { return &loop; }
void *CFRunLoopGetCurrent(void) { return &loop; }
void *CFRetain(void *object) { return object; }
void CFRelease(void *object) { (void)object; }
void CFRunLoopWakeUp(void *run_loop) { (void)run_loop; }
void CFRunLoopStop(void *run_loop) { (void)run_loop; stop = 1; }

void *CFRunLoopObserverCreate(const void *allocator, unsigned long activities, unsigned char repeats,
                              long order, Observe call, void *context) {
  (void)allocator, (void)repeats, (void)context;
  struct observer *o = calloc(1, sizeof *o);
  o->activities = activities, o->order = order, o->call = call;
  return o;
}

void CFRunLoopAddObserver(void *run_loop, struct observer *o, const void *mode) {
  (void)run_loop, (void)mode;
  struct observer **at = &observers;
  while (*at && (*at)->order <= o->order)
    at = &(*at)->next;
  o->next = *at, o->added = 1;
  *at = o;
}

void CFRunLoopRemoveObserver(void *run_loop, struct observer *o, const void *mode) {
  (void)run_loop, (void)mode;
  for (struct observer **at = &observers; *at; at = &(*at)->next)
    if (*at == o) {
      *at = o->next;
      return;
    }
}

void *CFRunLoopTimerCreate(const void *allocator, CFAbsoluteTime at, double interval, unsigned long flags,
                           long order, Fire call, void *context) {
  (void)allocator, (void)flags, (void)order, (void)context;
  struct timer *t = calloc(1, sizeof *t);
  t->at = at, t->interval = interval, t->call = call;
  return t;
}

void CFRunLoopAddTimer(void *run_loop, struct timer *t, const void *mode) {
  (void)run_loop, (void)mode;
  t->next = timers;
  timers = t;
}

static void tell(unsigned long activity) {
  for (struct observer *o = observers, *next; o; o = next) {
    next = o->next;
    if (o->activities & activity)
      o->call(o, activity, 0);
  }
}

// kCFRunLoopRunStopped 2, kCFRunLoopRunTimedOut 3
int CFRunLoopRunInMode(const void *mode, double seconds, unsigned char once) {
  (void)mode, (void)once;
  double end = CFAbsoluteTimeGetCurrent() + seconds;
  int result = 0;
  tell(1);
  while (!result) {
    tell(2);
    tell(4);
    double now = CFAbsoluteTimeGetCurrent(), next = end;
    for (struct timer *t = timers; t; t = t->next)
      if (!t->firing && t->at < next)
        next = t->at;
    if (next > now) {
      tell(32);
      double length = next - now > 1e6 ? 1e6 : next - now;
      mach_timespec_t wait = {(unsigned)length, (int)((length - (double)(unsigned)length) * 1e9)};
      semaphore_timedwait(_dispatch_get_main_queue_port_4CF(), wait);
      tell(64);
      _dispatch_main_queue_callback_4CF(0);
    }
    now = CFAbsoluteTimeGetCurrent();
    for (struct timer *t = timers; t && !stop; t = t->next)
      if (!t->firing && t->at <= now) {
        t->at = t->interval > 0 ? now + t->interval : 1e300;
        t->firing = 1;
        t->call(t, 0);
        t->firing = 0;
      }
    if (stop)
      stop = 0, result = 2;
    else if (CFAbsoluteTimeGetCurrent() >= end)
      result = 3;
  }
  tell(128);
  return result;
}

void CFRunLoopRun(void) { CFRunLoopRunInMode(kCFRunLoopDefaultMode, 1e9, 0); }
