// pthread.h, sched.h, os/lock.h: over words of memory that the machine lets threads wait on.
#include "thread.h"
#include <errno.h>
#include <mach/mach.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

int __pthread_kill(mach_port_t port, int signal);

int *__error(void) { return &self()->error; }

void word_lock(uint32_t *word) {
  if (self()->holds)
    __emulator_locks();
  uint32_t free = 0;
  if (__atomic_compare_exchange_n(word, &free, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
    return;
  while (__atomic_exchange_n(word, 2, __ATOMIC_ACQUIRE) != 0)
    __emulator_word_wait(word, 2, 0);
}

int word_try(uint32_t *word) {
  uint32_t free = 0;
  return __atomic_compare_exchange_n(word, &free, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

void word_unlock(uint32_t *word) {
  if (__atomic_exchange_n(word, 0, __ATOMIC_RELEASE) == 2)
    __emulator_word_wake(word, 1);
}

// --- threads

pthread_t pthread_self(void) { return (pthread_t)self(); }
int pthread_equal(pthread_t a, pthread_t b) { return a == b; }
int pthread_main_np(void) { return self()->mapping == NULL; }
mach_port_t pthread_mach_thread_np(pthread_t t) { return ((struct thread *)t)->port; }
void *pthread_get_stackaddr_np(pthread_t t) { return ((struct thread *)t)->stack_top; }
size_t pthread_get_stacksize_np(pthread_t t) { return ((struct thread *)t)->stack_size; }
int pthread_kill(pthread_t t, int signal) { return __pthread_kill(((struct thread *)t)->port, signal); }
int pthread_setcancelstate(int state, int *before) { // PTHREAD_CANCEL_ENABLE is 1, PTHREAD_CANCEL_DISABLE 0
  if (before)
    *before = !self()->is_not_cancelled;
  self()->is_not_cancelled = !state;
  return 0;
}
int pthread_set_qos_class_self_np(qos_class_t c, int p) { (void)c, (void)p; return 0; }
int pthread_setschedparam(pthread_t t, int p, const struct sched_param *s) { (void)t, (void)p, (void)s; return 0; }

int pthread_threadid_np(pthread_t t, uint64_t *id) {
  *id = (t ? (struct thread *)t : self())->id;
  return 0;
}

int pthread_setname_np(const char *name) {
  strlcpy(self()->name, name, sizeof self()->name);
  __emulator_set_name(name);
  return 0;
}

int pthread_getname_np(pthread_t t, char *name, size_t size) {
  strlcpy(name, ((struct thread *)t)->name, size);
  return 0;
}

struct attributes { long magic; size_t stack_size; int detached; };
int pthread_attr_init(pthread_attr_t *a) {
  struct attributes *own = (void *)a;
  own->stack_size = 0x80000;
  own->detached = 0;
  return 0;
}
int pthread_attr_destroy(pthread_attr_t *a) { (void)a; return 0; }
int pthread_attr_setstacksize(pthread_attr_t *a, size_t size) {
  if (size & 0x3fff)
    return EINVAL;
  ((struct attributes *)a)->stack_size = size;
  return 0;
}
int pthread_attr_setdetachstate(pthread_attr_t *a, int state) {
  ((struct attributes *)a)->detached = state == PTHREAD_CREATE_DETACHED;
  return 0;
}

void thread_start(struct thread *t); // entry.s

// Each thread's stack: a guard page, the stack, the structure.
int pthread_create(pthread_t *out, const pthread_attr_t *a, void *(*function)(void *), void *argument) {
  const struct attributes *own = (const void *)a;
  size_t stack = own ? own->stack_size : 0x80000;
  size_t size = 0x4000 + stack + 0x4000;
  char *mapping = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_ANON | MAP_PRIVATE, -1, 0);
  if (mapping == MAP_FAILED)
    return EAGAIN;
  mprotect(mapping, 0x4000, PROT_NONE);
  struct thread *t = (struct thread *)(mapping + 0x4000 + stack);
  t->stack_top = (char *)t;
  t->stack_size = stack;
  t->function = function;
  t->argument = argument;
  t->mapping = mapping;
  t->mapping_size = size;
  t->detached = own ? own->detached : 0;
  *out = (pthread_t)t;
  // A frame record of zeroes at the root.
  return __emulator_thread_create(thread_start, t, t->stack_top - 64);
}

static struct { int used; void (*destroy)(void *); } keys[KEYS];

void _tlv_atexit(void (*function)(void *), void *object) {
  struct destructor *d = mmap(NULL, sizeof *d, PROT_READ | PROT_WRITE, MAP_ANON | MAP_PRIVATE, -1, 0);
  d->function = function;
  d->object = object;
  d->next = self()->destructors;
  self()->destructors = d;
}

void thread_finish(struct thread *t) {
  t->queue = NULL;
  while (t->destructors) {
    struct destructor *d = t->destructors;
    t->destructors = d->next;
    d->function(d->object);
    munmap(d, sizeof *d);
  }
  for (int round = 0; round < 4; round++)
    for (int key = 0; key < KEYS; key++) {
      void *value = t->values[key];
      if (value && keys[key].destroy) {
        t->values[key] = NULL;
        keys[key].destroy(value);
      }
    }
}

__attribute__((noreturn)) void pthread_exit(void *result) {
  struct thread *t = self();
  t->result = result;
  thread_finish(t);
  // A joinable one leaves its memory to whoever joins it.
  __emulator_thread_exit(t->detached ? t->mapping : NULL, t->mapping_size, &t->done);
}

__attribute__((noreturn)) void _pthread_start(struct thread *t) { pthread_exit(t->function(t->argument)); }

int pthread_join(pthread_t other, void **result) {
  struct thread *t = (struct thread *)other;
  while (__atomic_load_n(&t->done, __ATOMIC_ACQUIRE) == 0)
    __emulator_word_wait(&t->done, 0, 0);
  if (result)
    *result = t->result;
  munmap(t->mapping, t->mapping_size);
  return 0;
}

int pthread_detach(pthread_t t) {
  ((struct thread *)t)->detached = 1;
  return 0;
}

// --- keys

int pthread_key_create(pthread_key_t *key, void (*destroy)(void *)) {
  for (int k = 1; k < KEYS; k++)
    if (!keys[k].used) {
      keys[k].used = 1;
      keys[k].destroy = destroy;
      *key = k;
      return 0;
    }
  return EAGAIN;
}
int pthread_key_delete(pthread_key_t key) {
  keys[key].used = 0;
  return 0;
}
void *pthread_getspecific(pthread_key_t key) { return self()->values[key]; }
int pthread_setspecific(pthread_key_t key, const void *value) {
  self()->values[key] = (void *)value;
  return 0;
}

// --- locks: {signature, word, kind, owner, depth}; the static initialiser leaves all but the first 0

struct mutex { long signature; uint32_t word, kind; struct thread *owner; uint32_t depth; };
int pthread_mutexattr_init(pthread_mutexattr_t *a) { ((int *)a)[2] = 0; return 0; }
int pthread_mutexattr_settype(pthread_mutexattr_t *a, int type) { ((int *)a)[2] = type; return 0; }
int pthread_mutexattr_destroy(pthread_mutexattr_t *a) { (void)a; return 0; }
int pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *a) {
  struct mutex *own = (struct mutex *)m;
  *own = (struct mutex){.signature = 0x4d555458, .kind = a ? ((const int *)a)[2] : 0};
  return 0;
}
int pthread_mutex_destroy(pthread_mutex_t *m) { (void)m; return 0; }
int pthread_mutex_lock(pthread_mutex_t *m) {
  struct mutex *own = (struct mutex *)m;
  if (own->kind == PTHREAD_MUTEX_RECURSIVE && own->owner == self()) {
    own->depth++;
    return 0;
  }
  word_lock(&own->word);
  own->owner = self();
  return 0;
}
int pthread_mutex_trylock(pthread_mutex_t *m) {
  struct mutex *own = (struct mutex *)m;
  if (own->kind == PTHREAD_MUTEX_RECURSIVE && own->owner == self()) {
    own->depth++;
    return 0;
  }
  if (!word_try(&own->word))
    return EBUSY;
  own->owner = self();
  return 0;
}
int pthread_mutex_unlock(pthread_mutex_t *m) {
  struct mutex *own = (struct mutex *)m;
  if (own->depth > 0) {
    own->depth--;
    return 0;
  }
  own->owner = NULL;
  word_unlock(&own->word);
  return 0;
}

struct condition { long signature; uint32_t word; };
int pthread_cond_init(pthread_cond_t *c, const pthread_condattr_t *a) {
  (void)a;
  ((struct condition *)c)->word = 0;
  return 0;
}
int pthread_cond_destroy(pthread_cond_t *c) { (void)c; return 0; }
static int wait_for(pthread_cond_t *c, pthread_mutex_t *m, uint64_t nanoseconds) {
  struct condition *own = (struct condition *)c;
  uint32_t seen = __atomic_load_n(&own->word, __ATOMIC_ACQUIRE);
  pthread_mutex_unlock(m);
  int late = __emulator_word_wait(&own->word, seen, nanoseconds);
  pthread_mutex_lock(m);
  return late ? ETIMEDOUT : 0;
}
int pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m) { return wait_for(c, m, 0); }
int pthread_cond_timedwait_relative_np(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t) {
  return wait_for(c, m, t->tv_sec * 1000000000ull + t->tv_nsec + 1);
}
int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  int64_t left = (t->tv_sec - now.tv_sec) * 1000000000ll + (t->tv_nsec - now.tv_nsec);
  return left <= 0 ? ETIMEDOUT : wait_for(c, m, left);
}
int pthread_cond_broadcast(pthread_cond_t *c) {
  struct condition *own = (struct condition *)c;
  __atomic_add_fetch(&own->word, 1, __ATOMIC_RELEASE);
  __emulator_word_wake(&own->word, ~0ull);
  return 0;
}
int pthread_cond_signal(pthread_cond_t *c) {
  struct condition *own = (struct condition *)c;
  __atomic_add_fetch(&own->word, 1, __ATOMIC_RELEASE);
  __emulator_word_wake(&own->word, 1);
  return 0;
}

