// An app in C++: a monitor that goes with its scope, and a guard for each turn of the run loop.
#include <wedjat.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

struct Uninstall {
  void operator()(wedjat_monitor *monitor) const { wedjat_uninstall(monitor); }
};
using Monitor = std::unique_ptr<wedjat_monitor, Uninstall>;

class Turn {
public:
  explicit Turn(wedjat_heartbeat heart) : heart(heart) { wedjat_begin(heart); }
  ~Turn() { wedjat_end(heart); }
  Turn(const Turn &) = delete;
  Turn &operator=(const Turn &) = delete;

private:
  wedjat_heartbeat heart;
};

static void pause(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

/// A folder of the user's own: never the temporary one, in which anybody may put what he likes.
static std::string folder() {
  const auto variable = [](const char *name) { const char *value = std::getenv(name); return std::string(value ? value : ""); };
#ifdef __APPLE__
  return variable("HOME") + "/Library/Application Support/app-in-cpp/reports";
#else
  const auto state = variable("XDG_STATE_HOME");
  return (state.empty() ? variable("HOME") + "/.local/state" : state) + "/app-in-cpp/reports";
#endif
}

int main() {
  char error[256] = "";
  const auto reports = folder();
  wedjat_options options = wedjat_options_init("AppInCpp", "1.0", reports.c_str());
  options.stall = true;
  options.crash = true;
  options.on_stall = [](const wedjat_stall_event *event, void *) {
    std::cout << (event->is_over ? "a stall is over: " : "a stall: ") << event->stall_class << '\n';
  };
  const Monitor monitor(wedjat_install(&options, error, sizeof error));
  if (!monitor) std::cerr << "no reports: " << error << '\n';

  const auto heart = wedjat_get_heartbeat(monitor.get());
  for (int event = 0; event < 3; event++) {
    pause(5);
    const Turn turn(heart);
    wedjat_set_integer(monitor.get(), "event", event);
    if (event == 2) pause(400);
  }
  pause(200);
  wedjat_stats stats{};
  stats.size = sizeof stats;
  wedjat_get_stats(monitor.get(), &stats);
  std::cout << stats.stalls << " stall, " << stats.reports << " report\n";
}
