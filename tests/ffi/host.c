/* A host of plugin.c: loads it, has it record, unloads it, several times, and exits. It records on a thread that ends:
   what a library leaves for the end of a thread keeps it loaded until then. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool (*record)(const char *);

static void *records(void *directory) { return record(directory) ? directory : NULL; }

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  bool keep = strcmp(argv[3], "keep") == 0;
  for (int round = 0; round < 3; round++) {
    void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!plugin) return puts(dlerror()), 3;
    *(void **)&record = dlsym(plugin, "record");
    pthread_t thread;
    void *recorded = NULL;
    if (!record || pthread_create(&thread, NULL, records, argv[2]) != 0) return 4;
    if (pthread_join(thread, &recorded) != 0 || !recorded) return 5;
    if (!keep) dlclose(plugin);
  }
  /* Whether it is gone. */
  printf("%s\n", dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) ? "still loaded" : "unloaded");
  fflush(stdout);
  exit(7);
}
