// Installs the recorder before main, with the folder that REPORTS names, and begins a turn that no death ends.
#include <stdlib.h>
#include <wedjat.h>

__attribute__((constructor)) static void install(void) {
  const char *folder = getenv("REPORTS");
  if (!folder) return;
  wedjat_options options = wedjat_options_init("till", "1", folder);
  options.crash = true;
  options.stall = getenv("STALL") != NULL;
  wedjat_begin(wedjat_get_heartbeat(wedjat_install(&options, NULL, 0)));
}
