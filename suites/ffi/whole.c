/* What the C interface has beside freezing, recording and dying: every trigger, every setting, what earlier launches
 * left, and structs of older and newer headers. */
#include "wedjat.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *what) {
  printf("FAILED: %s\n", what);
  exit(1);
}
#define CHECK(what) ((what) ? (void)0 : fail(#what))

static void pause_ms(long ms) {
  struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  while (nanosleep(&time, &time) != 0) {
  }
}

static volatile unsigned long sink;

static void compute_ms(long ms) {
  struct timespec begin, now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do {
    for (int i = 0; i < 1000; i++) sink += i;
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < ms);
}

static void told(const char *path, void *data) {
  printf("report %s %s\n", (const char *)data, path);
  fflush(stdout);
}

static int begun, over;

static void stall(const wedjat_stall_event *event, void *data) {
  CHECK(data == &begun && event->size == sizeof *event);
  CHECK(event->turns == 1 && !event->never_beat && event->start && event->lasted);
  CHECK(event->stall_class && strlen(event->stall_class) > 3);
  CHECK(event->is_over == (event->outcome != NULL));
  if (event->is_over) CHECK(!strcmp(event->outcome, "recovered"));
  *(event->is_over ? &over : &begun) += 1;
}

static int answers[2], asked;

static int answer(const char *path, void *data) {
  CHECK(data == answers && strstr(path, ".wedjat"));
  return answers[asked++ > 0];
}

/* The calling thread is watched: it is an error to watch it again. */
static void watched_already(const wedjat_monitor *monitor) {
  CHECK(wedjat_watch_thread(monitor, "again", 0, 0).install == 0 && wedjat_last_error() == WEDJAT_ERROR_WATCHED_ALREADY);
  CHECK(wedjat_enter(monitor, "again", 0, 0).install == 0 && wedjat_last_error() == WEDJAT_ERROR_WATCHED_ALREADY);
}

/* A thread of a pool. */
static void *member(void *data) {
  wedjat_monitor *monitor = data;
  wedjat_stats stats;
  memset(&stats, 0, sizeof stats);
  stats.size = sizeof stats;
  CHECK(wedjat_enter(NULL, "pool", 0, 0).install == 0 && wedjat_last_error() == WEDJAT_ERROR_NOT_INSTALLED);
  CHECK(wedjat_enter(monitor, NULL, 0, 0).install == 0 && wedjat_last_error() == WEDJAT_ERROR_OPTIONS);
  wedjat_heartbeat heart = wedjat_enter(monitor, "pool", 0, 0);
  CHECK(heart.install != 0 && wedjat_last_error() == WEDJAT_ERROR_NONE);
  watched_already(monitor);
  wedjat_begin(heart);
  wedjat_end(heart);
  CHECK(wedjat_get_stats(monitor, &stats) && stats.watched_threads == 1 && stats.stray_beats == 0);
  wedjat_unwatch_thread(monitor);
  CHECK(wedjat_get_stats(monitor, &stats) && stats.watched_threads == 0);
  /* Any name: an empty one, a long one, and one that is no UTF-8. */
  char longer[301];
  memset(longer, 'x', sizeof longer - 1);
  longer[sizeof longer - 1] = 0;
  const char *names[] = {"", longer, "caf\xe9"};
  for (int i = 0; i < 3; i++) {
    CHECK(wedjat_watch_thread(monitor, names[i], 0, 0).install != 0);
    wedjat_unwatch_thread(monitor);
  }
  CHECK(wedjat_get_stats(monitor, &stats) && stats.watched_threads == 0 && stats.refused_threads == 0);
  return NULL;
}

