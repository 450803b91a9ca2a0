//! A main queue of libdispatch in a library that is loaded after the program has begun.

use std::path::Path;
use std::time::Duration;

use wedjat::{Monitor, MonitorError, Stall};

use crate::child::{Folder, play};
use crate::library;

/// The queue, of 128 bytes with its owner's id at 56, and a thread for each block.
const DISPATCH: &str = r"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((aligned(8))) unsigned _dispatch_main_q[32];
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
struct block { void *context; void (*work)(void *); };

static void *run(void *argument) {
  struct block *block = argument;
  pthread_mutex_lock(&turn);
  __atomic_store_n(&_dispatch_main_q[14], (unsigned)gettid(), __ATOMIC_RELAXED);
  block->work(block->context);
  __atomic_store_n(&_dispatch_main_q[14], 0, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&turn);
  free(block);
  return NULL;
}

void dispatch_async_f(void *queue, void *context, void (*work)(void *)) {
  pthread_t thread;
  struct block *block = malloc(sizeof *block);
  if (queue != _dispatch_main_q || !block) abort();
  block->context = context;
  block->work = work;
  if (pthread_create(&thread, NULL, run, block)) abort();
  pthread_detach(thread);
}
";

pub const TESTS: [(&str, fn()); 1] = [(
    "a_main_queue_in_a_library_loaded_later_is_watched",
    loaded_later,
)];

fn loaded_later() {
    play("queue_loaded_later").succeeded();
}

pub fn is_played(role: &str, folder: &Path) -> bool {
    if role != "queue_loaded_later" {
        return false;
    }
    let monitor = Monitor::builder("queue test", "1").directory(folder);
    let monitor = monitor.stall(Stall::default()).install().unwrap();
    let refused = monitor.watch_main_queue();
    assert!(
        matches!(refused, Err(MonitorError::NoMainQueue)),
        "{refused:?}"
    );
    let of_library = Folder::new("dispatch");
    let object = library::made(&of_library.0, "dispatch", DISPATCH, &["-pthread"]);
    let path = std::ffi::CString::new(object.to_str().unwrap()).unwrap();
    // SAFETY: the library was just made, and does nothing as it is loaded.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    assert!(!handle.is_null());
    let turns = monitor.stats().turns;
    monitor.watch_main_queue().unwrap();
    // The first ping may have been answered already. The queue is at rest then, and is pinged no more.
    while monitor.stats().turns == turns {
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}
