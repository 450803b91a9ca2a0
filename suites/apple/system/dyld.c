// The half of dyld that calls back: mach-o/dyld.h, dlfcn.h.
#include "thread.h"
#include <dlfcn.h>
#include <mach-o/dyld.h>
#include <mach-o/getsect.h>
#include <mach-o/loader.h>
#include <string.h>

static void (*added[8])(const struct mach_header *, intptr_t);
static void (*removed[8])(const struct mach_header *, intptr_t);
static int added_count, removed_count;
static uint32_t lock;

void run_initializers(unsigned long from) {
  for (unsigned long image = from; image < _dyld_image_count(); image++) {
    void (*function)(void);
    for (unsigned long k = 0; (function = (void (*)(void))__emulator_initializer(image, k)); k++)
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

// Images that `dlopen` brought are counted, and go when nobody holds them; a handle is the image's
// header. Those that were there at the start stay.
static struct { const struct mach_header *header; int holders; } opened[16];

static int *holders_of(const struct mach_header *header) {
  for (int k = 0; k < 16; k++)
    if (opened[k].header == header)
      return &opened[k].holders;
  return NULL;
}

void *dlopen(const char *path, int mode) {
  const struct mach_header *header = NULL;
  word_lock(&lock);
  uint32_t before = _dyld_image_count();
  for (uint32_t i = 0; i < before && !header; i++)
    if (strcmp(_dyld_get_image_name(i), path) == 0)
      header = _dyld_get_image_header(i);
  uint32_t after = before;
  if (!header && !(mode & RTLD_NOLOAD)) {
    // What it wants comes before it.
    if (__emulator_open(path) != ~0ul) {
      after = _dyld_image_count();
      header = _dyld_get_image_header(after - 1);
      for (int k = 0; k < 16; k++)
        if (!opened[k].header) {
          opened[k].header = header;
          break;
        }
    }
    for (uint32_t i = before; i < after; i++)
      for (int k = 0; k < added_count; k++)
        added[k](_dyld_get_image_header(i), _dyld_get_image_vmaddr_slide(i));
  }
  int *holders = header ? holders_of(header) : NULL;
  if (holders)
    ++*holders;
  word_unlock(&lock);
  if (after > before)
    run_initializers(before);
  return (void *)header;
}

int dlclose(void *handle) {
  word_lock(&lock);
  int *holders = holders_of(handle);
  if (holders && --*holders == 0)
    for (uint32_t i = 0; i < _dyld_image_count(); i++)
      if (_dyld_get_image_header(i) == handle) {
        for (int k = 0; k < removed_count; k++)
          removed[k](handle, _dyld_get_image_vmaddr_slide(i));
        if (__emulator_close(i))
          for (int k = 0; k < 16; k++)
            if (opened[k].header == handle)
              opened[k].header = NULL;
        break;
      }
  word_unlock(&lock);
  return 0;
}

char *dlerror(void) { return "not found"; }

// mach-o/getsect.h: a section of a loaded image. The header is at its address less the slide.
uint8_t *getsectiondata(const struct mach_header_64 *header, const char *segment, const char *section,
                        unsigned long *size) {
  const struct load_command *command = (const void *)(header + 1);
  intptr_t slide = 0;
  for (int pass = 0; pass < 2; pass++) {
    command = (const void *)(header + 1);
    for (uint32_t k = 0; k < header->ncmds; k++, command = (const void *)((const char *)command + command->cmdsize)) {
      const struct segment_command_64 *s = (const void *)command;
      if (s->cmd != LC_SEGMENT_64)
        continue;
      if (pass == 0 && strcmp(s->segname, SEG_TEXT) == 0)
        slide = (intptr_t)header - (intptr_t)s->vmaddr;
      if (pass == 0 || strcmp(s->segname, segment) != 0)
        continue;
      const struct section_64 *found = (const void *)(s + 1);
      for (uint32_t n = 0; n < s->nsects; n++, found++)
        if (strncmp(found->sectname, section, sizeof found->sectname) == 0) {
          *size = found->size;
          return (uint8_t *)(found->addr + (uintptr_t)slide);
        }
    }
  }
  return NULL;
}
