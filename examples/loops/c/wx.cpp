// wxWidgets: watched by ping, `CallAfter`, which is also answered within a modal dialog.
#include "scenario.h"

#include <wx/wx.h>

static void post(void (*beat)(void), void *) {
  wxTheApp->CallAfter([beat] { beat(); });
}

struct Frame : wxFrame {
  wxTimer timer{this};

  Frame() : wxFrame(nullptr, wxID_ANY, "wedjat") {
    Bind(wxEVT_TIMER, [this](wxTimerEvent &) { onTimer(); });
    Bind(wxEVT_PAINT, [this](wxPaintEvent &) {
      wxPaintDC dc(this);
      scenario_draw();
    });
    timer.StartOnce(1);
  }

  void onTimer() {
    int wait = scenario_step();
    if (wait >= 0) timer.StartOnce(wait > 0 ? wait : 1);
    else Close(true);
    Refresh();
  }
};

static void dialog(int ms) {
  wxDialog box(wxTheApp->GetTopWindow(), wxID_ANY, "Is it over?");
  wxTimer timer(&box);
  box.Bind(wxEVT_TIMER, [&](wxTimerEvent &) { box.EndModal(wxID_OK); });
  timer.StartOnce(ms);
  box.ShowModal();
}

struct App : wxApp {
  bool OnInit() override {
    wedjat_watch_by_ping(monitor, post, nullptr);
    return (new Frame)->Show();
  }

  int OnExit() override {
    scenario_end();  // Before the application ends.
    return 0;
  }
};

wxIMPLEMENT_APP_NO_MAIN(App);

int main(int argc, char **words) {
  scenario_install(argc, words);
  argc = 1;
  return wxEntry(argc, words);
}
