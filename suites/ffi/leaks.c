/* An app that keeps no pointer to its monitor, and one that uninstalls it, under a sanitizer that counts leaks. */
#include "wedjat.h"

#include <stdio.h>
#include <string.h>

static wedjat_monitor *install(const char *directory) {
  wedjat_options options = wedjat_options_init("leaks", "1", directory);
  options.stall = true;
  options.crash = true;
  char error[200] = "";
  wedjat_monitor *monitor = wedjat_install(&options, error, sizeof error);
  if (!monitor) fprintf(stderr, "wedjat: %s\n", error);
  return monitor;
}

/* Has what was on the stack and in registers overwritten. */
__attribute__((noinline)) static int overwrite(int depth) {
  volatile char bytes[4096];
  memset((char *)bytes, depth, sizeof bytes);
  return depth ? overwrite(depth - 1) + bytes[depth] : 0;
}

__attribute__((noinline)) static void record(const char *directory) {
  wedjat_monitor *monitor = install(directory);
  char path[500];
  if (monitor && !wedjat_record(monitor, "of an app", path, sizeof path)) puts(path);
}

int main(int count, char **words) {
  const char *what = count > 2 ? words[2] : "";
  if (!strcmp(what, "uninstalls")) {
    wedjat_uninstall(install(words[1]));
    wedjat_uninstall(install(words[1]));
  } else {
    record(words[1]);
  }
  printf("done%.*s\n", overwrite(20) & 0, "");
  return 0;
}
