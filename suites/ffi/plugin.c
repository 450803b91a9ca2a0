/* A library that records for a while, in a host that unloads it: loaded, it installs a monitor and drops it. */
#include "wedjat.h"

#include <string.h>

bool record(const char *directory) {
  wedjat_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.name = "Plugin";
  options.version = "1.0";
  options.directory = directory;
  options.crash = true;
  options.stall = true;
  wedjat_monitor *monitor = wedjat_install(&options, NULL, 0);
  bool written = monitor && wedjat_record(monitor, "look", NULL, 0);
  wedjat_uninstall(monitor);
  return written;
}
