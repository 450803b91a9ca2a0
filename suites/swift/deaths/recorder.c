// Installs the recorder before main, with the folder that REPORTS names, and begins a turn that no death ends.
#include <stdlib.h>
#include <wedjat.h>

__attribute__((constructor)) static void install(void) {
  const char *folder = getenv("REPORTS");
  if (!folder) return;
  wedjat_options options = {.size = sizeof options, .name = "till", .version = "1", .directory = folder, .crash = true};
  options.stall = getenv("STALL") != NULL;
  wedjat_begin(wedjat_get_heartbeat(wedjat_install(&options, NULL, 0)));
}
