// An app in C++ without Objective-C, with the recorder in it by include/wedjat.h: `cpp FOLDER KIND`. It
// freezes or dies as KIND says, in methods, templates and lambdas, some of them inlined. A comment
// `@name` marks a line that the reports are held against (table).
#include <mach/mach_time.h>
#include <pthread.h>
#include "../native/exception.h"
#include "app.h"
#include "objective.h"

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
  KEEP virtual void opens(int drawer);
  KEEP virtual void hands_on(objective::thing what);
  KEEP virtual void retries();
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

// Objective-C's exceptions: thrown at first, caught, and thrown again by somebody else.
void printer::opens(int drawer) {
  if (drawer > 0)
    opens(drawer - 1); // @drawers
  else
    objective::raise("NSRangeException", "drawer 9 beyond bounds [0 .. 3]"); // @opens
  AFTER;
}

void printer::hands_on(objective::thing what) {
  objective::raise(what); // @hands-on
  AFTER;
}

void printer::retries() {
  bool failed = false;
  try {
    opens(2); // @tries
  } catch (...) {
    failed = true;
  }
  if (failed)
    hands_on(objective::last); // @retries
  AFTER;
}

KEEP static void handle_click(printer &with, const char *kind) {
  if (strcmp(kind, "busy") == 0) with.print(2); // @click-busy
  else if (strcmp(kind, "sleeping") == 0) with.clean();
  else if (strcmp(kind, "lock") == 0) with.refill();
  else if (strcmp(kind, "null") == 0) turns += with.status(nullptr);
  else if (strcmp(kind, "terminate") == 0) with.feed(1);
  else if (strcmp(kind, "uncaught") == 0) with.throws(); // @click-uncaught
  else if (strcmp(kind, "thrown again") == 0) with.retries();
  else if (strcmp(kind, "thrown deep") == 0) with.opens(700); // @click-deep
  else if (strcmp(kind, "thrown text") == 0) with.hands_on(objective::text("out of ink"));
  AFTER;
}

} // namespace paper

int main(int count, char **arguments) {
  if (count != 3)
    return 2;
  if (strncmp(arguments[2], "thrown", 6) == 0)
    objective::load();
  wedjat_monitor *monitor = begin("cpp", arguments[1]);
  paper::printer office;
  paper::handle_click(office, arguments[2]); // @main
  end(monitor);
  return 0;
}
