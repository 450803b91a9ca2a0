/* Tk: an event source of its own, which Tcl calls before and after each wait, in nested loops (`vwait`) too. */
#include "scenario.h"

#include <tk.h>

static Tcl_Interp *interpreter;

static void about_to_wait(ClientData data, int flags) {
  (void)data, (void)flags;
  wedjat_end(heart);
}

static void has_woken(ClientData data, int flags) {
  (void)data, (void)flags;
  wedjat_begin(heart);
}

static void dialog(int ms) {
  char script[200];
  snprintf(script, sizeof script,
           "toplevel .box; label .box.text -text {Is it over?}; pack .box.text; grab .box; "
           "after %d {destroy .box}; tkwait window .box", ms);
  if (Tcl_Eval(interpreter, script) != TCL_OK) printf("%s\n", Tcl_GetStringResult(interpreter));
}

static void on_timer(ClientData data) {
  int wait = scenario_step();
  if (wait >= 0) Tcl_CreateTimerHandler(wait, on_timer, data);
  else Tk_DestroyWindow(Tk_MainWindow(interpreter));
}

static void on_expose(ClientData data, XEvent *event) {
  (void)data, (void)event;
  scenario_draw();
}

int main(int argc, char **words) {
  scenario_install(argc, words);
  Tcl_FindExecutable(words[0]);
  interpreter = Tcl_CreateInterp();
  if (Tcl_Init(interpreter) != TCL_OK || Tk_Init(interpreter) != TCL_OK) {
    fprintf(stderr, "%s\n", Tcl_GetStringResult(interpreter));
    return 1;
  }
  wedjat_begin(heart);
  Tcl_CreateEventSource(about_to_wait, has_woken, NULL);
  Tk_CreateEventHandler(Tk_MainWindow(interpreter), ExposureMask, on_expose, NULL);
  Tcl_CreateTimerHandler(0, on_timer, NULL);
  Tk_MainLoop();
  scenario_end();
}
