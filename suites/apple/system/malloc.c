// malloc/malloc.h: size classes over pages of the machine, under one lock, as malloc has one: who is
// stopped in here holds it.
#include "thread.h"
#include <errno.h>
#include <malloc/malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static uint32_t lock;
static struct free { struct free *next; } *lists[24];
static char *fresh, *fresh_end;

struct header { size_t size; size_t class; };

static void *pages(size_t size) {
  void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_ANON | MAP_PRIVATE, -1, 0);
  return at == MAP_FAILED ? NULL : at;
}

__attribute__((noinline)) static void *take(size_t class) {
  size_t whole = (size_t)32 << class;
  word_lock(&lock);
  void *at = lists[class];
  if (at) {
    lists[class] = lists[class]->next;
  } else {
    if ((size_t)(fresh_end - fresh) < whole) {
      size_t chunk = whole > (1 << 20) ? whole : (1 << 20);
      fresh = pages(chunk);
      fresh_end = fresh + chunk;
    }
    at = fresh;
    fresh += whole;
  }
  word_unlock(&lock);
  return at;
}

__attribute__((noinline)) static void give(void *at, size_t class) {
  word_lock(&lock);
  ((struct free *)at)->next = lists[class];
  lists[class] = at;
  word_unlock(&lock);
}

void *malloc(size_t size) {
  if (self()->holds)
    __emulator_allocates();
  size_t class = 0;
  while (((size_t)32 << class) < size + sizeof(struct header))
    if (++class == 24)
      return NULL;
  struct header *h = take(class);
  h->size = size;
  h->class = class;
  return h + 1;
}

void free(void *p) {
  if (self()->holds)
    __emulator_frees();
  if (!p)
    return;
  struct header *h = (struct header *)p - 1;
  // Aligned blocks keep a pointer to the block that they lie in.
  if (h->class == ~0ull) {
    free((void *)h->size);
    return;
  }
  give(h, h->class);
}

size_t malloc_size(const void *p) {
  const struct header *h = (const struct header *)p - 1;
  return h->class == ~0ull ? 0 : ((size_t)32 << h->class) - sizeof *h;
}

void *calloc(size_t n, size_t size) {
  void *p = malloc(n * size);
  if (p)
    memset(p, 0, n * size);
  return p;
}

void *realloc(void *p, size_t size) {
  if (!p)
    return malloc(size);
  size_t old = ((struct header *)p - 1)->size;
  void *q = malloc(size);
  memcpy(q, p, old < size ? old : size);
  free(p);
  return q;
}

int posix_memalign(void **out, size_t align, size_t size) {
  char *p = malloc(size + align + sizeof(struct header));
  if (!p)
    return ENOMEM;
  char *at = (char *)(((uintptr_t)p + sizeof(struct header) + align - 1) & ~(align - 1));
  struct header *h = (struct header *)at - 1;
  h->size = (size_t)p;
  h->class = ~0ull;
  *out = at;
  return 0;
}
void *aligned_alloc(size_t align, size_t size) {
  void *p = NULL;
  posix_memalign(&p, align, size);
  return p;
}