struct lock { long signature; uint32_t guard; int readers; uint32_t turn; };
int pthread_rwlock_init(pthread_rwlock_t *l, const pthread_rwlockattr_t *a) {
  (void)a;
  *(struct lock *)l = (struct lock){.signature = 0x52574c4b};
  return 0;
}
int pthread_rwlock_destroy(pthread_rwlock_t *l) { (void)l; return 0; }
static int take(struct lock *l, int writer) {
  for (;;) {
    word_lock(&l->guard);
    uint32_t turn = l->turn;
    if (writer ? l->readers == 0 : l->readers >= 0) {
      l->readers = writer ? -1 : l->readers + 1;
      word_unlock(&l->guard);
      return 0;
    }
    word_unlock(&l->guard);
    __emulator_word_wait(&l->turn, turn, 0);
  }
}
int pthread_rwlock_rdlock(pthread_rwlock_t *l) { return take((struct lock *)l, 0); }
int pthread_rwlock_wrlock(pthread_rwlock_t *l) { return take((struct lock *)l, 1); }
int pthread_rwlock_unlock(pthread_rwlock_t *lock) {
  struct lock *l = (struct lock *)lock;
  word_lock(&l->guard);
  l->readers = l->readers < 0 ? 0 : l->readers - 1;
  l->turn++;
  word_unlock(&l->guard);
  __emulator_word_wake(&l->turn, ~0ull);
  return 0;
}

int pthread_once(pthread_once_t *once, void (*function)(void)) {
  uint32_t *word = (uint32_t *)once->__opaque;
  uint32_t expected = 0;
  if (__atomic_compare_exchange_n(word, &expected, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
    function();
    __atomic_store_n(word, 2, __ATOMIC_RELEASE);
    __emulator_word_wake(word, ~0ull);
  }
  while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != 2)
    __emulator_word_wait(word, 1, 0);
  return 0;
}

int pthread_atfork(void (*a)(void), void (*b)(void), void (*c)(void)) { (void)a, (void)b, (void)c; return 0; }
