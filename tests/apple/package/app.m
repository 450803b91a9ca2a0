// An app in Objective-C by the Swift package's binary target: the module, not the header, is what it imports.
@import CWedjat;
#include <objc/objc.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static BOOL frozen = NO;

static void pause_ms(long ms) {
  struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&time, 0);
}

static void stall(const wedjat_stall_event *event, void *data) {
  *(BOOL *)data = YES;
  puts(event->is_over ? event->how : event->what);
}

// The emulator's C library has no strstr(3).
static BOOL has(const char *text, const char *word) {
  for (; *text; text++)
    if (strncmp(text, word, strlen(word)) == 0) return YES;
  return NO;
}

__attribute__((noinline)) static void reload(void) {
  pause_ms(400);
}

int main(int count, char **words) {
  char error[256] = "";
  wedjat_options options = {.size = sizeof options, .name = "ObjC", .version = "3.1", .stall = YES, .on_stall = stall};
  options.directory = count > 1 ? words[1] : "reports";
  options.on_stall_data = &frozen;
  wedjat_monitor *monitor = wedjat_install(&options, error, sizeof error);
  if (!monitor) {
    puts(error);
    return 1;
  }
  wedjat_heartbeat heart = wedjat_get_heartbeat(monitor);
  wedjat_begin(heart);
  wedjat_end(heart);
  wedjat_begin(heart);
  reload();
  wedjat_end(heart);
  pause_ms(200);
  wedjat_stats stats = {.size = sizeof stats};
  wedjat_get_stats(monitor, &stats);
  puts(wedjat_version());
  puts(stats.stalls == 1 && frozen ? "one stall" : "not one stall");
  char text[16384];
  wedjat_stacks(monitor, WEDJAT_THREADS_CURRENT, text, sizeof text);
  puts(has(text, "main") ? "main is in the stack" : text);
  wedjat_uninstall(monitor);
  return 0;
}
