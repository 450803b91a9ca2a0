/* A library that records for a while, in a host that unloads it: loaded, it installs a monitor and drops it. */
#include "wedjat.h"


bool record(const char *directory) {
  wedjat_options options = wedjat_options_init("Plugin", "1.0", directory);
  options.crash = true;
  options.stall = true;
  wedjat_monitor *monitor = wedjat_install(&options, NULL, 0);
  bool written = monitor && wedjat_record(monitor, "look", NULL, 0);
  wedjat_uninstall(monitor);
  return written;
}
