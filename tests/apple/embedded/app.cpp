// An app in C++ without Objective-C, with the recorder in it by include/wedjat.h: `cpp FOLDER KIND`. It
// freezes or dies as KIND says, in methods, templates and lambdas, some of them inlined. A comment
// `@name` marks a line that the reports are held against (table).
#include <mach/mach_time.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "wedjat.h"

#define KEEP __attribute__((noinline, used))
#define AFTER __asm__ volatile("" ::: "memory")

namespace std {
// As the ABI has it (Itanium C++ ABI; libc++'s <exception>): no headers of a C++ library here.
class exception {
public:
  exception() noexcept {}
  virtual ~exception() noexcept;
  virtual const char *what() const noexcept;
};
} // namespace std

namespace paper {

static volatile uint64_t turns;

struct jam : std::exception {
  const char *what() const noexcept override { return "tray 2 is empty"; }
};

struct lock {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  KEEP void take() {
    pthread_mutex_lock(&mutex); // @take
    AFTER;
  }
  void give() { pthread_mutex_unlock(&mutex); }
};
static lock tray;
static volatile bool holds;

template <typename Work> __attribute__((always_inline)) inline void for_each_page(int pages, Work work) {
  for (int page = 1; page <= pages; page++)
    work(page); // @for-each
}

class printer {
public:
  virtual ~printer() {}
  KEEP virtual void print(int pages);
  KEEP virtual void clean();
  KEEP virtual void refill();
  KEEP virtual uint64_t status(const volatile uint64_t *from) const;
  KEEP virtual void feed(int pages) noexcept;
  KEEP virtual void throws();
};

KEEP static void spin(uint64_t milliseconds) {
  uint64_t end = mach_absolute_time() + milliseconds * 1000000;
  while (mach_absolute_time() < end)
    turns++;
  AFTER;
}

void printer::print(int pages) {
  for_each_page(pages, [](int) __attribute__((always_inline)) {
    spin(300); // @lambda
    AFTER;
  });
}

void printer::clean() {
  usleep(600000); // @clean
  AFTER;
}

void printer::refill() {
  pthread_t holder;
  auto hold = [](void *unused) -> void * {
    tray.take();
    holds = true;
    usleep(700000);
    tray.give();
    return unused;
  };
  pthread_create(&holder, nullptr, hold, nullptr);
  while (!holds)
    usleep(1000);
  tray.take(); // @refill
  tray.give();
  pthread_join(holder, nullptr);
}

uint64_t printer::status(const volatile uint64_t *from) const {
  uint64_t value = from[1]; // @status
  AFTER;
  return value;
}

void printer::throws() {
  throw jam(); // @throw
}

void printer::feed(int pages) noexcept {
  for_each_page(pages, [this](int) __attribute__((always_inline)) { throws(); /* @feed */ });
}

KEEP static void handle_click(printer &with, const char *kind) {
  if (strcmp(kind, "busy") == 0) with.print(2); // @click-busy
  else if (strcmp(kind, "sleeping") == 0) with.clean();
  else if (strcmp(kind, "lock") == 0) with.refill();
  else if (strcmp(kind, "null") == 0) turns += with.status(nullptr);
  else if (strcmp(kind, "terminate") == 0) with.feed(1);
  else if (strcmp(kind, "uncaught") == 0) with.throws(); // @click-uncaught
  AFTER;
}

} // namespace paper

int main(int count, char **arguments) {
  char why[256] = "";
  wedjat_options options = {};
  options.size = sizeof options;
  options.name = "cpp";
  options.version = "1.0";
  if (count != 3)
    return 2;
  options.directory = arguments[1];
  options.stall = options.crash = true;
  wedjat_monitor *monitor = wedjat_install(&options, why, sizeof why);
  if (!monitor) {
    write(2, why, strlen(why));
    return 3;
  }
  wedjat_heartbeat heart = wedjat_get_heartbeat(monitor);
  for (int turn = 0; turn < 3; turn++) {
    wedjat_begin(heart);
    wedjat_end(heart);
    usleep(5000);
  }
  paper::printer office;
  wedjat_begin(heart);
  paper::handle_click(office, arguments[2]); // @main
  wedjat_end(heart);
  usleep(100000);
  wedjat_uninstall(monitor);
  return 0;
}
