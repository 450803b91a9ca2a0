/* Node's view of the recorder. */
#include "host.h"
#include <node_api.h>

static napi_value call(napi_env env, napi_callback_info info) {
  void *function;
  napi_get_cb_info(env, info, NULL, NULL, NULL, &function);
  ((void (*)(void))function)();
  return NULL;
}

NAPI_MODULE_INIT() {
  struct { const char *name; void (*function)(void); } all[] = {
    {"install", host_install}, {"stall", host_stall}, {"crash", host_crash}, {"uninstall", host_uninstall}};
  for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
    napi_value function;
    napi_create_function(env, all[i].name, NAPI_AUTO_LENGTH, call, (void *)all[i].function, &function);
    napi_set_named_property(env, exports, all[i].name, function);
  }
  return exports;
}
