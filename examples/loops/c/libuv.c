/* libuv: its callbacks run within the wait, so it is watched by ping. */
#include "scenario.h"

#include <stdatomic.h>
#include <uv.h>

static uv_async_t async;
static uv_timer_t timer;
static _Atomic(void (*)(void)) asked;

static void answer(uv_async_t *handle) {
  (void)handle;
  void (*beat)(void) = atomic_exchange(&asked, NULL);
  if (beat) beat();
}

static void post(void (*beat)(void), void *data) {
  (void)data;
  atomic_store(&asked, beat);
  uv_async_send(&async);
}

static void dialog(int ms) {
  wedjat_pause();
  scenario_sleep(ms);
  wedjat_resume();
}

static void on_timer(uv_timer_t *handle) {
  scenario_draw();
  int wait = scenario_step();
  uv_update_time(handle->loop); /* The loop knows the time from before the callback. */
  if (wait >= 0) uv_timer_start(handle, on_timer, wait, 0);
}

int main(int argc, char **words) {
  scenario_install(argc, words);
  uv_loop_t *loop = uv_default_loop();
  uv_async_init(loop, &async, answer);
  uv_unref((uv_handle_t *)&async);
  wedjat_watch_by_ping(monitor, post, NULL);
  uv_timer_init(loop, &timer);
  uv_timer_start(&timer, on_timer, 0, 0);
  uv_run(loop, UV_RUN_DEFAULT);
  scenario_end(); /* Before the handle is closed. */
  uv_close((uv_handle_t *)&async, NULL);
  uv_run(loop, UV_RUN_DEFAULT);
}
