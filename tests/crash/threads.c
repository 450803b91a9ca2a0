/* Threads that never heard of a recorder, and what they die of. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static volatile int depth;

__attribute__((noinline)) static int too_deep(int level) {
    volatile char room[512];
    room[level % 512] = (char)level;
    depth = level;
    return too_deep(level + 1) + room[(level + 1) % 512];
}

static int door[2], ready[2];

__attribute__((noinline)) static void *waits(void *argument) {
    char byte = 1;
    if (write(ready[1], &byte, 1) != 1) abort();
    while (read(door[0], &byte, 1) != 1) {}
    too_deep(0);
    return argument;
}

/* Starts a thread that waits for c_open, and overflows its stack then. */
void c_begin(void) {
    pthread_t thread;
    char byte;
    if (pipe(door) || pipe(ready)) abort();
    pthread_create(&thread, 0, waits, 0);
    if (read(ready[0], &byte, 1) != 1) abort();
}

void c_open(void) {
    if (write(door[1], "x", 1) != 1) abort();
    for (;;) pause();
}

static void *leaves(void *argument) {
    if (argument) pthread_exit(argument);
    return argument;
}

/* Threads that come and go, by return, by pthread_exit and by cancellation. */
void c_come_and_go(int times) {
    for (int i = 0; i < times; i++) {
        pthread_t thread;
        if (pthread_create(&thread, 0, leaves, (void *)(long)(i % 2))) abort();
        void *result;
        pthread_join(thread, &result);
        if (result != (void *)(long)(i % 2)) abort();
    }
}

static void *sleeps(void *argument) {
    for (;;) pause();
    return argument;
}

void c_cancel(void) {
    pthread_t thread;
    void *result;
    pthread_create(&thread, 0, sleeps, 0);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    if (result != PTHREAD_CANCELED) abort();
}
