// string.h, strings.h
#include <stdint.h>
#include <string.h>
#include <strings.h>

void *memcpy(void *to, const void *from, size_t n) {
  char *t = to;
  const char *f = from;
  for (; n >= 8; n -= 8, t += 8, f += 8)
    __builtin_memcpy_inline(t, f, 8);
  while (n--)
    *t++ = *f++;
  return to;
}
void *memmove(void *to, const void *from, size_t n) {
  char *t = to;
  const char *f = from;
  if (t <= f || t >= f + n)
    return memcpy(to, from, n);
  while (n--)
    t[n] = f[n];
  return to;
}
void *memset(void *to, int c, size_t n) {
  char *t = to;
  uint64_t word = 0x0101010101010101ull * (unsigned char)c;
  for (; n >= 8; n -= 8, t += 8)
    __builtin_memcpy_inline(t, &word, 8);
  while (n--)
    *(volatile char *)t++ = (char)c;
  return to;
}
void bzero(void *to, size_t n) { memset(to, 0, n); }
void __bzero(void *to, size_t n) { memset(to, 0, n); }
int memcmp(const void *a, const void *b, size_t n) {
  const unsigned char *x = a, *y = b;
  for (; n; n--, x++, y++)
    if (*x != *y)
      return *x - *y;
  return 0;
}
int bcmp(const void *a, const void *b, size_t n) { return memcmp(a, b, n); }
void *memchr(const void *in, int c, size_t n) {
  for (const unsigned char *p = in; n; n--, p++)
    if (*p == (unsigned char)c)
      return (void *)p;
  return NULL;
}
size_t strlen(const char *s) {
  size_t n = 0;
  while (((volatile const char *)s)[n])
    n++;
  return n;
}
size_t strnlen(const char *s, size_t most) {
  size_t n = 0;
  while (n < most && s[n])
    n++;
  return n;
}
int strcmp(const char *a, const char *b) {
  while (*a && *a == *b)
    a++, b++;
  return (unsigned char)*a - (unsigned char)*b;
}
int strncmp(const char *a, const char *b, size_t n) {
  for (; n; n--, a++, b++)
    if (*a != *b || !*a)
      return (unsigned char)*a - (unsigned char)*b;
  return 0;
}
char *strchr(const char *s, int c) {
  for (;; s++) {
    if (*s == (char)c)
      return (char *)s;
    if (!*s)
      return NULL;
  }
}
char *strrchr(const char *s, int c) {
  const char *last = NULL;
  for (;; s++) {
    if (*s == (char)c)
      last = s;
    if (!*s)
      return (char *)last;
  }
}
size_t strlcpy(char *to, const char *from, size_t size) {
  size_t n = strlen(from);
  if (size) {
    size_t kept = n < size ? n : size - 1;
    memcpy(to, from, kept);
    to[kept] = 0;
  }
  return n;
}
char *strcpy(char *to, const char *from) {
  memcpy(to, from, strlen(from) + 1);
  return to;
}
int strerror_r(int number, char *to, size_t size) {
  char text[] = "error 000";
  for (int at = 8; at > 5; at--, number /= 10)
    text[at] = (char)('0' + number % 10);
  strlcpy(to, text, size);
  return 0;
}

size_t strlcat(char *to, const char *from, size_t size) {
  size_t length = strlen(to);
  return length < size ? length + strlcpy(to + length, from, size - length) : length + strlen(from);
}
