/* wedjat: what was the main thread doing when the app froze or died?
 *
 * The C interface. Generated from src/ffi by cbindgen; do not edit. */

#ifndef WEDJAT_H
#define WEDJAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 The version of this header. `wedjat_version` returns that of the library.
 */
#define WEDJAT_VERSION_MAJOR 0

/*
 See `WEDJAT_VERSION_MAJOR`.
 */
#define WEDJAT_VERSION_MINOR 1

/*
 See `WEDJAT_VERSION_MAJOR`.
 */
#define WEDJAT_VERSION_PATCH 0

/*
 Reason of a failure, for programs; the text of `wedjat_install` is for people.
 */
typedef enum {
  /*
   The last call did not fail, or there was none.
   */
  WEDJAT_ERROR_NONE = 0,
  /*
   The options cannot be used, or a name is null.
   */
  WEDJAT_ERROR_OPTIONS = 1,
  /*
   A monitor is installed in this process already.
   */
  WEDJAT_ERROR_ALREADY_INSTALLED = 2,
  /*
   The folder cannot be made, opened or written to.
   */
  WEDJAT_ERROR_DIRECTORY = 3,
  /*
   Others may write in the folder; see `shared_directory`.
   */
  WEDJAT_ERROR_SHARED_DIRECTORY = 4,
  /*
   A handler of signals could not be installed.
   */
  WEDJAT_ERROR_SIGNAL = 5,
  /*
   Memory, threads or descriptors ran out.
   */
  WEDJAT_ERROR_RESOURCES = 6,
  /*
   No monitor is installed, or none since `fork` in this child.
   */
  WEDJAT_ERROR_NOT_INSTALLED = 7,
  /*
   The thread is watched already, as the one that called `wedjat_install` is.
   */
  WEDJAT_ERROR_WATCHED_ALREADY = 8,
  /*
   256 threads are watched; `refused_threads` counts the others.
   */
  WEDJAT_ERROR_TOO_MANY_THREADS = 9,
} wedjat_error;

/*
 The end of a launch.
 */
typedef enum {
  /*
   It ended by `exit`, or by a return of `main`, whatever the status.
   */
  WEDJAT_ENDED_EXIT = 0,
  /*
   The app uninstalled its monitor; its later end is unknown.
   */
  WEDJAT_ENDED_UNINSTALLED = 1,
  /*
   It ended by a crash that has a report.
   */
  WEDJAT_ENDED_CRASH = 2,
  /*
   It ended by a Rust panic.
   */
  WEDJAT_ENDED_PANIC = 3,
  /*
   It was killed in the middle of a stall.
   */
  WEDJAT_ENDED_STALLED = 4,
  /*
   It was killed, most likely because memory ran out.
   */
  WEDJAT_ENDED_OUT_OF_MEMORY = 5,
  /*
   The machine was restarted.
   */
  WEDJAT_ENDED_REBOOT = 6,
  /*
   It was killed, or ended by `_exit`: these look the same afterwards.
   */
  WEDJAT_ENDED_ABRUPT = 7,
} wedjat_how_ended;

/*
 The threads that `wedjat_stacks` shows.
 */
typedef enum {
  /*
   The watched thread.
   */
  WEDJAT_THREADS_MAIN = 0,
  /*
   The calling thread.
   */
  WEDJAT_THREADS_CURRENT = 1,
  /*
   All of them.
   */
  WEDJAT_THREADS_ALL = 2,
} wedjat_threads;

/*
 The fate of a report to be sent: the answer of the function passed to `wedjat_send`.
 */
typedef enum {
  /*
   It arrived. It is removed.
   */
  WEDJAT_ACCEPTED = 0,
  /*
   The server will never accept it. It is set aside with the extension `.refused`.
   */
  WEDJAT_REFUSED = 1,
  /*
   The server cannot accept it now. It stays, and the next one is tried.
   */
  WEDJAT_LATER = 2,
  /*
   No report can be sent now, such as without a network. This one and all later ones stay.
   */
  WEDJAT_STOP = 3,
} wedjat_answer;

/*
 The recorder of this process; see `wedjat_install`.
 */
typedef struct wedjat_monitor wedjat_monitor;

/*
 Called with the path of a report; `data` is the pointer passed with the function.
 */
typedef void (*wedjat_report_function)(const char *path, void *data);

/*
 A stall that has begun or is over.
 */
