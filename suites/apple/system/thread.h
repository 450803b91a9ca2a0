// What the files of this stand-in for libSystem share. The structure's first fields are known to the
// machine (emulator/src/system/thread.rs).
#pragma once
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define KEYS 256

struct destructor {
  struct destructor *next;
  void (*function)(void *);
  void *object;
};

struct thread {
  struct thread *self;
  int error;
  uint32_t port;
  uint64_t id;
  // Which dispatch queue it works off: the kernel is told where that stands (bsdthread_register's
  // `dispatchqueue_offset`, pthread/bsdthread_private.h), and tells it on as `dispatch_qaddr`.
  const void *queue;
  // How many threads it has suspended.
  uint32_t holds;
  char *stack_top;
  size_t stack_size;
  void *(*function)(void *);
  void *argument;
  void *result;
  uint32_t done;
  uint32_t detached;
  uint32_t is_not_cancelled;
  void *mapping;
  size_t mapping_size;
  char name[64];
  struct destructor *destructors;
  void *values[KEYS];
};

static inline struct thread *self(void) {
#if defined(__arm64__)
  struct thread *t;
  __asm__("mrs %0, TPIDRRO_EL0" : "=r"(t));
  return t;
#else
  struct thread *t;
  __asm__("movq %%gs:0, %0" : "=r"(t));
  return t;
#endif
}

// The machine's own traps.
int __emulator_thread_create(void (*entry)(struct thread *), struct thread *thread, void *stack_top);
void __emulator_thread_exit(void *unmap, size_t size, uint32_t *word) __attribute__((noreturn));
int __emulator_word_wait(uint32_t *word, uint32_t expected, uint64_t nanoseconds);
int __emulator_word_wake(uint32_t *word, uint64_t count);
void __emulator_set_name(const char *name);
// While the caller holds others suspended, these end the machine by their names.
void __emulator_allocates(void);
void __emulator_frees(void);
void __emulator_locks(void);
int __emulator_entry(int fd, unsigned long index, void *entry);
unsigned long __emulator_open(const char *path);
int __emulator_close(unsigned long image);
void *__emulator_initializer(unsigned long image, unsigned long k);

// A lock on a word: 0 free, 1 taken, 2 taken and waited for.
void word_lock(uint32_t *word);
int word_try(uint32_t *word);
void word_unlock(uint32_t *word);

void run_initializers(unsigned long from);
void thread_finish(struct thread *t);
