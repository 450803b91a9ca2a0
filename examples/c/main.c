/* An app in C with a run loop of its own. It is watched, says what it does, freezes for 400 ms, and at its next start
 * sends what it left.
 *
 *   cc -g main.c $(pkg-config --cflags --libs wedjat) -o app && ./app && ./app
 */
#include <wedjat.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void pause_ms(long ms) {
  struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  while (nanosleep(&time, &time) != 0) {
  }
}

/* A sender posts the file at `path`, and says what became of it. */
static int print_it(const char *path, void *data) {
  (void)data;
  printf("left by an earlier launch: %s\n", path);
  return WEDJAT_ACCEPTED;
}

static void on_report(const char *path, void *data) {
  (void)data;
  printf("a stall was reported: %s\n", path);
}

/* A folder of the user's own: never the temporary one, in which anybody may put what he likes. */
static void find_folder(char *folder, size_t size) {
  const char *home = getenv("HOME"), *state = getenv("XDG_STATE_HOME");
  if (!home) home = ".";
#ifdef __APPLE__
  state = NULL;
  const char *below = "Library/Application Support";
#else
  const char *below = ".local/state";
#endif
  if (state && *state)
    snprintf(folder, size, "%s/app-in-c/reports", state);
  else
    snprintf(folder, size, "%s/%s/app-in-c/reports", home, below);
}

static void reload_catalogue(void) { pause_ms(400); }

int main(void) {
  char error[256] = "", folder[4096];
  find_folder(folder, sizeof folder);
  wedjat_options options = wedjat_options_init("AppInC", "1.0", folder);
  options.stall = true;
  options.crash = true;
  options.on_report = on_report;
  wedjat_monitor *monitor = wedjat_install(&options, error, sizeof error);
  /* An app that cannot be watched goes on without: all functions take a null. */
  if (!monitor) fprintf(stderr, "no reports: %s\n", error);

  wedjat_launch before = {0};
  before.size = sizeof before;
  if (wedjat_previous_launch(monitor, &before) && !before.is_clean) {
    printf("version %s did not end well\n", before.app_version);
  }
  wedjat_send(folder, print_it, NULL, NULL);

  wedjat_heartbeat heart = wedjat_get_heartbeat(monitor);
  wedjat_launched(monitor);
  for (int event = 0; event < 3; event++) {
    pause_ms(5); /* Waits for an event, */
    wedjat_begin(heart);
    wedjat_breadcrumb(monitor, event == 2 ? "tapped Reload" : "moved the mouse");
    if (event == 2) reload_catalogue(); /* handles it, */
    wedjat_end(heart); /* and waits for the next. */
  }
  pause_ms(200);
  wedjat_uninstall(monitor);
  return 0;
}
