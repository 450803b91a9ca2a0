// Installs the recorder before main, with the folder that REPORTS names.
#include <stdlib.h>
#include <wedjat.h>

__attribute__((constructor)) static void install(void) {
  const char *folder = getenv("REPORTS");
  if (!folder) return;
  wedjat_options options = {.size = sizeof options, .name = "till", .version = "1", .directory = folder, .crash = true};
  wedjat_install(&options, NULL, 0);
}
