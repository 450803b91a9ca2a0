// notify.h: registrations, each for a name; their states are the machine's to say
// (emulator/src/system/notify.rs). <notify.h> is not in the SDK; the prototypes below follow it.
#include <stdint.h>
#include <string.h>

uint64_t __emulator_notify_state(const char *name, uint64_t *state);

enum { OK = 0, INVALID_NAME = 1, INVALID_TOKEN = 2, NAMES = 16 };
static const char *names[NAMES];
static int count;

uint32_t notify_register_check(const char *name, int *token) {
  if (count == NAMES || !name || !*name)
    return INVALID_NAME;
  names[count] = name;
  *token = count++;
  return OK;
}

uint32_t notify_get_state(int token, uint64_t *state) {
  if (token < 0 || token >= count)
    return INVALID_TOKEN;
  return __emulator_notify_state(names[token], state) ? OK : INVALID_NAME;
}
