/* The part that the programs of this folder share: the monitor, the freeze, and what happens in the app. A toolkit's program
 * calls `scenario_install`, then `scenario_step` from a timer, `scenario_draw` where it draws, and `scenario_end` last.
 *
 *   NAME idle | dialog | freezes | frames | first
 *
 * Reports go to the folder $REPORTS. The last line of the output has the wake-ups of the watchdog.
 */
#ifndef SCENARIO_H
#define SCENARIO_H

#include <wedjat.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static wedjat_monitor *monitor;
static wedjat_heartbeat heart;
static const char *scenario = "idle";
static int scenario_steps, scenario_draws;
static long scenario_wakeups_before;

/* Shows a dialog for so long: the toolkit's own, which waits for its user within a turn. */
static void dialog(int ms);

static long scenario_now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void scenario_compute(int ms) {
  long end = scenario_now_ms() + ms;
  while (scenario_now_ms() < end) {
  }
}

static void scenario_sleep(int ms) {
  struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
  while (nanosleep(&time, &time) != 0) {
  }
}

/* The freeze: it computes, or it waits. */
__attribute__((noinline)) static void reload_catalogue(int ms, bool computes) {
  if (computes) scenario_compute(ms);
  else scenario_sleep(ms);
  __asm__ volatile("");
}

/* How often the watchdog has gone to sleep. */
static long scenario_wakeups(void) {
  long count = 0;
  DIR *tasks = opendir("/proc/self/task");
  for (struct dirent *task; tasks && (task = readdir(tasks));) {
    char path[300], line[200];
    snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
    FILE *status = fopen(path, "r");
    bool is_ours = false;
    while (status && fgets(line, sizeof line, status)) {
      if (!strcmp(line, "Name:\twedjat\n")) is_ours = true;
      if (is_ours) sscanf(line, "voluntary_ctxt_switches: %ld", &count);
    }
    if (status) fclose(status);
  }
  if (tasks) closedir(tasks);
  return count;
}

/* On the thread of the loop, before anything else. */
static void scenario_install(int argc, char **words) {
  if (argc > 1) scenario = words[1];
  char error[256] = "";
  wedjat_options options = wedjat_options_init("loops", "1", getenv("REPORTS"));
  options.stall = true;
  /* A toolkit's own start may take long; it is not what is tried here. */
  options.launch_threshold_ms = strcmp(scenario, "first") ? 20000 : 900;
  monitor = wedjat_install(&options, error, sizeof error);
  if (!monitor) {
    fprintf(stderr, "%s\n", error);
    exit(1);
  }
  heart = wedjat_get_heartbeat(monitor);
}

/* Draws a frame. The first may be slow; then the app has launched. */
static void scenario_draw(void) {
  if (scenario_draws++ > 0) return;
  if (!strcmp(scenario, "first")) reload_catalogue(2000, true);
  wedjat_launched(monitor);
}

/* The app's next event; returns the time until the one after, milliseconds, or -1 at the end. */
static int scenario_step(void) {
  static const int rests[] = {900, 300, 1300, 400};
  int step = scenario_steps++;
  if (!strcmp(scenario, "idle")) {
    if (step == 1) scenario_wakeups_before = scenario_wakeups();
    return step == 0 ? 1000 : step == 1 ? 20000 : -1;
  }
  if (!strcmp(scenario, "dialog")) {
    if (step == 1) {
      /* A toolkit may take long over its first dialog; that is not what is tried here. */
      wedjat_pause();
      dialog(500);
      wedjat_resume();
    }
    if (step == 2) dialog(5000);
    return step < 3 ? 900 : -1;
  }
  if (!strcmp(scenario, "freezes")) {
    if (step > 0 && step < 5) reload_catalogue(600, step % 2 == 1);
    return step < 4 ? rests[step] : step == 4 ? 1000 : -1;
  }
  if (!strcmp(scenario, "frames")) {
    scenario_compute(2);
    return step < 300 ? 14 : -1;
  }
  return step == 0 ? 1500 : -1;
}

/* After the loop, while the toolkit is still there. */
static void scenario_end(void) {
  if (!strcmp(scenario, "idle")) printf("wake-ups: %ld\n", scenario_wakeups() - scenario_wakeups_before);
  if (scenario_draws == 0) printf("nothing was drawn\n");
  wedjat_uninstall(monitor);
}

#endif
