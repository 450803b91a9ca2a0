// stdio.h: as much as the unwinder's last words need (the format, without its arguments), and a
// `printf` that holds the stream's lock while it writes.
#include "thread.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static uint32_t lock;
FILE *__stderrp = (FILE *)2, *__stdoutp = (FILE *)1;

size_t fwrite(const void *from, size_t size, size_t n, FILE *f) {
  word_lock(&lock);
  write((int)(uintptr_t)f, from, size * n);
  word_unlock(&lock);
  return n;
}
int fputs(const char *text, FILE *f) { return (int)fwrite(text, 1, strlen(text), f); }
int fputc(int c, FILE *f) { return (int)fwrite(&(char){(char)c}, 1, 1, f); }
int puts(const char *text) { return fputs(text, __stdoutp) + fputs("\n", __stdoutp); }
int fprintf(FILE *f, const char *format, ...) { return fputs(format, f); }
int vfprintf(FILE *f, const char *format, va_list arguments) { (void)arguments; return fputs(format, f); }
int printf(const char *format, ...) { return fputs(format, __stdoutp); }
int snprintf(char *to, size_t size, const char *format, ...) { return (int)strlcpy(to, format, size); }
int fflush(FILE *f) { (void)f; return 0; }