typedef struct {
  /*
   Its size, so that a later version may add to it.
   */
  size_t size;
  /*
   True if the stall is over.
   */
  bool is_over;
  /*
   True if no heartbeat ever came: the stall is the launch.
   */
  bool never_beat;
  /*
   Turns of the run loop so far; 1 for one long freeze.
   */
  uint32_t turns;
  /*
   Time at which it began, nanoseconds of the monotonic clock.
   */
  uint64_t start;
  /*
   Duration so far, nanoseconds.
   */
  uint64_t lasted;
  /*
   CPU time that the thread has used since, nanoseconds.
   */
  uint64_t cpu;
  /*
   Time that the thread was ready but had no CPU, nanoseconds.
   */
  uint64_t delay;
  /*
   Its class: "launch", "busy", "blocked" or "starved". Slow frames cause no call.
   */
  const char *stall_class;
  /*
   The outcome: "recovered", "uninstalled" or "thread_ended"; null while the stall lasts.
   */
  const char *outcome;
} wedjat_stall_event;

/*
 Called when a stall is certain, and when it is over; `data` is the pointer passed with the function. `event` is valid until
 it returns.
 */
typedef void (*wedjat_stall_function)(const wedjat_stall_event *event, void *data);

/*
 Options of a monitor: the triggers, their limits, and the folder of reports. Begin with `wedjat_options_init`, then set
 what you want. A trigger that you do not set is off. A number of 0 means the default in parentheses.
 */
typedef struct {
  /*
   `sizeof(wedjat_options)`.
   */
  size_t size;
  /*
   The app's name, UTF-8. Required.
   */
  const char *name;
  /*
   The app's version, UTF-8. Required.
   */
  const char *version;
  /*
   The folder of reports; made if it is missing. Required.
   */
  const char *directory;
  /*
   Watch the installing thread for stalls.
   */
  bool stall;
  /*
   With `stall`: whatever the thread waits for before its first beat counts as part of the launch.
   */
  bool stall_launch_waits;
  /*
   Report fatal signals.
   */
  bool crash;
  /*
   With `crash`: report SIGTERM too.
   */
  bool sigterm;
  /*
   With `crash`: leave signals to the debugger while one is attached.
   */
  bool leave_to_debugger;
  /*
   With `crash`: report bytes around the crash, and texts that registers point at. They may be any data of the
   app.
   */
  bool near_memory;
  /*
   Report when the process uses much CPU for long.
   */
  bool cpu;
  /*
   Report when the process has much memory of its own.
   */
  bool memory;
  /*
   Report when the frame rate (of `wedjat_frame`) stays low while the installing thread is busy.
   */
  bool slow_frames;
  /*
   Add names from the images' own symbols to frames.
   */
  bool resolve_names;
  /*
   List all images of the process, not only those that frames point into.
   */
  bool all_images;
  /*
   Time without a beat that makes one strike, milliseconds (50).
   */
  uint32_t stall_timeout_ms;
  /*
   Strikes in a row that make a stall (5).
   */
  uint32_t stall_strikes;
  /*
   Time the launch may take, milliseconds (as long as a later turn).
   */
  uint32_t launch_threshold_ms;
  /*
   With `cpu`: over how long, milliseconds (60,000).
   */
  uint32_t cpu_over_ms;
  /*
   With `cpu`: which share of one core (0.8; two cores are 2.0).
   */
  double cpu_share;
  /*
   With `memory`: above so many bytes (by the share alone).
   */
  uint64_t memory_bytes;
  /*
   With `memory`, without `memory_bytes`: above this share of the process's limit (0.8).
   */
  double memory_share;
  /*
   With `slow_frames`: below so many frames a second (30).
   */
  double frames_below;
  /*
   With `slow_frames`: while the thread uses more than this share of a core (0.6).
   */
  double frames_cpu_share;
  /*
   With `slow_frames`: for so long, milliseconds (5,000).
   */
  uint32_t frames_lasting_ms;
  /*
   Most threads in a report besides the first (1024); -1 for none.
   */
  int32_t max_other_threads;
  /*
   Longest time a capture may stop a thread, microseconds (1,000).
   */
  uint32_t stop_budget_us;
  /*
   The real-time signal that stops threads on Linux (the first free one).
   */
  int32_t capture_signal;
  /*
   Most reports in the folder (100).
   */
  uint32_t limit_reports;
  /*
   Most bytes of all reports in the folder together (32 MiB).
   */
  uint64_t limit_bytes;
  /*
   Most stalls with the same heaviest stack that are reported before a cooldown (5).
   */
  uint32_t same_stalls;
  /*
   The first cooldown between reports of equal stalls after that, milliseconds (60,000).
   */
  uint32_t cooldown_ms;
  /*
   Most reports within an hour (60).
   */
  uint32_t reports_per_hour;
  /*
   Most stacks of the watched thread that are taken within an hour (20,000).
   */
  uint32_t captures_per_hour;
  /*
   Most bytes of reports within an hour (32 MiB).
   */
  uint64_t bytes_per_hour;
  /*
   Called with the path of each report of a stall, of load or of a caught panic once it is whole, on a thread of
   the monitor's; may be null.
   */
  wedjat_report_function on_report;
  /*
   Passed to `on_report`.
   */
  void *on_report_data;
  /*
   Called when a stall is certain and when it is over, on the watchdog's thread; may be null. It must not block.
   */
  wedjat_stall_function on_stall;
  /*
   Passed to `on_stall`.
   */
  void *on_stall_data;
  /*
   Use the folder even if others may write in it, which is an error otherwise. They can then remove reports,
   and forge how the last launch ended.
   */
  bool shared_directory;
} wedjat_options;

