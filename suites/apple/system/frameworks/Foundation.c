// Exceptions as Foundation and the Objective-C runtime have them (Foundation/NSException.h,
// objc/message.h, objc/objc-exception.h, objc/runtime.h): raised with the stack of the first raise,
// thrown as C++ exceptions where the process has C++, and reported where nothing catches them. A selector
// here is its name.
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct class { const struct class *class; const char *name; };
struct object { const struct class *class; };
static const struct class Class = {&Class, "Object"};
static const struct class NSString = {&Class, "NSString"}, NSException = {&Class, "NSException"};
static const struct class NSNumber = {&Class, "NSNumber"}, NSArray = {&Class, "NSArray"};

struct string { struct object object; const char *text; };
struct number { struct object object; unsigned long value; };
struct array { struct object object; unsigned long count; unsigned long values[]; };
struct exception { struct object object; struct string *name, *reason; struct array *addresses; };

// --- messages

static const struct { const struct class *class; const char *selector; } methods[] = {
    {&NSString, "UTF8String"}, {&NSNumber, "unsignedLongValue"}, {&NSArray, "count"},
    {&NSArray, "objectAtIndex:"}, {&NSException, "name"}, {&NSException, "reason"},
    {&NSException, "callStackReturnAddresses"}};

static int responds(const struct class *class, const char *selector) {
  for (unsigned long k = 0; k < sizeof methods / sizeof *methods; k++)
    if (methods[k].class == class && strcmp(methods[k].selector, selector) == 0)
      return 1;
  return 0;
}

static void *new(const struct class *class, size_t size) {
  struct object *object = calloc(1, size);
  object->class = class;
  return object;
}

const void *objc_getClass(const char *name) {
  return strcmp(name, "NSException") == 0 ? &NSException : strcmp(name, "NSString") == 0 ? &NSString : NULL;
}
const char *object_getClassName(struct object *object) { return object->class->name; }
const char *sel_registerName(const char *name) { return name; }

uintptr_t objc_msgSend(struct object *self, const char *selector, uintptr_t a, uintptr_t b, uintptr_t c) {
  (void)c;
  if (!self)
    return 0;
  if (self->class == &Class) {
    if (strcmp(selector, "stringWithUTF8String:") == 0) {
      struct string *string = new (&NSString, sizeof *string);
      string->text = (const char *)a;
      return (uintptr_t)string;
    }
    if (strcmp(selector, "exceptionWithName:reason:userInfo:") == 0) {
      struct exception *exception = new (&NSException, sizeof *exception);
      exception->name = (struct string *)a, exception->reason = (struct string *)b;
      return (uintptr_t)exception;
    }
    abort();
  }
  // BOOL: what stands above the lowest byte is not defined.
  if (strcmp(selector, "respondsToSelector:") == 0)
    return 0x5ead00 | responds(self->class, (const char *)a);
  if (!responds(self->class, selector))
    abort();
  struct exception *exception = (void *)self;
  struct array *array = (void *)self;
  if (strcmp(selector, "name") == 0)
    return (uintptr_t)exception->name;
  if (strcmp(selector, "reason") == 0)
    return (uintptr_t)exception->reason;
  if (strcmp(selector, "callStackReturnAddresses") == 0)
    return (uintptr_t)exception->addresses;
  if (strcmp(selector, "UTF8String") == 0)
    return (uintptr_t)((struct string *)self)->text;
  if (strcmp(selector, "unsignedLongValue") == 0)
    return ((struct number *)self)->value;
  if (strcmp(selector, "count") == 0)
    return array->count;
  if (a >= array->count)
    abort();
  struct number *number = new (&NSNumber, sizeof *number);
  number->value = array->values[a];
  return (uintptr_t)number;
}

// --- throwing

typedef void (*Handler)(struct object *);
static Handler handler;
static struct object *thrown;
static void (*terminate_before)(void);
// A `type_info` of the C++ ABI for what is thrown.
static struct { const char *vtable, *name; } type;

void NSSetUncaughtExceptionHandler(Handler new) { handler = new; }
Handler NSGetUncaughtExceptionHandler(void) { return handler; }

static void *find(const char *name) { return dlsym(RTLD_DEFAULT, name); }

static void terminate(void) {
  void *(*current)(void) = (void *(*)(void))find("__cxa_current_exception_type");
  if (handler && current() == &type)
    handler(thrown);
  terminate_before();
}

__attribute__((constructor)) static void begin(void) {
  void *(*set)(void (*)(void)) = (void *(*)(void (*)(void)))find("_ZSt13set_terminatePFvvE");
  if (set)
    terminate_before = (void (*)(void))set(terminate);
}

// The exception keeps the stack of its first raise.
__attribute__((noinline)) static void preprocess(struct object *object) {
  struct exception *exception = (void *)object;
  if (object->class != &NSException || exception->addresses)
    return;
  unsigned long count = 0;
  for (unsigned long *frame = __builtin_frame_address(0); frame && frame[1]; frame = (unsigned long *)frame[0])
    count++;
  struct array *array = new (&NSArray, sizeof *array + count * sizeof *array->values);
  for (unsigned long *frame = __builtin_frame_address(0); array->count < count; frame = (unsigned long *)frame[0])
    array->values[array->count++] = frame[1];
  exception->addresses = array;
}

__attribute__((noreturn, noinline)) void objc_exception_throw(struct object *object) {
  preprocess(object);
  thrown = object;
  void *(*allocate)(size_t) = (void *(*)(size_t))find("__cxa_allocate_exception");
  void (*throw)(void *, void *, void (*)(void *)) = (void (*)(void *, void *, void (*)(void *)))find("__cxa_throw");
  if (allocate && throw) {
    type.vtable = (const char *)find("_ZTVN10__cxxabiv117__class_type_infoE") + 16;
    type.name = object->class->name;
    struct object **slot = allocate(sizeof *slot);
    *slot = object;
    throw(slot, &type, NULL);
  }
  // Without C++ there is nobody to catch it.
  if (handler)
    handler(object);
  abort();
}