/* A child of `fork` watches no thread until it installs a monitor; then its threads are watched as any. */
static void forks(wedjat_monitor *monitor, wedjat_options options) {
  char error[200] = "", directory[4096];
  int status = -1;
  pid_t child = fork();
  if (child == 0) {
    CHECK(wedjat_watch_thread(monitor, "early", 0, 0).install == 0 && wedjat_last_error() == WEDJAT_ERROR_NOT_INSTALLED);
    wedjat_uninstall(monitor);
    CHECK(wedjat_enter(monitor, "early", 0, 0).install == 0 && wedjat_last_error() == WEDJAT_ERROR_NOT_INSTALLED);
    snprintf(directory, sizeof directory, "%s-child", options.directory);
    options.directory = directory;
    monitor = wedjat_install(&options, error, sizeof error);
    if (!monitor) fail(error);
    watched_already(monitor);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, member, monitor) == 0 && pthread_join(thread, NULL) == 0);
    wedjat_uninstall(monitor);
    exit(0);
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  char error[200] = "", text[1 << 16];
  wedjat_options options = wedjat_options_init("Whole", "2.5", argv[1]);
  CHECK(!strcmp(wedjat_version(), "0.1.0"));
  CHECK(WEDJAT_VERSION_MAJOR == 0 && WEDJAT_VERSION_MINOR == 1 && WEDJAT_VERSION_PATCH == 0);

  /* The struct of an older header ends earlier; what lies behind it is not looked at. */
  options.size = offsetof(wedjat_options, stall_timeout_ms);
  options.stall_timeout_ms = 7;
  options.capture_signal = -5;
  char other[4096];
  snprintf(other, sizeof other, "%s-older", argv[1]);
  options.directory = other;
  wedjat_monitor *monitor = wedjat_install(&options, error, sizeof error);
  if (!monitor) fail(error);
  wedjat_uninstall(monitor);
  /* That of a newer one is longer. */
  struct { wedjat_options known; char more[64]; } newer;
  memset(&newer, 0, sizeof newer);
  newer.known = options;
  newer.known.size = sizeof newer;
  CHECK(!wedjat_install(&newer.known, error, sizeof error) && strstr(error, "-5"));
  options.size = offsetof(wedjat_options, stall_timeout_ms) - 1;
  CHECK(!wedjat_install(&options, error, sizeof error) && strstr(error, "size"));
  options.size = sizeof options;
  options.capture_signal = 0;
  options.stall_timeout_ms = 0;
  /* A text that is cut ends with a whole character. */
  const char *whole = "reports cannot be written to /dev/null/";
  options.directory = "/dev/null/\xc3\xa4";
  CHECK(!wedjat_install(&options, error, strlen(whole) + 2) && !strcmp(error, whole));
  options.directory = argv[1];

  if (!strcmp(argv[2], "load")) {
    options.memory = options.slow_frames = true;
    /* Any byte but 0 is true, as where C++ or a script has filled the struct. */
    memset(&options.cpu, 0xfe, sizeof options.cpu);
    options.cpu_share = 0.05, options.cpu_over_ms = 300;
    options.memory_bytes = 1 << 20;
    options.frames_below = 50, options.frames_lasting_ms = 400, options.frames_cpu_share = 0.05;
    options.max_other_threads = -1, options.all_images = options.resolve_names = true;
    options.on_report = told, options.on_report_data = (void *)"of a load";
    monitor = wedjat_install(&options, error, sizeof error);
    if (!monitor) fail(error);
    wedjat_heartbeat heart = wedjat_get_heartbeat(monitor);
    for (int i = 0; i < 25; i++) {
      wedjat_begin(heart);
      compute_ms(100);
      wedjat_frame(monitor);
      wedjat_end(heart);
    }
    pause_ms(300);
    wedjat_uninstall(monitor);
    printf("done\n");
    return 0;
  }

  options.stall = options.crash = options.near_memory = true;
  options.stall_timeout_ms = 100, options.stall_strikes = 2;
  options.on_stall = stall, options.on_stall_data = &begun;
  options.limit_reports = 50, options.reports_per_hour = 10, options.same_stalls = 2;
  monitor = wedjat_install(&options, error, sizeof error);
  if (!monitor) fail(error);
  wedjat_launch before;
  memset(&before, 0, sizeof before);
  CHECK(!wedjat_previous_launch(monitor, NULL));
  before.size = sizeof before;
  if (wedjat_previous_launch(monitor, &before)) {
    CHECK(before.size == sizeof before && !strcmp(before.app_version, "2.5") && before.pid && before.started);
    printf("before: %d status %d foreground %d clean %d\n", (int)before.how, before.status, before.foreground,
           before.is_clean);
    /* As much as an older header knows. */
    wedjat_launch older;
    memset(&older, 0x55, sizeof older);
    older.size = offsetof(wedjat_launch, app_version);
    CHECK(wedjat_previous_launch(monitor, &older) && !memcmp(older.id, before.id, sizeof older.id));
    CHECK(older.app_version[0] == 0x55);
  }
  if (!strcmp(argv[2], "exit")) {
    wedjat_set_foreground(monitor, false);
    pause_ms(100);
    exit(7);
  }

  wedjat_launched(monitor);
  wedjat_frame(monitor);
  wedjat_set_integer(monitor, "items", -3);
  wedjat_set_number(monitor, "price", 2.5);
  wedjat_set_bool(monitor, "paid", true);
  wedjat_set(monitor, "gone", "soon");
  wedjat_remove(monitor, "gone");
  wedjat_heartbeat heart = wedjat_get_heartbeat(monitor);
  wedjat_begin(heart);
  wedjat_end(heart);
  wedjat_begin(heart);
  pause_ms(400);
  wedjat_end(heart);
  pause_ms(200);
  CHECK(begun == 1 && over == 1);
  wedjat_stats stats;
  memset(&stats, 0, sizeof stats);
  CHECK(!wedjat_get_stats(monitor, &stats) && !wedjat_get_stats(monitor, NULL) && !wedjat_get_stats(NULL, &stats));
  stats.size = sizeof stats;
  CHECK(wedjat_get_stats(monitor, &stats) && stats.turns == 2 && stats.stalls == 1 && stats.reports == 1);
  CHECK(stats.longest > 300000000 && stats.longest == stats.stalled_time && !stats.stalled && stats.shown_frames == 1);
  CHECK(stats.lost == 0 && stats.bytes > 500 && stats.captures > 0);

  ptrdiff_t length = wedjat_stacks(monitor, WEDJAT_THREADS_CURRENT, text, sizeof text);
  CHECK(length > 0 && (size_t)length == strlen(text) && strstr(text, "main"));
  CHECK(wedjat_stacks(monitor, WEDJAT_THREADS_ALL, NULL, 0) > length);
  CHECK(wedjat_stacks(monitor, 9, text, sizeof text) == -1);
  CHECK(wedjat_stacks(NULL, WEDJAT_THREADS_MAIN, text, sizeof text) == -1);
  CHECK(wedjat_replaced_signals(monitor, NULL, 0) == 0 && !wedjat_watch_main_queue(NULL));
