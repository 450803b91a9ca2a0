// The app for a device: `demo freeze` freezes its main run loop for a second in a function with a name,
// `demo crash` dereferences null in another; `demo` alone says what earlier launches left. No user
// interface and no Objective-C: the system shows a black screen meanwhile.
#include <mach/mach_time.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "wedjat.h"

// CoreFoundation/CFRunLoop.h, CFDate.h: declared here, so that the list of symbols is enough to link.
typedef void *CFRunLoopRef, *CFRunLoopTimerRef;
typedef double CFAbsoluteTime;
extern const void *kCFRunLoopCommonModes;
CFAbsoluteTime CFAbsoluteTimeGetCurrent(void);
CFRunLoopRef CFRunLoopGetMain(void);
void CFRunLoopRun(void);
void CFRunLoopStop(CFRunLoopRef loop);
CFRunLoopTimerRef CFRunLoopTimerCreate(const void *allocator, CFAbsoluteTime at, double interval, unsigned long flags,
                                       long order, void (*call)(CFRunLoopTimerRef timer, void *info), void *context);
void CFRunLoopAddTimer(CFRunLoopRef loop, CFRunLoopTimerRef timer, const void *mode);

#define KEEP __attribute__((noinline, used))
#define AFTER __asm__ volatile("" ::: "memory")

static const char *what = "";
static volatile uint64_t turns;

__attribute__((always_inline)) static inline void lay_out(uint64_t ticks) {
  for (uint64_t end = mach_absolute_time() + ticks; mach_absolute_time() < end;)
    turns++;
  AFTER;
}

KEEP static void open_document(void) {
  mach_timebase_info_data_t base;
  mach_timebase_info(&base);
  lay_out(1000000000ull * base.denom / base.numer);
  AFTER;
}

KEEP static uint64_t read_title(const volatile uint64_t *document) {
  uint64_t title = document[1];
  AFTER;
  return title;
}

KEEP static void tapped(CFRunLoopTimerRef timer, void *info) {
  (void)timer, (void)info;
  if (strcmp(what, "freeze") == 0)
    open_document();
  else if (strcmp(what, "crash") == 0)
    turns += read_title(NULL);
  AFTER;
}

static void ends(CFRunLoopTimerRef timer, void *info) {
  (void)timer, (void)info;
  CFRunLoopStop(CFRunLoopGetMain());
}

int main(int count, char **arguments) {
  char folder[1024], why[256] = "";
  const char *home = getenv("HOME");
  snprintf(folder, sizeof folder, "%s/Documents", home ? home : ".");
  mkdir(folder, 0700);
  strlcat(folder, "/reports", sizeof folder);
  if (count > 1)
    what = arguments[1];
  wedjat_options options = wedjat_options_init("demo", "1.0", folder);
  options.stall = options.crash = true;
  // On the main thread, whose run loop it observes from here on.
  wedjat_monitor *monitor = wedjat_install(&options, why, sizeof why);
  if (!monitor) {
    fprintf(stderr, "demo: %s\n", why);
    return 1;
  }
  CFAbsoluteTime now = CFAbsoluteTimeGetCurrent();
  CFRunLoopAddTimer(CFRunLoopGetMain(), CFRunLoopTimerCreate(NULL, now + 1, 0, 0, 0, tapped, NULL), kCFRunLoopCommonModes);
  CFRunLoopAddTimer(CFRunLoopGetMain(), CFRunLoopTimerCreate(NULL, now + 4, 0, 0, 0, ends, NULL), kCFRunLoopCommonModes);
  CFRunLoopRun();
  wedjat_uninstall(monitor);
  printf("demo: done, reports in %s\n", folder);
  return 0;
}
