/* The recorder within a host, as the host's own language calls it. */
#include "host.h"
#include "wedjat.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static wedjat_monitor *monitor;
static volatile unsigned long sink;

void host_install(void) {
  const char *folder = getenv("HOST_FOLDER");
  if (!folder) return;
  wedjat_options options = wedjat_options_init("host", "1", folder);
  options.stall = true;
  options.crash = true;
  char error[200] = "";
  monitor = wedjat_install(&options, error, sizeof error);
  if (!monitor) {
    fprintf(stderr, "wedjat: %s\n", error);
    exit(70);
  }
  /* The launch ends with the first turn. */
  wedjat_begin(wedjat_get_heartbeat(monitor));
  wedjat_end(wedjat_get_heartbeat(monitor));
}

static long passed_ms(const struct timespec *begin) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (now.tv_sec - begin->tv_sec) * 1000 + (now.tv_nsec - begin->tv_nsec) / 1000000;
}

__attribute__((noinline)) static void count_every_price(void) {
  struct timespec begin;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do {
    for (int i = 0; i < 1000; i++) sink += i;
  } while (passed_ms(&begin) < 700);
}

void host_stall(void) {
  if (monitor) wedjat_begin(wedjat_get_heartbeat(monitor));
  count_every_price();
  if (monitor) wedjat_end(wedjat_get_heartbeat(monitor));
}

__attribute__((noinline)) void host_crash(void) {
  volatile int *nothing = (volatile int *)(size_t)(16 + sink % 1);
  *nothing = 1;
  sink++;
}

void host_uninstall(void) {
  wedjat_uninstall(monitor);
  monitor = NULL;
}
