/* libevent: its callbacks run within the wait, so it is watched by ping. */
#include "scenario.h"

#include <event2/event.h>
#include <event2/thread.h>
#include <stdatomic.h>

static struct event_base *base;
static struct event *ping, *timer;
static _Atomic(void (*)(void)) asked;

static void answer(int fd, short what, void *data) {
  (void)fd, (void)what, (void)data;
  void (*beat)(void) = atomic_exchange(&asked, NULL);
  if (beat) beat();
}

static void post(void (*beat)(void), void *data) {
  (void)data;
  atomic_store(&asked, beat);
  event_active(ping, 0, 0);
}

static void dialog(int ms) {
  wedjat_pause();
  scenario_sleep(ms);
  wedjat_resume();
}

static void on_timer(int fd, short what, void *data) {
  (void)fd, (void)what, (void)data;
  scenario_draw();
  int wait = scenario_step();
  struct timeval time = {wait / 1000, wait % 1000 * 1000};
  event_base_update_cache_time(base); /* The base knows the time from before the callback. */
  if (wait >= 0) event_add(timer, &time);
  else event_base_loopbreak(base);
}

int main(int argc, char **words) {
  scenario_install(argc, words);
  evthread_use_pthreads(); /* So that `event_active` wakes the loop. */
  base = event_base_new();
  ping = event_new(base, -1, 0, answer, NULL);
  timer = event_new(base, -1, 0, on_timer, NULL);
  struct timeval now = {0, 0};
  event_add(timer, &now);
  wedjat_watch_by_ping(monitor, post, NULL);
  event_base_dispatch(base);
  scenario_end(); /* Before the base is freed. */
  event_free(ping);
  event_free(timer);
  event_base_free(base);
}
