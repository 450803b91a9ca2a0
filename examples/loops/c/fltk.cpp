// FLTK: its callbacks run within `Fl::wait`, so it is watched by ping: `Fl::awake`, which is also answered within a modal window.
#include "scenario.h"

#include <FL/Fl.H>
#include <FL/Fl_Double_Window.H>
#include <FL/Fl_Window.H>

static Fl_Window *window;

static void answer(void *beat) { reinterpret_cast<void (*)(void)>(beat)(); }

static void post(void (*beat)(void), void *) { Fl::awake(answer, reinterpret_cast<void *>(beat)); }

static void close_box(void *box) { static_cast<Fl_Window *>(box)->hide(); }

static void dialog(int ms) {
  Fl_Double_Window box(200, 100, "Is it over?");
  box.set_modal();
  box.end();
  box.show();
  Fl::add_timeout(ms / 1000.0, close_box, &box);
  while (box.shown()) Fl::wait();
}

static void on_timer(void *) {
  int wait = scenario_step();
  if (wait >= 0) Fl::add_timeout(wait / 1000.0, on_timer);
  else window->hide();
  window->redraw();
}

struct Window : Fl_Double_Window {
  using Fl_Double_Window::Fl_Double_Window;
  void draw() override {
    Fl_Double_Window::draw();
    scenario_draw();
  }
};

int main(int argc, char **words) {
  scenario_install(argc, words);
  Fl::lock();  // So that `Fl::awake` wakes the loop.
  window = new Window(200, 100, "wedjat");
  window->end();
  window->show();
  Fl::add_timeout(0, on_timer);
  wedjat_watch_by_ping(monitor, post, nullptr);
  Fl::run();
  scenario_end();
}
