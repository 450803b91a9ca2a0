/* GTK 3: watched by ping, as every loop of GLib. */
#include "scenario.h"

#include <gtk/gtk.h>

static GtkWidget *window;

static gboolean answer(gpointer beat) {
  ((void (*)(void))beat)();
  return G_SOURCE_REMOVE;
}

/* A source at the default priority: an idle one waits for everything else. */
static void post(void (*beat)(void), void *data) {
  (void)data;
  g_idle_add_full(G_PRIORITY_DEFAULT, answer, (gpointer)beat, NULL);
}

static gboolean close_box(gpointer box) {
  gtk_dialog_response(GTK_DIALOG(box), GTK_RESPONSE_OK);
  return G_SOURCE_REMOVE;
}

static void dialog(int ms) {
  GtkWidget *box = gtk_message_dialog_new(GTK_WINDOW(window), GTK_DIALOG_MODAL, GTK_MESSAGE_INFO, GTK_BUTTONS_OK, "Is it over?");
  g_timeout_add(ms, close_box, box);
  gtk_dialog_run(GTK_DIALOG(box));
  gtk_widget_destroy(box);
}

static gboolean on_timer(gpointer data) {
  (void)data;
  int wait = scenario_step();
  if (wait >= 0) g_timeout_add(wait, on_timer, NULL);
  else gtk_main_quit();
  gtk_widget_queue_draw(window);
  return G_SOURCE_REMOVE;
}

static gboolean on_draw(GtkWidget *widget, cairo_t *cairo, gpointer data) {
  (void)widget, (void)cairo, (void)data;
  scenario_draw();
  return FALSE;
}

int main(int argc, char **words) {
  scenario_install(argc, words);
  gtk_init(NULL, NULL);
  window = gtk_window_new(GTK_WINDOW_TOPLEVEL);
  g_signal_connect(window, "draw", G_CALLBACK(on_draw), NULL);
  gtk_widget_show_all(window);
  g_timeout_add(0, on_timer, NULL);
  wedjat_watch_by_ping(monitor, post, NULL);
  gtk_main();
  scenario_end();
}
