// C++: exceptions, lambdas, noexcept, virtual thunks, sorting with a callback.
#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#define KEEP __attribute__((noinline))

volatile long sink;

struct Guard {
    long &count;
    explicit Guard(long &c) : count(c) { count++; }
    KEEP ~Guard() { count--; sink = count; }
};

struct Shape { virtual ~Shape() = default; virtual long area(long n) = 0; long pad = 1; };
struct Named { virtual ~Named() = default; virtual long name(long n) { return n + sink; } long pad = 2; };
struct Square : virtual Shape, virtual Named {
    KEEP long area(long n) override { return n * n + sink; }
    KEEP long name(long n) override { return area(n) + 1; }
};

KEEP static long thrower(long n, long &alive) {
    Guard guard(alive);
    if (n == 0) throw std::runtime_error("thrown");
    return thrower(n - 1, alive) + 1;
}

KEEP static long quiet(long n) noexcept {
    long alive = 0;
    try { return thrower(n, alive); } catch (const std::exception &e) { return e.what()[0] + alive; }
}

KEEP static long rethrows(long n) {
    try { long a = 0; return thrower(n, a); } catch (...) { sink = n; throw; }
}

KEEP static long calls(const std::function<long(long)> &f, long n) { return f(n) + 1; }

int main() {
    long sum = quiet(3);
    try { sum += rethrows(2); } catch (const std::runtime_error &) { sum++; }
    sum += calls([&](long n) { return n + sum; }, 4);
    Square square;
    Shape *shape = &square;
    Named *named = &square;
    sum += shape->area(5) + named->name(6);
    std::vector<std::string> words = {"one", "two", "three", "four", "a rather longer word than fits"};
    std::sort(words.begin(), words.end(), [](const auto &a, const auto &b) { return a.size() < b.size(); });
    for (const auto &word : words) sum += word.size();
    sink = sum;
    return 0;
}
