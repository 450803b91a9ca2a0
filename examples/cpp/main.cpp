// An app in C++: a monitor that goes with its scope, and a guard for each turn of the run loop.
#include <wedjat.h>

#include <chrono>
#include <iostream>
#include <memory>
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

int main() {
  char error[256] = "";
  wedjat_options options{};
  options.size = sizeof options;
  options.name = "AppInCpp";
  options.version = "1.0";
  options.directory = "reports";
  options.stall = true;
  options.crash = true;
  options.on_stall = [](const wedjat_stall_event *event, void *) {
    std::cout << (event->is_over ? "a stall is over: " : "a stall: ") << event->what << '\n';
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
