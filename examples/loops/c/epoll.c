/* A loop of one's own over epoll: a turn begins after the wait, and ends before it. */
#include "scenario.h"

#include <sys/epoll.h>

static void dialog(int ms) {
  wedjat_pause();
  scenario_sleep(ms);
  wedjat_resume();
}

int main(int argc, char **words) {
  scenario_install(argc, words);
  struct epoll_event event;
  int epoll = epoll_create1(0);
  scenario_draw();
  for (int wait = scenario_step(); wait >= 0;) {
    wedjat_end(heart);
    epoll_wait(epoll, &event, 1, wait);
    wedjat_begin(heart);
    scenario_draw();
    wait = scenario_step();
  }
  scenario_end();
}
