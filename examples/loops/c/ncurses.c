/* ncurses: a turn begins after `getch`, and ends before it. */
#include "scenario.h"

#include <ncurses.h>

static long due;

/* Waits for a key until it is time for the next event. */
static int next_key(void) {
  long left = due - scenario_now_ms();
  timeout(left > 0 ? left : 0);
  wedjat_end(heart);
  int key = getch();
  wedjat_begin(heart);
  return key;
}

/* A loop within a turn that waits for a key: `getch` again, so the turn ends and begins there too. */
static void dialog(int ms) {
  due = scenario_now_ms() + ms;
  while (scenario_now_ms() < due) next_key();
}

int main(int argc, char **words) {
  scenario_install(argc, words);
  initscr();
  cbreak();
  noecho();
  wedjat_begin(heart);
  for (int wait; (wait = scenario_step()) >= 0;) {
    mvaddstr(0, 0, scenario);
    scenario_draw();
    refresh();
    due = scenario_now_ms() + wait;
    while (scenario_now_ms() < due) next_key();
  }
  endwin();
  scenario_end();
}
