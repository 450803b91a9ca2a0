// An exception that nobody catches, as Foundation and the runtime have it (Foundation/NSException.h,
// objc/message.h, objc/objc-exception.h). A selector here is its name; an object is either a string or
// an exception.
#include <stdlib.h>
#include <string.h>

struct object {
  const char *text;
  struct object *name, *reason;
};

static void (*handler)(struct object *);

void NSSetUncaughtExceptionHandler(void (*new)(struct object *)) { handler = new; }
void (*NSGetUncaughtExceptionHandler(void))(struct object *) { return handler; }
const char *sel_registerName(const char *name) { return name; }

const void *objc_msgSend(struct object *self, const char *selector) {
  if (strcmp(selector, "name") == 0)
    return self->name;
  if (strcmp(selector, "reason") == 0)
    return self->reason;
  if (strcmp(selector, "UTF8String") == 0)
    return self->text;
  abort();
}

// As when no frame catches it: the handler, then the end.
__attribute__((noreturn, noinline)) void objc_exception_throw(struct object *exception) {
  if (handler)
    handler(exception);
  abort();
}