/*
 The run loop's heartbeat: a plain value, to be copied wherever it is needed.
 */
typedef struct {
  /*
   Number of the install it belongs to. 0 is an error: such a heartbeat does nothing.
   */
  uint32_t install;
} wedjat_heartbeat;

/*
 Adds `beat` to the watched thread's own queue; `data` is the pointer passed with the function.
 */
typedef void (*wedjat_post_function)(void (*beat)(void), void *data);

/*
 Counters of a monitor; times in nanoseconds.
 */
typedef struct {
  /*
   `sizeof(wedjat_stats)`, set by the caller.
   */
  size_t size;
  /*
   Turns of the watched run loop that have ended.
   */
  uint64_t turns;
  /*
   Frames that the app reported by `wedjat_frame`.
   */
  uint64_t shown_frames;
  /*
   Stalls, reported or not, with a stall in progress.
   */
  uint64_t stalls;
  /*
   Time in stalls that are over.
   */
  uint64_t stalled_time;
  /*
   The longest of them.
   */
  uint64_t longest;
  /*
   Whole reports of this launch.
   */
  uint64_t reports;
  /*
   Their bytes.
   */
  uint64_t bytes;
  /*
   Stacks taken of the watched thread.
   */
  uint64_t captures;
  /*
   CPU time of the watchdog's thread.
   */
  uint64_t watchdog_cpu;
  /*
   Events that were not reported, for any reason.
   */
  uint64_t lost;
  /*
   True while a stall lasts.
   */
  bool stalled;
  /*
   Files in the folder with names of reports that are larger than any report: they stay untouched.
   */
  uint64_t oversized;
  /*
   Beats of other threads than the watched one: they are ignored.
   */
  uint64_t stray_beats;
  /*
   Threads that are watched now besides the one that installed.
   */
  uint64_t watched_threads;
  /*
   Threads that are not watched because 256 were at the time.
   */
  uint64_t refused_threads;
} wedjat_stats;

/*
 A timed mark in progress: `wedjat_mark_begin` returns it, `wedjat_mark_end` ends it.
 */
typedef struct {
  /*
   Number of the mark.
   */
  uint64_t ticket;
  /*
   Time at which it began, nanoseconds of the monotonic clock.
   */
  uint64_t start;
} wedjat_mark;

/*
 An earlier launch: its end, and its state when last seen. Times are nanoseconds since the Unix epoch.
 */
typedef struct {
  /*
   `sizeof(wedjat_launch)`, set by the caller.
   */
  size_t size;
  /*
   Identifies it; the same in all its reports.
   */
  uint8_t id[16];
  /*
   The app's version at that time, ended by a zero byte.
   */
  char app_version[120];
  /*
   The process' id then.
   */
  uint64_t pid;
  /*
   Time at which the monitor was installed.
   */
  uint64_t started;
  /*
   Time at which it was last seen at work.
   */
  uint64_t last_seen;
  /*
   Memory of its own then, bytes; 0 if unknown.
   */
  uint64_t footprint;
  /*
   Free memory of the machine then, bytes; 0 if unknown.
   */
  uint64_t device_free;
  /*
   The way it ended.
   */
  wedjat_how_ended how;
  /*
   The exit status; -1 if it did not exit or its status is not known.
   */
  int32_t status;
  /*
   True if the app was in the foreground, by its last `wedjat_set_foreground`.
   */
  bool foreground;
  /*
   True if the app itself ended the launch.
   */
  bool is_clean;
} wedjat_launch;

/*
 Sends the report at `path`, and returns one of `wedjat_answer`; any other number is `WEDJAT_LATER`.
 */
typedef int (*wedjat_send_function)(const char *path, void *data);

/*
 The result of `wedjat_send`.
 */
