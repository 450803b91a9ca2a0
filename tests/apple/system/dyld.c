// The half of dyld that calls back: mach-o/dyld.h, dlfcn.h.
#include "thread.h"
#include <dlfcn.h>
#include <mach-o/dyld.h>
#include <string.h>

static void (*added[8])(const struct mach_header *, intptr_t);
static void (*removed[8])(const struct mach_header *, intptr_t);
static int added_count, removed_count;
static uint32_t lock;

void run_initializers(unsigned long from) {
  for (unsigned long image = from; image < _dyld_image_count(); image++) {
    void (*function)(void);
    for (unsigned long k = 0; (function = (void (*)(void))__played_initializer(image, k)); k++)
      function();
  }
}

void _dyld_register_func_for_add_image(void (*function)(const struct mach_header *, intptr_t)) {
  word_lock(&lock);
  added[added_count++] = function;
  for (uint32_t i = 0; i < _dyld_image_count(); i++)
    function(_dyld_get_image_header(i), _dyld_get_image_vmaddr_slide(i));
  word_unlock(&lock);
}

void _dyld_register_func_for_remove_image(void (*function)(const struct mach_header *, intptr_t)) {
  word_lock(&lock);
  removed[removed_count++] = function;
  word_unlock(&lock);
}

void *dlopen(const char *path, int mode) {
  if (mode & RTLD_NOLOAD) {
    for (uint32_t i = 0; i < _dyld_image_count(); i++)
      if (strcmp(_dyld_get_image_name(i), path) == 0)
        return (void *)(uintptr_t)(i + 1);
    return NULL;
  }
  word_lock(&lock);
  uint32_t before = _dyld_image_count();
  unsigned long first = __played_open(path);
  if (first != ~0ul)
    for (uint32_t i = before; i < _dyld_image_count(); i++)
      for (int k = 0; k < added_count; k++)
        added[k](_dyld_get_image_header(i), _dyld_get_image_vmaddr_slide(i));
  word_unlock(&lock);
  if (first == ~0ul)
    return NULL;
  run_initializers(before);
  return (void *)(first + 1);
}

int dlclose(void *handle) { (void)handle; return 0; }
char *dlerror(void) { return "not found"; }
