// C++ exceptions: thrown deep, caught by type and by everything, thrown again, past destructors and a
// frame without any; a catch within a catch; and, told so, one that nobody catches.
#include <stdio.h>

#define KEEP __attribute__((noinline, used))

namespace std {
// As the ABI has it (Itanium C++ ABI; libc++'s <exception>): no headers of a C++ library here.
class exception {
public:
  exception() noexcept {}
  virtual ~exception() noexcept;
  virtual const char *what() const noexcept;
};
} // namespace std

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

int main() {
  int sum = try_again(2) + try_again(4) + twice(1) + twice(6);
  printf("throws\n");
  return sum > 0 && freed > 0 ? 0 : 1;
}