typedef struct {
  /*
   `sizeof(wedjat_sent)`, set by the caller.
   */
  size_t size;
  /*
   Reports that were accepted and removed.
   */
  uint64_t accepted;
  /*
   Reports that were set aside.
   */
  uint64_t refused;
  /*
   Reports that stay for another time.
   */
  uint64_t deferred;
  /*
   Reports that another sender has in hand.
   */
  uint64_t busy;
} wedjat_sent;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 The reason why the last call of `wedjat_install`, `wedjat_watch_thread` or `wedjat_enter` on the calling thread failed.
 */
wedjat_error wedjat_last_error(void);

/*
 Installs the monitor. Call it early, on the thread to be watched. There is one monitor at a time.

 Returns null on failure, and writes the reason to `error` (at most `error_size` bytes with the zero byte; may be null).

 `options` points at `options->size` bytes, and its strings end with a zero byte. You may free it once this returns.
 The callbacks may be called on other threads, with their data, until `wedjat_uninstall` returns.
 */
wedjat_monitor *wedjat_install(const wedjat_options *options,
                               char *error,
                               size_t error_size);

/*
 The library's version, as "0.1.0".
 */
const char *wedjat_version(void);

/*
 Restores the previous handlers and ends the watch. Remaining heartbeats do nothing. `monitor` is the result of
 `wedjat_install`, which you may not use again; null is ignored.
 */
void wedjat_uninstall(wedjat_monitor *monitor);

/*
 The run loop's heartbeat; that of a null monitor does nothing.
 */
wedjat_heartbeat wedjat_get_heartbeat(const wedjat_monitor *monitor);

/*
 Begins a turn: the watched thread has an event to handle. Never blocks, allocates or fails.
 */
void wedjat_begin(wedjat_heartbeat heartbeat);

/*
 Ends a turn: the watched thread is about to wait for the next event. Never blocks, allocates or fails.
 */
void wedjat_end(wedjat_heartbeat heartbeat);

/*
 Watches the calling thread too, until `wedjat_unwatch_thread` or its end. Reports of its stalls have `name`, cut after 64
 bytes. A stall is `strikes` (0: 5) times `stall_timeout_ms` (0: 50) without a beat; the watch begins with the first beat.

 Returns the thread's heartbeat. On failure its `install` is 0, and `wedjat_last_error` returns the reason. A thread is watched
 once: this fails on the thread that called `wedjat_install`, whose heartbeat `wedjat_get_heartbeat` returns.
 */
wedjat_heartbeat wedjat_watch_thread(const wedjat_monitor *monitor,
                                     const char *name,
                                     uint32_t stall_timeout_ms,
                                     uint32_t strikes);

/*
 Watches the calling thread as `wedjat_watch_thread` does, as a member of the pool `name`. Members have numbers from 1 on, and
 share one limit of reports. A report of a stall has counts of the members that were in a stall and at rest.
 */
wedjat_heartbeat wedjat_enter(const wedjat_monitor *monitor,
                              const char *name,
                              uint32_t stall_timeout_ms,
                              uint32_t strikes);

/*
 Ends the watch that `wedjat_watch_thread` or `wedjat_enter` began on the calling thread; nothing on any other.
 */
void wedjat_unwatch_thread(const wedjat_monitor *monitor);

/*
 Begins a pause of the calling thread, such as for a dialog within a turn. Until `wedjat_resume`, only turns that begin within
 the pause can be stalls. Pauses nest. Does nothing on a thread that is not watched.
 */
void wedjat_pause(void);

/*
 Ends the last pause that `wedjat_pause` began on the calling thread. Turns from before the pause continue.
 */
void wedjat_resume(void);

/*
 Watches a run loop that cannot be observed: `post` adds each `beat` to the watched thread's own queue, which calls
 it. `post` runs on the watchdog's thread, with `data`, until `wedjat_uninstall` returns, and must not block. Returns true if
 it began. The monitor must watch for stalls, and does this once.
 */
bool wedjat_watch_by_ping(const wedjat_monitor *monitor,
                          wedjat_post_function post,
                          void *data);

/*
 Watches the main queue of libdispatch, on Apple platforms and in Swift programs on Linux. Reports have the stack of the thread
 that works it off: the main thread, or after `dispatch_main` one of the system's pool. Returns true if it began, and false
 in a program without libdispatch.
 */
bool wedjat_watch_main_queue(const wedjat_monitor *monitor);

/*
 Writes a report of all threads, now. It has `reason` (may be null). Its path goes to `path` (at most
 `path_size` bytes with the zero byte; may be null). Returns true if it was written; otherwise `path` has the reason.
 */
