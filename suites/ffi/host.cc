/* A host of plugin.c: loads it, has it record, unloads it, several times, and exits. It records on a thread that ends:
   what a library leaves for the end of a thread keeps it loaded until then. Once it is unloaded nothing points into it. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool (*record)(const char *);

static void *records(void *directory) { return record(static_cast<char *>(directory)) ? directory : nullptr; }

/* The signal that an exception which nothing catches ends a process by. */
static int thrown() {
  int status = 0;
  pid_t child = fork();
  if (child == 0) throw 1;
  return waitpid(child, &status, 0) == child && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* The real-time signals that have a handler. */
static int handled() {
  int count = 0;
  for (int number = SIGRTMIN; number <= SIGRTMAX; number++) {
    struct sigaction action;
    count += sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_DFL;
  }
  return count;
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  bool keep = strcmp(argv[3], "keep") == 0;
  for (int round = 0; round < 3; round++) {
    void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!plugin) return puts(dlerror()), 3;
    *reinterpret_cast<void **>(&record) = dlsym(plugin, "record");
    pthread_t thread;
    void *recorded = nullptr;
    if (!record || pthread_create(&thread, nullptr, records, argv[2]) != 0) return 4;
    if (pthread_join(thread, &recorded) != 0 || !recorded) return 5;
    if (!keep) dlclose(plugin);
  }
  /* Whether it is gone. */
  printf("%s\n", dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) ? "still loaded" : "unloaded");
  fflush(stdout);
  /* The handlers of a recorder that stays loaded stay, too. */
  bool stays = strcmp(argv[3], "stays") == 0;
  if (!keep && (thrown() != SIGABRT || (handled() != 0) != stays)) return 6;
  exit(7);
}
