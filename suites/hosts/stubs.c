/* OCaml's view of the recorder. */
#include "host.h"
#include <caml/mlvalues.h>

value ml_install(value unit) { host_install(); return unit; }
value ml_stall(value unit) { host_stall(); return unit; }
value ml_crash(value unit) { host_crash(); return unit; }
value ml_uninstall(value unit) { host_uninstall(); return unit; }