bool wedjat_record(const wedjat_monitor *monitor,
                   const char *reason,
                   char *path,
                   size_t path_size);

/*
 Captures the stacks of `threads` (of `wedjat_threads`) now and writes them to `room` as text: one frame a line,
 innermost first. A text that does not fit into `size` bytes is cut; a zero byte ends it. Nothing is written if `room`
 is null or `size` is 0. Returns the length of the whole text in bytes, without the zero byte, or -1 on failure.
 */
ptrdiff_t wedjat_stacks(const wedjat_monitor *monitor,
                        int threads,
                        char *room,
                        size_t size);

/*
 Fills `*stats` with the monitor's counters since it was installed. Set `stats->size` before the call. Returns true if
 it was filled.
 */
bool wedjat_get_stats(const wedjat_monitor *monitor,
                      wedjat_stats *stats);

/*
 Counts a frame: call it for each frame shown. Lock-free; from any thread.
 */
void wedjat_frame(const wedjat_monitor *monitor);

/*
 Ends the launch: the app is usable, and may wait for its first event. Only the first call counts.
 */
void wedjat_launched(const wedjat_monitor *monitor);

/*
 Sets whether the app is in the foreground. Until the first call it is assumed to be.
 */
void wedjat_set_foreground(const wedjat_monitor *monitor, bool foreground);

/*
 Writes the signals whose handlers were replaced since `wedjat_install` to `signals`, at most `room` of them. Returns
 their number.
 */
size_t wedjat_replaced_signals(const wedjat_monitor *monitor,
                               int32_t *signals,
                               size_t room);

/*
 Sets a key of the app to a text, for every later report; a null `value` removes the key. There is room for 64 keys:
 removing one makes room for another.
 */
void wedjat_set(const wedjat_monitor *monitor,
                const char *key,
                const char *value);

/*
 Sets a key to an integer, as `wedjat_set` does.
 */
void wedjat_set_integer(const wedjat_monitor *monitor, const char *key, int64_t value);

/*
 Sets a key to a number, as `wedjat_set` does.
 */
void wedjat_set_number(const wedjat_monitor *monitor, const char *key, double value);

/*
 Sets a key to true or false, as `wedjat_set` does.
 */
void wedjat_set_bool(const wedjat_monitor *monitor, const char *key, bool value);

/*
 Removes a key, which makes room for another.
 */
void wedjat_remove(const wedjat_monitor *monitor, const char *key);

/*
 Sets a gauge: a number by name, such as a queue's length.
 */
void wedjat_gauge(const wedjat_monitor *monitor, const char *name, double value);

/*
 Leaves a breadcrumb: one line about what just happened, with the time.
 */
void wedjat_breadcrumb(const wedjat_monitor *monitor, const char *line);

/*
 Begins a timed mark, such as a network call or a page.
 */
wedjat_mark wedjat_mark_begin(const wedjat_monitor *monitor, const char *name);

/*
 Ends a timed mark.
 */
void wedjat_mark_end(const wedjat_monitor *monitor, wedjat_mark mark);

/*
 Fills `*launch` with how the launch before this one ended, even if it left no report. Set `launch->size` before the
 call. Returns false if there was no earlier launch.
 */
bool wedjat_previous_launch(const wedjat_monitor *monitor,
                            wedjat_launch *launch);

/*
 Calls `each` (may be null) with the path of every report that earlier launches left in `directory`, oldest first.
 The folder's limits remove none of them during the call. Returns the number of reports, or -1 if the folder cannot be
 listed.
 */
ptrdiff_t wedjat_reports(const char *directory,
                         wedjat_report_function each,
                         void *data);

/*
 Calls `each` with each report that earlier launches left in `directory`, oldest first, and does with it what the
 answer says. While `each` has a report, no other sender gets it, in this process or in another. `sent` (may be null;
 set `sent->size`) gets the counts. Returns false if the folder cannot be listed, or if a report cannot be removed or
 set aside.

 Not for the watched thread if `each` uses a network.
 */
bool wedjat_send(const char *directory,
                 wedjat_send_function each,
                 void *data,
                 wedjat_sent *sent);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

/*
 Returns options with `size`, `name`, `version` and `directory` set and all others zero, so without a trigger.
 Allocates nothing; the strings are not copied.
 */
static inline wedjat_options wedjat_options_init(const char *name, const char *version, const char *directory) {
  static wedjat_options zero;
  wedjat_options options = zero;
  options.size = sizeof options;
  options.name = name;
  options.version = version;
  options.directory = directory;
  return options;
}

#endif  /* WEDJAT_H */
