// Qt: watched by ping, a queued call.
#include "scenario.h"

#include <QtWidgets>

static void post(void (*beat)(void), void *) {
  QMetaObject::invokeMethod(qApp, [beat] { beat(); }, Qt::QueuedConnection);
}

static void dialog(int ms) {
  QMessageBox box(QMessageBox::Information, "wedjat", "Is it over?", QMessageBox::Ok);
  QTimer::singleShot(ms, &box, &QMessageBox::accept);
  box.exec();
}

struct Window : QWidget {
  void paintEvent(QPaintEvent *) override { scenario_draw(); }

  void onTimer() {
    int wait = scenario_step();
    if (wait >= 0) QTimer::singleShot(wait, this, &Window::onTimer);
    else qApp->quit();
    update();
  }
};

int main(int argc, char **words) {
  scenario_install(argc, words);
  QApplication app(argc, words);
  wedjat_watch_by_ping(monitor, post, nullptr);
  Window window;
  window.show();
  QTimer::singleShot(0, &window, &Window::onTimer);
  app.exec();
  scenario_end();  // Before the application ends.
}
