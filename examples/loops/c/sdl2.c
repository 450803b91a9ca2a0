/* SDL: a turn begins after `SDL_WaitEvent`, and ends before it. A message box is a pause. */
#include "scenario.h"

#include <SDL2/SDL.h>
#include <X11/Xlib.h>
#include <pthread.h>

/* SDL names the box by this property alone. */
static bool is_box(Display *display, Window window) {
  Atom property = XInternAtom(display, "_NET_WM_NAME", False), type;
  int format;
  unsigned long length, rest;
  unsigned char *name = NULL;
  XGetWindowProperty(display, window, property, 0, 64, False, AnyPropertyType, &type, &format, &length, &rest, &name);
  bool is = name && !strcmp((char *)name, "wedjat's box");
  if (name) XFree(name);
  return is;
}

/* The user, who closes the box: finds its window, and asks it to close. */
static void *close_box(void *ms) {
  scenario_sleep(*(int *)ms);
  Display *display = XOpenDisplay(NULL);
  Window root = DefaultRootWindow(display), parent, *windows;
  unsigned count;
  XQueryTree(display, root, &root, &parent, &windows, &count);
  for (unsigned at = 0; at < count; at++) {
    if (!is_box(display, windows[at])) continue;
    XEvent event = {.xclient = {.type = ClientMessage, .window = windows[at], .format = 32}};
    event.xclient.message_type = XInternAtom(display, "WM_PROTOCOLS", False);
    event.xclient.data.l[0] = XInternAtom(display, "WM_DELETE_WINDOW", False);
    XSendEvent(display, windows[at], False, NoEventMask, &event);
  }
  XCloseDisplay(display);
  return NULL;
}

static void dialog(int ms) {
  pthread_t user;
  pthread_create(&user, NULL, close_box, &ms);
  long shown = scenario_now_ms();
  wedjat_pause();
  SDL_ShowSimpleMessageBox(SDL_MESSAGEBOX_INFORMATION, "wedjat's box", "Is it over?", NULL);
  wedjat_resume();
  if (scenario_now_ms() - shown < ms - 100) printf("the box was not shown\n");
  pthread_join(user, NULL);
}

static Uint32 on_timer(Uint32 interval, void *data) {
  (void)interval, (void)data;
  SDL_Event event = {.type = SDL_USEREVENT};
  SDL_PushEvent(&event);
  return 0;
}

static bool handle(const SDL_Event *event) {
  if (event->type == SDL_USEREVENT) {
    int wait = scenario_step();
    if (wait < 0) return false;
    SDL_AddTimer(wait > 0 ? wait : 1, on_timer, NULL);
  }
  return true;
}

int main(int argc, char **words) {
  scenario_install(argc, words);
  SDL_Init(SDL_INIT_VIDEO | SDL_INIT_TIMER);
  SDL_Window *window = SDL_CreateWindow("wedjat", 0, 0, 200, 100, 0);
  SDL_Surface *surface = SDL_GetWindowSurface(window);
  SDL_AddTimer(1, on_timer, NULL);
  SDL_Event event;
  for (bool runs = true; runs && SDL_WaitEvent(&event);) {
    wedjat_begin(heart);
    do runs &= handle(&event);
    while (SDL_PollEvent(&event));
    SDL_FillRect(surface, NULL, 0x204060);
    SDL_UpdateWindowSurface(window);
    scenario_draw(); /* SDL loads its renderer when it first shows a frame. */
    wedjat_end(heart);
  }
  scenario_end();
  SDL_Quit();
}
