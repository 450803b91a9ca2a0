/* Ways to die that only C has; built by the test as a library of its own. */
#define _GNU_SOURCE
#include <assert.h>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile int zero;

__attribute__((noinline)) void c_assert(void) { assert(zero == 1 && "the basket is full"); }

/* Where the test asks for it, the library does not get as far as to be loaded. */
__attribute__((constructor, noinline)) static void crashes_as_it_loads(void) {
    if (getenv("WEDJAT_TEST_CONSTRUCTOR")) *(volatile int *)(long)(zero + 8) = 1;
}

__attribute__((noinline)) void c_double_free(void) {
    void *volatile memory = malloc(40);
    free(memory);
    free(memory);
}

__attribute__((noinline)) void c_smashed_stack(void) {
    char buffer[16];
    memset(buffer, 'x', 64 + zero);
    __asm__ volatile("" : : "r"(buffer) : "memory");
}

/* Every block of the heap that is free is turned to garbage, then the process dies. */
__attribute__((noinline)) void c_corrupt_heap(void) {
    void *blocks[64];
    for (int i = 0; i < 64; i++) blocks[i] = malloc(24 + 40 * i);
    for (int i = 0; i < 64; i++) {
        size_t size = 24 + 40 * i;
        free(blocks[i]);
        memset(blocks[i], 0x41, size);
        memset((char *)blocks[i] - 8, 0x42, 8);
    }
    *(volatile int *)(long)(zero + 8) = 1;
}

__attribute__((noinline)) void c_not_executable(void) {
    void *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(page, 0xc3, 4096);
    ((void (*)(void))page)();
    __asm__ volatile("");
}

__attribute__((noinline)) void c_write_to_code(void) {
    *(volatile char *)(void *)c_assert = 1;
}

__attribute__((noinline)) void c_garbage_stack(void) {
    __asm__ volatile("mov $0x123450, %rsp; push %rax");
}

static int inside_loader(struct dl_phdr_info *info, size_t size, void *data) {
    (void)info, (void)size, (void)data;
    *(volatile int *)(long)(zero + 8) = 1;
    return 0;
}

/* dl_iterate_phdr holds the loader's lock while it calls. */
__attribute__((noinline)) void c_loader_lock(void) { dl_iterate_phdr(inside_loader, 0); }

static void handler(int signal) {
    (void)signal;
    *(volatile int *)(long)(zero + 8) = 1;
}

__attribute__((noinline)) void c_in_a_handler(void) {
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    __asm__ volatile("");
}

__attribute__((noinline)) static void *thread(void *argument) {
    stack_t none = {.ss_flags = SS_DISABLE};
    sigaltstack(&none, 0);
    *(volatile int *)(long)(zero + 8) = 1;
    return argument;
}

__attribute__((noinline)) void c_thread(void) {
    pthread_t other;
    pthread_create(&other, 0, thread, 0);
    pthread_join(other, 0);
}

static struct sigaction ours;

/* A handler over the one that was there, which passes everything on to it. */
static void passes_on(int signal, siginfo_t *info, void *context) {
    ours.sa_sigaction(signal, info, context);
}

void c_handler_over_it(int signal) {
    struct sigaction action = {.sa_sigaction = passes_on, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(signal, &action, &ours);
}

/* A free block's link is turned to garbage: malloc faults on it while it holds its lock. */
__attribute__((noinline)) void c_mallocs_lock(void) {
    void *volatile block = malloc(5000);
    void *volatile keeps_it_from_the_top = malloc(5000);
    free(block);
    ((void **)block)[1] = (void *)0x123450;
    block = malloc(6000);
    __asm__ volatile("" : : "r"(keeps_it_from_the_top) : "memory");
}

/* Code that may be run and not be read, as a protection key makes it. */
__attribute__((noinline)) void c_execute_only(void) {
    unsigned char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* mov (rip + 0), al; ret: it reads itself. */
    memcpy(page, "\x8a\x05\x00\x00\x00\x00\xc3", 7);
    mprotect(page, 4096, PROT_EXEC);
    ((void (*)(void))page)();
    __asm__ volatile("");
}
