// C++ names: a namespace, a template, a method, an anonymous namespace, a lambda.
#include "kiosk.h"
#include "tax.h"

extern "C" long write(int, const void *, unsigned long);

namespace receipt {
namespace {

// Writes decimal digits backwards.
struct Digits {
  char text[24];
  int at = sizeof text;

  __attribute__((noinline)) void push(uint64_t value) {
    do {
      text[--at] = static_cast<char>('0' + value % 10);
      value /= 10;
    } while (value != 0 && at > 0);
  }
};

} // namespace

template <typename Value, int Width> struct Column {
  Value sum = 0;

  inline __attribute__((always_inline)) void add(Value value) {
    sum += value * Width;
    if (sum > Value(1) << 30)
      kiosk_fault(sum);
  }

  __attribute__((noinline)) uint64_t print() const {
    Digits digits;
    digits.push(sum);
    digits.push(Width);
    auto flush = [&](int fd) __attribute__((noinline)) {
      return static_cast<uint64_t>(write(fd, digits.text + digits.at, sizeof digits.text - digits.at));
    };
    return flush(1) + digits.at;
  }
};

template <typename Value> uint64_t all(const order *orders, uint32_t n) {
  Column<Value, 3> plain;
  Column<Value, 5> taxed;
  for (uint32_t i = 0; i < n; i++) {
    plain.add(orders[i].cents);
    taxed.add(with_tax(orders[i].cents, orders[i].item));
  }
  return plain.print() ^ taxed.print();
}

} // namespace receipt

uint64_t render_receipt(const order *orders, uint32_t n) {
  return n & 1 ? receipt::all<uint64_t>(orders, n) : receipt::all<uint32_t>(orders, n);
}
