// Compiled twice by the test: with KEEP, each function is one of its own and its symbol is the truth about its name.
#include <map>
#include <string>
#include <vector>
#ifdef KEEP
#define CALL __attribute__((noinline, noclone))
#else
#define CALL __attribute__((always_inline))
#endif
#define MARK(name) asm volatile("mark_" #name ": nop" ::: "memory")
volatile int sink;
namespace app {
static CALL inline int join_row(int n) { sink = n; MARK(join_row); return n * sink; }
namespace {
CALL inline int hidden(const char *t, const std::string &s, unsigned long k, const volatile short *const v) {
    sink = k; MARK(hidden); return t[0] + s.size() + sink + *v;
}
template <class T> CALL inline T twice(T n, std::vector<T> &v) { sink = n; MARK(twice); return v.size() * 2 + sink; }
typedef struct { int x; } Unnamed;
typedef int (*Compare)(const void *, const void *);
CALL inline int typedefs(Unnamed u, Compare f, const std::map<std::string, long> &m) {
    sink = u.x; MARK(typedefs); return f(&sink == 0 ? 0 : "", "") + m.size();
}
enum Level { low };
struct Till {
    int at;
    CALL inline Till(int n, int (*f)(int, char)) : at(n) { sink = f(n, 'c'); MARK(ctor); }
    CALL inline ~Till() { sink = 7; MARK(dtor); }
    CALL inline int open(long n, ...) const { sink = n; return at + sink; }
    CALL inline int read(Level l) const { sink = l; MARK(read); return at + sink; }
    CALL inline operator bool() const { MARK(conversion); return sink; }
    CALL inline int operator[](int i) { MARK(subscript); return sink + i; }
    CALL inline bool operator<(const Till &o) const { MARK(less); return sink < o.at; }
    template <class U> static CALL inline U make(U u, const int (&a)[3]) { sink = 2; MARK(make); return u + a[1]; }
    struct Drawer {
        static CALL inline int pull(Till &&t, double d, signed char c) { sink = c; MARK(pull); return t.at + d; }
    };
};
}
enum class Color { red };
namespace { struct K {}; }
template <class A, int N> struct Box {
    struct In {
        static CALL inline int f(A, Color, int Box::*, void (Box::*)(int)) { sink = 9; MARK(nested); return sink; }
    };
};
__attribute__((noinline)) int pay(int n, std::string &s, std::vector<int> &v) {
    auto one = [&](int a) CALL { sink = a; MARK(one); return a + n + sink; };
    auto two = [=](int a) CALL { sink = a; MARK(two); return a + n * 2 + sink; };
    auto outer = [&](int a) CALL {
        auto inner = [=](int b) CALL { sink = b; MARK(inner); return a + b + sink; };
        return inner(a) + n;
    };
    auto three = [](unsigned long long a, const K &) mutable CALL { sink = a; MARK(three); return sink; };
    struct Local { static CALL inline int go(int x) { sink = x; MARK(local); return sink; } };
    Till t(n, [](int a, char) { return a; });
    const int arr[3] = {1, 2, 3};
    std::map<std::string, long> m;
    short w = n;
    int r = join_row(n) + hidden("x", s, n, &w) + twice(n, v) + one(n) + two(n) + outer(n) + three(3, K()) + Local::go(n) + t.open(3) + t[1]
        + Till::make(4L, arr) + (t < t) + t.read(low) + Till::Drawer::pull(static_cast<Till &&>(t), 1.0, 'c')
        + typedefs(Unnamed{n}, [](const void *, const void *) { return 1; }, m);
    if (t) r++;
    return r + Box<K, 3>::In::f(K(), Color::red, nullptr, nullptr);
}
}
extern "C" CALL inline int c_style(int n) { sink = n; MARK(c_style); return n + sink; }
int main(int c, char **v) {
    std::string s = v[0];
    std::vector<int> w;
    auto in_main = [](int n) CALL { sink = n; MARK(in_main); return n + sink; };
    return app::pay(c, s, w) + c_style(c) + in_main(c);
}
