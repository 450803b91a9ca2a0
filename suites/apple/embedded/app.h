// How both apps begin and end: the recorder, installed by include/wedjat.h, a few turns of the loop, and
// one that freezes or dies.
#pragma once
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include "wedjat.h"

#define KEEP __attribute__((noinline, used))
// What comes behind it keeps the call before it from being the last of its function.
#define AFTER __asm__ volatile("" ::: "memory")

static wedjat_heartbeat heart;

// The monitor of an app of this name, three turns later; it stands within its next turn.
static inline wedjat_monitor *begin(const char *name, const char *folder) {
  char why[256] = "";
  wedjat_options options = wedjat_options_init(name, "1.0", folder);
  options.stall = options.crash = true;
  wedjat_monitor *monitor = wedjat_install(&options, why, sizeof why);
  if (!monitor) {
    write(2, why, strlen(why));
    _exit(3);
  }
  heart = wedjat_get_heartbeat(monitor);
  for (int turn = 0; turn < 3; turn++) {
    wedjat_begin(heart);
    wedjat_end(heart);
    usleep(5000);
  }
  wedjat_begin(heart);
  return monitor;
}

static inline void end(wedjat_monitor *monitor) {
  wedjat_end(heart);
  usleep(100000);
  wedjat_uninstall(monitor);
}
