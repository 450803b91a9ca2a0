// What gcc's unwinder asks glibc for, for programs that are linked with musl: which image an address lies in, and
// where that image's .eh_frame_hdr is. Layout: glibc's <dlfcn.h>, struct dl_find_object.
#define _GNU_SOURCE
#include <link.h>
#include <pthread.h>
#include <stddef.h>

struct found {
  unsigned long long flags;
  void *start, *end, *map, *eh_frame;
  unsigned long long reserved[7];
};

struct query {
  size_t pc;
  struct found *found;
};

static int visit(struct dl_phdr_info *image, size_t size, void *data) {
  (void)size;
  struct query *query = data;
  int inside = 0;
  void *eh_frame = NULL;
  for (int i = 0; i < image->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &image->dlpi_phdr[i];
    size_t start = image->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_LOAD && query->pc - start < part->p_memsz) {
      inside = 1;
      query->found->start = (void *)start;
      query->found->end = (void *)(start + part->p_memsz);
    }
    if (part->p_type == PT_GNU_EH_FRAME) eh_frame = (void *)start;
  }
  if (inside) query->found->eh_frame = eh_frame;
  return inside;
}

int _dl_find_object(void *pc, struct found *found) {
  struct query query = {(size_t)pc, found};
  return dl_iterate_phdr(visit, &query) && found->eh_frame ? 0 : -1;
}

// That unwinder refers to these weakly, which takes none of them out of a static library, and calls them where
// any is there.
__attribute__((used)) static void *const called[] = {
    (void *)pthread_once,        (void *)pthread_getspecific, (void *)pthread_setspecific, (void *)pthread_key_create,
    (void *)pthread_mutex_lock,  (void *)pthread_mutex_unlock,
};
