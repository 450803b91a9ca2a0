// Ways to die that only C++ has; built by the test as a library of its own.
#include <pthread.h>
#include <stdexcept>
#include <string>

struct Refused : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// what() is not at the beginning of this one.
struct Side { virtual ~Side() {} long side = 1; };
struct Both : Side, Refused {
    Both() : Refused("both sides refused") {}
};

// GCC marks the name of one that other units may have too.
namespace {
struct Hidden : Refused {
    using Refused::Refused;
};
}  // namespace

using Function = void (*)();

// Nobody catches what comes out of a thread's function; Rust's main function would.
static void on_a_thread(Function function) {
    pthread_t thread;
    auto run = [](void *function) -> void * {
        reinterpret_cast<Function>(function)();
        __asm__ volatile("");
        return nullptr;
    };
    pthread_create(&thread, nullptr, run, reinterpret_cast<void *>(function));
    pthread_join(thread, nullptr);
}

extern "C" __attribute__((noinline)) void throws() { throw Refused("the card was refused"); }
extern "C" __attribute__((noinline)) void throws_both() { throw Both(); }
extern "C" __attribute__((noinline)) void throws_number() { throw 7; }

extern "C" __attribute__((noinline)) void throws_hidden() { throw Hidden("nobody may see it"); }

extern "C" void cc_throw_hidden() { on_a_thread(throws_hidden); }
extern "C" void cc_throw() { on_a_thread(throws); }
extern "C" void cc_throw_both() { on_a_thread(throws_both); }
extern "C" void cc_throw_number() { on_a_thread(throws_number); }
extern "C" __attribute__((noinline)) void cc_no_throw() noexcept { throws(); }
