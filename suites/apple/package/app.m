// An app in Objective-C by the Swift package's binary target: the module, not the header, is what it imports. It calls
// every function of the interface (`run` holds its symbols against the header). It has no class of Objective-C's: the
// emulated system has no runtime for one.
@import CWedjat;
#include <objc/objc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static BOOL frozen = NO;

static void pause_ms(long ms) {
  struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&time, 0);
}

static void stall(const wedjat_stall_event *event, void *data) {
  *(BOOL *)data = YES;
  puts(event->is_over ? event->outcome : event->stall_class);
}

static void count(const char *path, void *data) {
  *(int *)data += path != NULL;
}

static int accept(const char *path, void *data) {
  count(path, data);
  return WEDJAT_ACCEPTED;
}

// Beats that wait in the app's own queue.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void (*posted)(void) = NULL;
static int pings = 0;

static void post(void (*beat)(void), void *data) {
  pthread_mutex_lock(&lock);
  posted = beat;
  *(int *)data += 1;
  pthread_mutex_unlock(&lock);
}

// For as long as it takes: a thread that was idle is looked at four times a second.
static void work_off(void) {
  for (int turn = 0, came = 0; turn < 300 && came < 2; turn++) {
    pause_ms(10);
    pthread_mutex_lock(&lock);
    void (*beat)(void) = posted;
    posted = NULL;
    came = pings;
    pthread_mutex_unlock(&lock);
    if (beat) beat();
  }
}

// The emulator's C library has no strstr(3), and no formats in printf(3).
static BOOL has(const char *text, const char *word) {
  for (; *text; text++)
    if (strncmp(text, word, strlen(word)) == 0) return YES;
  return NO;
}

// Says what does not hold.
static void expect(BOOL so, const char *what) {
  if (!so) puts(what);
}

static void handler(int number) { (void)number; }

__attribute__((noinline)) static void reload(void) {
  pause_ms(400);
}

static wedjat_monitor *install(const char *folder) {
  char error[256] = "";
  wedjat_options options = wedjat_options_init("ObjC", "3.1", folder);
  options.stall = options.crash = YES;
  options.on_stall = stall;
  options.on_stall_data = &frozen;
  wedjat_monitor *monitor = wedjat_install(&options, error, sizeof error);
  if (!monitor) puts(error);
  expect(wedjat_last_error() == WEDJAT_ERROR_NONE, "an install without an error");
  return monitor;
}

int main(int argc, char **words) {
  const char *folder = argc > 1 ? words[1] : "reports";
  puts(wedjat_version());
  wedjat_monitor *monitor = install(folder);
  if (!monitor) return 1;

  wedjat_launch before = {.size = sizeof before};
  expect(!wedjat_previous_launch(monitor, &before), "the first launch");
  wedjat_set(monitor, "screen", "Checkout");
  wedjat_set_integer(monitor, "items", 3);
  wedjat_set_number(monitor, "price", 2.5);
  wedjat_set_bool(monitor, "paid", YES);
  wedjat_remove(monitor, "paid");
  wedjat_gauge(monitor, "queue", 7);
  wedjat_breadcrumb(monitor, "tapped Reload");
  wedjat_set_foreground(monitor, YES);
  wedjat_launched(monitor);
  wedjat_frame(monitor);

  wedjat_heartbeat heart = wedjat_get_heartbeat(monitor);
  wedjat_begin(heart);
  wedjat_end(heart);
  wedjat_begin(heart);
  wedjat_mark mark = wedjat_mark_begin(monitor, "reload");
  reload();
  wedjat_mark_end(monitor, mark);
  wedjat_end(heart);
  pause_ms(200);
  // A turn that may block is no stall.
  wedjat_begin(heart);
  wedjat_pause();
  pause_ms(500);
  wedjat_resume();
  wedjat_end(heart);
  // The main thread is watched already.
  wedjat_heartbeat none = wedjat_watch_thread(monitor, "main", 0, 0);
  expect(none.install == 0 && wedjat_last_error() == WEDJAT_ERROR_WATCHED_ALREADY, "a thread is watched once");
  none = wedjat_enter(monitor, "pool", 0, 0);
  expect(none.install == 0, "a thread that is watched enters no pool");
  // Its watch ends with the monitor alone.
  wedjat_unwatch_thread(monitor);
  wedjat_stats stats = {.size = sizeof stats};
  expect(wedjat_get_stats(monitor, &stats), "stats");
  puts(stats.stalls == 1 && stats.shown_frames == 1 && frozen ? "one stall" : "not one stall");

  char text[16384];
  expect(wedjat_stacks(monitor, WEDJAT_THREADS_CURRENT, text, sizeof text) > 0, "stacks");
  puts(has(text, "main") ? "main is in the stack" : text);
  expect(wedjat_record(monitor, "asked", text, sizeof text) && has(text, ".wedjat"), "a report was asked for");
  int32_t signals[8];
  expect(wedjat_replaced_signals(monitor, signals, 8) == 0, "no handler was replaced");
  signal(SIGFPE, handler);
  expect(wedjat_replaced_signals(monitor, signals, 8) == 1 && signals[0] == SIGFPE, "SIGFPE was replaced");

  expect(wedjat_watch_by_ping(monitor, post, &pings), "a watch by ping");
  work_off();
  puts(pings > 1 ? "pinged" : "not pinged");
  wedjat_uninstall(monitor);

  // Installed again: what the first install left is there to be sent.
  monitor = install(folder);
  if (!monitor) return 1;
  expect(wedjat_previous_launch(monitor, &before) && before.how == WEDJAT_ENDED_UNINSTALLED, "the launch before");
  int listed = 0, given = 0;
  expect(wedjat_reports(folder, count, &listed) == listed, "reports");
  wedjat_sent sent = {.size = sizeof sent};
  expect(wedjat_send(folder, accept, &given, &sent) && sent.accepted == (uint64_t)given, "send");
  puts(listed == 2 && given == 2 ? "two were sent" : "not two were sent");
  expect(wedjat_watch_main_queue(monitor), "a watch of the main queue");
  wedjat_uninstall(monitor);
  return 0;
}
