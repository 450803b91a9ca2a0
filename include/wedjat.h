/* wedjat: what was the main thread doing when the app froze or died?
 *
 * The C interface. Generated from src/ffi.rs by cbindgen; do not edit. */

#ifndef WEDJAT_H
#define WEDJAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 The recorder of this process; see `wedjat_install`.
 */
typedef struct wedjat_monitor wedjat_monitor;

/*
 Told the path of a report; `data` is what was given with the function.
 */
typedef void (*wedjat_report_function)(const char *path, void *data);

/*
 What to record, and where. Fill it with zeros, then set `size` and what you want: a trigger that
 is not asked for is off, a number that is 0 is the default.
 */
typedef struct {
  /*
   `sizeof(wedjat_options)`: lets later versions grow it.
   */
  size_t size;
  /*
   The app's name.
   */
  const char *name;
  /*
   The app's version.
   */
  const char *version;
  /*
   The folder of reports; made if it is missing.
   */
  const char *directory;
  /*
   Watch the installing thread for stalls.
   */
  bool stall;
  /*
   Report fatal signals.
   */
  bool crash;
  /*
   With `crash`: report SIGTERM too.
   */
  bool sigterm;
  /*
   How long without a beat is one strike, milliseconds (50).
   */
  uint32_t stall_timeout_ms;
  /*
   How many strikes in a row are a stall (5).
   */
  uint32_t stall_strikes;
  /*
   Called with each report of a stall once it is whole, on a thread of the monitor's; may be null.
   */
  wedjat_report_function on_report;
  /*
   Given to `on_report`; used on a thread of the monitor's.
   */
  void *on_report_data;
} wedjat_options;

/*
 The run loop's pulse: a plain value, to be copied wherever it is needed.
 */
typedef struct {
  /*
   Which install it belongs to.
   */
  uint32_t install;
} wedjat_heartbeat;

/*
 Puts `beat` into the watched thread's own queue; `data` is what was given with the function.
 */
typedef void (*wedjat_post_function)(void (*beat)(void), void *data);

/*
 A timed mark that lasts: what `wedjat_mark_begin` gives and `wedjat_mark_end` takes.
 */
typedef struct {
  /*
   Its number.
   */
  uint64_t ticket;
  /*
   When it began, nanoseconds of the monotonic clock.
   */
  uint64_t start;
} wedjat_mark;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Installs the monitor; to be called on the thread to be watched, early. There is one at a time.

 Gives null on failure, and then says why in `error` (at most `error_size` bytes with the zero
 byte; may be null).

 # Safety
 `options` points at `options->size` bytes; its strings end with a zero byte; `on_report` may be
 called with `on_report_data` on another thread until `wedjat_uninstall` has returned; `error`
 has room for `error_size` bytes.
 */
wedjat_monitor *wedjat_install(const wedjat_options *options, char *error, size_t error_size);

/*
 Takes back every handler and ends the watch. Heartbeats that are left over do nothing. A null is
 left alone.

 # Safety
 `monitor` is null, or what `wedjat_install` gave, and is not used again.
 */
void wedjat_uninstall(wedjat_monitor *monitor);

/*
 The run loop's pulse.

 # Safety
 `monitor` is null (its heartbeat does nothing), or what `wedjat_install` gave.
 */
wedjat_heartbeat wedjat_get_heartbeat(const wedjat_monitor *monitor);

/*
 The watched thread has something to do. Never blocks, allocates or fails.
 */
void wedjat_begin(wedjat_heartbeat heartbeat);

/*
 The watched thread is done with it and about to wait for the next event.
 */
void wedjat_end(wedjat_heartbeat heartbeat);

/*
 Watches a run loop that cannot be observed: `post` puts each `beat` into the watched thread's own
 queue, where it is to be called. `post` runs on a thread of the monitor's. Gives whether it began.

 # Safety
 `monitor` is null, or what `wedjat_install` gave; `post` may be called with `data` on another
 thread until `wedjat_uninstall` has returned.
 */
bool wedjat_watch_by_ping(const wedjat_monitor *monitor, wedjat_post_function post, void *data);

/*
 Writes a report of all threads, now. `reason` (may be null) stands in it. Its path goes to `path`
 (at most `path_size` bytes with the zero byte; may be null). Gives whether it was written; else
 `path` has the reason why not.

 # Safety
 `monitor` is null, or what `wedjat_install` gave; `reason` is null or ends with a zero byte;
 `path` has room for `path_size` bytes.
 */
bool wedjat_record(const wedjat_monitor *monitor, const char *reason, char *path, size_t path_size);

/*
 Sets a key of the app's own, which stands in every report from now on.

 # Safety
 `monitor` is null, or what `wedjat_install` gave; both strings end with a zero byte.
 */
void wedjat_set(const wedjat_monitor *monitor, const char *key, const char *value);

/*
 Takes a key away.

 # Safety
 As `wedjat_set`.
 */
void wedjat_remove(const wedjat_monitor *monitor, const char *key);

/*
 Sets a gauge: a number by name, as a queue's length.

 # Safety
 As `wedjat_set`.
 */
void wedjat_gauge(const wedjat_monitor *monitor, const char *name, double value);

/*
 Leaves a breadcrumb: one line about what just happened, with the time.

 # Safety
 As `wedjat_set`.
 */
void wedjat_breadcrumb(const wedjat_monitor *monitor, const char *line);

/*
 Starts a timed mark, as a network call or a page.

 # Safety
 As `wedjat_set`.
 */
wedjat_mark wedjat_mark_begin(const wedjat_monitor *monitor, const char *name);

/*
 Ends a timed mark.

 # Safety
 `monitor` is null, or what `wedjat_install` gave.
 */
void wedjat_mark_end(const wedjat_monitor *monitor, wedjat_mark mark);

/*
 Calls `each` with the path of every report that earlier launches left in `directory`, oldest
 first. Gives how many there are, or -1 when the folder cannot be listed.

 # Safety
 `directory` is null, or ends with a zero byte; `each` may be called with `data`.
 */
ptrdiff_t wedjat_reports(const char *directory, wedjat_report_function each, void *data);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* WEDJAT_H */
