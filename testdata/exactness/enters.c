// Calls a library whose `e_entry` is the start of its code (`entry.c`).
#include <stdio.h>
int third(int n, int (*of)(int));
static int square(int n) { return n * n; }
int main(void) {
  int sum = 0;
  for (int i = 0; i < 40; i++) sum += third(i % 5, square);
  printf("%d\n", sum);
  return 0;
}
