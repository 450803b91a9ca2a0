// A library that the app in C loads while it is being watched.
#include <mach/mach_time.h>
#include <stdint.h>

static volatile uint64_t laid_out;

__attribute__((noinline)) static void lay_out_one(uint64_t end) {
  while (mach_absolute_time() < end)
    laid_out++;
  __asm__ volatile("" ::: "memory");
}

void lay_out_pages(uint64_t milliseconds) {
  lay_out_one(mach_absolute_time() + milliseconds * 1000000); // @pages
  __asm__ volatile("" ::: "memory");
}
