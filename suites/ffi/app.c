/* An app in C: freezes for 400 ms, three calls deep, records live, waits before its first beat, and dies, as its
 * argument says. */
#include "wedjat.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void pause_ms(long ms) {
  struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  while (nanosleep(&time, &time) != 0) {
  }
}

static volatile unsigned long sink;

__attribute__((noinline)) static void count_every_price(void) {
  struct timespec begin, now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do {
    for (int i = 0; i < 1000; i++) sink += i;
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < 400);
}

__attribute__((noinline)) static void reload(void) {
  count_every_price();
  sink++;
}

__attribute__((noinline)) static void on_tap(void) {
  reload();
  sink++;
}

static void told(const char *path, void *data) {
  printf("report %s %s\n", (const char *)data, path);
  fflush(stdout);
}

static void fail(const char *what) {
  printf("FAILED: %s\n", what);
  exit(1);
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  char error[200] = "";
  wedjat_options options;
  memset(&options, 0, sizeof options);
  if (wedjat_install(NULL, error, sizeof error) || !strstr(error, "options")) fail("no options");
  if (wedjat_install(&options, error, sizeof error) || !strstr(error, "size")) fail("no size");
  if (wedjat_last_error() != WEDJAT_ERROR_OPTIONS) fail("the kind of error, no size");
  options.size = sizeof options;
  if (wedjat_install(&options, error, sizeof error) || !strstr(error, "name")) fail("no name");
  options.name = "AppInC";
  options.version = "1.0";
  if (wedjat_install(&options, error, sizeof error) || !strstr(error, "directory")) fail("no folder");
  if (wedjat_install(&options, error, 4) || strlen(error) != 3) fail("a short error");
  if (wedjat_install(&options, NULL, 0)) fail("no room for an error");
  options.directory = "/dev/null/none";
  if (wedjat_install(&options, error, sizeof error) || !strstr(error, "/dev/null")) fail("folder");
  if (wedjat_last_error() != WEDJAT_ERROR_DIRECTORY) fail("the kind of error, folder");

  options.directory = argv[1];
  options.stall = true;
  options.crash = true;
  options.stall_launch_waits = !strcmp(argv[2], "waits");
  options.on_report = told;
  options.on_report_data = (void *)"stall";
  if (wedjat_reports(argv[1], told, (void *)"left") < 0) fail("reports");
  wedjat_monitor *monitor = wedjat_install(&options, error, sizeof error);
  if (!monitor) fail(error);
  if (wedjat_install(&options, error, sizeof error) || !strstr(error, "already")) fail("twice");
  if (wedjat_last_error() != WEDJAT_ERROR_ALREADY_INSTALLED) fail("the kind of error, twice");

  wedjat_set(monitor, "screen", "Checkout");
  wedjat_set(monitor, "removed", "x");
  wedjat_set(monitor, "removed", NULL);
  wedjat_set(monitor, NULL, "x");
  wedjat_set(NULL, "x", "x");
  wedjat_gauge(monitor, "queue", 3.5);
  wedjat_breadcrumb(monitor, "tapped Buy");
  wedjat_mark page = wedjat_mark_begin(monitor, "render");
  wedjat_mark_end(monitor, page);

  wedjat_heartbeat heart = wedjat_get_heartbeat(monitor);
  if (options.stall_launch_waits || !strcmp(argv[2], "idles")) pause_ms(2500);
  for (int i = 0; i < 3; i++) {
    wedjat_begin(heart);
    wedjat_end(heart);
    pause_ms(5);
  }
  if (options.stall_launch_waits || !strcmp(argv[2], "idles")) {
    pause_ms(200);
  } else if (!strcmp(argv[2], "freeze")) {
    wedjat_begin(heart);
    on_tap();
    wedjat_end(heart);
    pause_ms(200);
  } else if (!strcmp(argv[2], "live")) {
    char path[4096];
    if (!wedjat_record(monitor, "button", path, sizeof path)) fail(path);
    told(path, (void *)"live");
  } else if (!strcmp(argv[2], "die")) {
    raise(SIGSEGV);
  } else {
    return 2;
  }
  wedjat_uninstall(monitor);
  wedjat_begin(heart);
  wedjat_end(heart);
  wedjat_uninstall(NULL);
  printf("done\n");
  return 0;
}
