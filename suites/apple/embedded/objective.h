// Objective-C's exceptions without Objective-C: by the runtime's functions (objc/message.h,
// objc/runtime.h, objc/objc-exception.h).
#pragma once
#include <dlfcn.h>
#include <stdint.h>

namespace objective {

typedef void *thing;
static thing last;

template <typename Function> static Function find(const char *name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

static inline thing send(thing to, const char *selector, uintptr_t a = 0, uintptr_t b = 0, uintptr_t c = 0) {
  auto name = find<thing (*)(const char *)>("sel_registerName");
  return find<thing (*)(thing, thing, uintptr_t, uintptr_t, uintptr_t)>("objc_msgSend")(to, name(selector), a, b, c);
}

static inline thing type(const char *name) { return find<thing (*)(const char *)>("objc_getClass")(name); }
static inline thing text(const char *bytes) {
  return send(type("NSString"), "stringWithUTF8String:", (uintptr_t)bytes);
}

// As an app has it loaded.
static inline void load() {
  dlopen("/System/Library/Frameworks/Foundation.framework/Versions/A/Foundation", RTLD_NOW);
}

__attribute__((always_inline)) static inline void raise(thing what) {
  last = what;
  find<void (*)(thing)>("objc_exception_throw")(what);
}

__attribute__((always_inline)) static inline void raise(const char *name, const char *reason) {
  raise(send(type("NSException"), "exceptionWithName:reason:userInfo:", (uintptr_t)text(name), (uintptr_t)text(reason)));
}

} // namespace objective
