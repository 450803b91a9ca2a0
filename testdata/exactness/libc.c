/* The C library: strings, sorting with a callback, printing, allocating, time by the vDSO, a
 * thread, a library opened at run time, and stubs bound on first use. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static void *thread(void *with) { char text[64]; snprintf(text, sizeof text, "%p", with); return strdup(text); }
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void first(void) { setenv("EXACT", "1", 1); }
static void last(void) { free(malloc(10)); }

int main(void) {
    char a[5000], b[5000];
    volatile size_t sizes[] = { 1, 7, 15, 31, 63, 100, 255, 1000, 4000 };
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        memset(a, 'x', sizes[i]);
        a[sizes[i]] = 0;
        memcpy(b, a, sizes[i] + 1);
        memmove(b + 1, b, sizes[i]);
        if (strlen(a) != sizes[i] || !strchr(a, 'x') || strcmp(a, b) > 0) abort();
    }
    int numbers[40];
    for (int i = 0; i < 40; i++) numbers[i] = (i * 7919) % 101;
    qsort(numbers, 40, sizeof *numbers, compare);
    printf("%d %s %.3f %lx\n", numbers[3], "text", atof("3.25") + strtod("1e5", 0), strtoul("ff", 0, 16));
    void *blocks[30];
    for (int i = 0; i < 30; i++) blocks[i] = malloc(i * 100 + 1);
    for (int i = 0; i < 30; i += 2) free(blocks[i]);
    blocks[1] = realloc(blocks[1], 200000);
    for (int i = 1; i < 30; i += 2) free(blocks[i]);
    struct timespec now;
    struct timeval day;
    clock_gettime(CLOCK_MONOTONIC, &now);
    gettimeofday(&day, 0);
    time(0);
    pthread_once(&once, first);
    atexit(last);
    pthread_t other;
    void *result;
    pthread_create(&other, 0, thread, a);
    pthread_join(other, &result);
    free(result);
    void *library = dlopen("libm.so.6", RTLD_LAZY);
    double (*cosine)(double) = library ? (double (*)(double))dlsym(library, "cos") : 0;
    if (cosine) printf("%f\n", cosine(0.5));
    if (library) dlclose(library);
    fflush(stdout);
    return 0;
}