#ifdef __linux__
  CHECK(!wedjat_watch_main_queue(monitor)); /* A program without libdispatch. */
#endif
  watched_already(monitor);
  forks(monitor, options);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, member, monitor) == 0 && pthread_join(thread, NULL) == 0);
  CHECK(!wedjat_record(NULL, "look", text, sizeof text) && strstr(text, "no monitor"));
  CHECK(wedjat_record(monitor, "look", text, sizeof text));
  printf("report live %s\n", text);
  wedjat_uninstall(monitor);

  /* Its own reports are left only now. */
  wedjat_sent sent;
  memset(&sent, 0, sizeof sent);
  sent.size = sizeof sent;
  CHECK(!wedjat_send(NULL, answer, answers, &sent) && !wedjat_send(argv[1], NULL, NULL, &sent));
  CHECK(wedjat_reports(argv[1], NULL, NULL) == 2);
  answers[0] = WEDJAT_LATER, answers[1] = WEDJAT_STOP;
  CHECK(wedjat_send(argv[1], answer, answers, &sent) && sent.deferred == 2 && asked == 2);
  answers[0] = WEDJAT_REFUSED, answers[1] = WEDJAT_ACCEPTED, asked = 0;
  CHECK(wedjat_send(argv[1], answer, answers, &sent) && sent.refused == 1 && sent.accepted == 1 && sent.deferred == 0);
  CHECK(wedjat_reports(argv[1], told, (void *)"left over") == 0);
  printf("done\n");
  return 0;
}
