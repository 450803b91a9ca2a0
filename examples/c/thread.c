/* A thread beside the main one, watched as it decodes: it freezes for 400 ms, and the report is about it.
 *
 *   cc -g -pthread thread.c $(pkg-config --cflags --libs wedjat) -o thread && ./thread reports
 */
#include <wedjat.h>

#include <pthread.h>
#include <stdio.h>
#include <time.h>

static void pause_ms(long ms) {
  struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  while (nanosleep(&time, &time) != 0) {
  }
}

static void decode(int packet) { pause_ms(packet == 2 ? 400 : 5); }

static void *decode_packets(void *data) {
  wedjat_monitor *monitor = data;
  wedjat_heartbeat heart = wedjat_watch_thread(monitor, "decoder", 0, 0); /* 0: the defaults */
  if (!heart.install) fprintf(stderr, "not watched: error %d\n", (int)wedjat_last_error());
  for (int packet = 0; packet < 4; packet++) {
    wedjat_begin(heart);
    decode(packet);
    wedjat_end(heart);
    pause_ms(20); /* Waits for the next. */
  }
  wedjat_unwatch_thread(monitor); /* The thread's end would do as well. */
  return NULL;
}

static void on_report(const char *path, void *data) {
  (void)data;
  printf("a stall was reported: %s\n", path);
}

int main(int argc, char **words) {
  char error[256] = "";
  wedjat_options options = wedjat_options_init("ThreadInC", "1.0", argc > 1 ? words[1] : "reports");
  options.on_report = on_report;
  wedjat_monitor *monitor = wedjat_install(&options, error, sizeof error);
  if (!monitor) fprintf(stderr, "no reports: %s\n", error);

  pthread_t decoder;
  if (pthread_create(&decoder, NULL, decode_packets, monitor) != 0) return 1;
  pthread_join(decoder, NULL);
  pause_ms(200);
  wedjat_stats stats = {0};
  stats.size = sizeof stats;
  wedjat_get_stats(monitor, &stats);
  printf("stalls: %d, watched threads now: %d\n", (int)stats.stalls, (int)stats.watched_threads);
  wedjat_uninstall(monitor);
  return 0;
}
