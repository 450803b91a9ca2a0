// C++ exceptions: thrown deep, caught by type and by everything, thrown again, past destructors, variable
// frames, thunks, lambdas and a frame without any; a catch within a catch; and one that nothing catches.
#include <stdio.h>
#include "exception.h"

#define KEEP __attribute__((noinline, used))

struct out_of_paper : std::exception {
  const char *what() const noexcept override { return "tray 2 is empty"; }
};

static int freed;
struct guard {
  int kept;
  KEEP explicit guard(int value) : kept(value) {}
  KEEP ~guard() { freed += kept; }
};

KEEP int print_page(int page) {
  guard ink(page);
  if (page == 3)
    throw out_of_paper();
  if (page == 5)
    throw page;
  return page + ink.kept;
}

extern "C" KEEP int passes_through(int (*function)(int), int page) { return function(page) + 1; }

KEEP int print_document(int pages) {
  guard job(100);
  int done = 0;
  for (int page = 1; page <= pages; page++)
    done += passes_through(print_page, page);
  return done;
}

KEEP int try_again(int pages) {
  try {
    guard attempt(1000);
    return print_document(pages);
  } catch (const out_of_paper &) {
    try {
      return print_page(5);
    } catch (int page) {
      return page;
    }
  }
}

KEEP int hand_on(int pages) {
  try {
    return print_document(pages);
  } catch (...) {
    guard note(1);
    throw;
  }
}

KEEP int twice(int pages) {
  try {
    return hand_on(pages);
  } catch (const std::exception &e) {
    return e.what()[0];
  }
}

extern "C" KEEP int print_until_empty(int pages) { return print_document(pages); }

// Past a frame that allows no registers to be guessed: a variable one, with many objects.
KEEP int with_room(int pages) {
  volatile char room[pages * 24 + 1];
  room[pages] = 1;
  guard first(1), second(2), third(3);
  return hand_on(pages) + room[pages];
}

struct printer {
  virtual ~printer() {}
  virtual int print(int page) = 0;
};
struct other {
  virtual ~other() {}
  virtual int number() { return 7; }
};
struct laser : other, printer {
  int printed = 0;
  KEEP int print(int page) override {
    guard drum(page);
    printed += print_page(page);
    return printed;
  }
};

// By a thunk, since the printer is not the first base.
KEEP int by_base(printer &p, int page) { return p.print(page) + 1; }

KEEP int no_more() noexcept {
  try {
    return print_page(5);
  } catch (int page) {
    return page;
  }
}

template <typename F> KEEP int each_of(F function, int pages) {
  int sum = 0;
  for (int page = 0; page < pages; page++) {
    try {
      sum += function(page);
    } catch (const out_of_paper &) {
      sum += 1;
    } catch (int page) {
      sum += page;
    }
  }
  return sum;
}

KEEP int deep(int levels, int page) {
  guard level(levels);
  if (levels == 0)
    return print_page(page);
  return deep(levels - 1, page) + level.kept;
}

KEEP int caught_inside(int pages) {
  try {
    return with_room(pages);
  } catch (...) {
    int sum = no_more();
    try {
      throw;
    } catch (const std::exception &e) {
      return sum + e.what()[1];
    } catch (int page) {
      return sum + page;
    }
  }
}

KEEP int all() {
  laser machine;
  int sum = try_again(2) + try_again(4) + twice(1) + twice(6);
  for (int pages = 0; pages < 7; pages++)
    sum += caught_inside(pages);
  sum += each_of([&](int page) { return by_base(machine, page); }, 7);
  sum += each_of([](int page) { return deep(page + 2, page); }, 7);
  return sum;
}

int main() {
  int sum = all();
  printf("throws\n");
  return sum > 0 && freed > 0 ? 0 : 1;
}
