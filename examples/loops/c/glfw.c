/* GLFW: its callbacks run within the wait, so it is watched by ping: an empty event, answered after the wait. */
#include "scenario.h"

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>
#include <pthread.h>
#include <stdatomic.h>

static _Atomic(void (*)(void)) asked;
static atomic_bool is_key;
static atomic_int wait_ms;

static void post(void (*beat)(void), void *data) {
  (void)data;
  atomic_store(&asked, beat);
  glfwPostEmptyEvent();
}

static void dialog(int ms) {
  wedjat_pause();
  scenario_sleep(ms);
  wedjat_resume();
}

/* A callback, as GLFW calls it within `glfwWaitEvents`: moving the window causes one. */
static void on_move(GLFWwindow *window, int x, int y) {
  (void)x, (void)y;
  int wait = scenario_step();
  if (wait < 0) glfwSetWindowShouldClose(window, 1);
  atomic_store(&wait_ms, wait);
}

/* The user: asks for the next event when it is time. */
static void *use(void *data) {
  (void)data;
  for (int wait; (wait = atomic_exchange(&wait_ms, -2)) != -1;) {
    if (wait == -2) {
      scenario_sleep(2);
      continue;
    }
    scenario_sleep(wait);
    atomic_store(&is_key, true);
    glfwPostEmptyEvent();
  }
  return NULL;
}

int main(int argc, char **words) {
  scenario_install(argc, words);
  glfwInit();
  glfwWindowHint(GLFW_CLIENT_API, GLFW_NO_API);
  GLFWwindow *window = glfwCreateWindow(200, 100, "wedjat", NULL, NULL);
  glfwSetWindowPosCallback(window, on_move);
  wedjat_watch_by_ping(monitor, post, NULL);
  pthread_t user;
  pthread_create(&user, NULL, use, NULL);
  scenario_draw();
  for (int x = 10; !glfwWindowShouldClose(window);) {
    glfwWaitEvents();
    void (*beat)(void) = atomic_exchange(&asked, NULL);
    if (beat) beat();
    if (atomic_exchange(&is_key, false)) glfwSetWindowPos(window, x = 220 - x, 10);
  }
  pthread_join(user, NULL);
  scenario_end(); /* Before GLFW ends. */
  glfwTerminate();
}
