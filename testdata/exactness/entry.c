// A library as older linkers made them: its `e_entry` is the start of `.text`, and no unwind information covers the code
// there.
__attribute__((noinline)) int first(int n) { return n * 3 + 1; }
__attribute__((noinline)) int second(int n) {
  volatile char own[200];
  own[n & 127] = (char)n;
  return first(n) + own[n & 127];
}
__attribute__((noinline)) int third(int n, int (*of)(int)) {
  int sum = 0;
  for (int i = 0; i < n; i++) sum += of(i) + second(i);
  return sum;
}
