// Where threads begin: no caller, and a frame record of zeroes, as dyld's `start` leaves one. And
// where signal handlers are called from (played/src/system/signal.rs builds the arguments).
.text
.p2align 4
.globl _played_start
_played_start:
#if defined(__arm64__)
  mov x29, #0
  mov x30, #0
  b _start
#else
  xorl %ebp, %ebp
  pushq $0
  jmp _start
#endif

.p2align 4
.globl _thread_start
_thread_start:
#if defined(__arm64__)
  mov x29, #0
  mov x30, #0
  b __pthread_start
#else
  xorl %ebp, %ebp
  movq $0, (%rsp)
  jmp __pthread_start
#endif

.p2align 4
.globl __sigtramp
__sigtramp:
#if defined(__arm64__)
  mov x19, x4
  mov x20, x1
  mov x8, x0
  mov x0, x2
  mov x1, x3
  mov x2, x4
  blr x8
  mov x0, x19
  mov x1, x20
  mov x2, #0
  bl ___sigreturn
  brk #1
#else
  subq $8, %rsp
  movq %r8, %rbx
  movq %rdi, %rax
  movl %edx, %edi
  movq %rcx, %rsi
  movq %r8, %rdx
  andq $-16, %rsp
  callq *%rax
  movq %rbx, %rdi
  movl $0, %esi
  movl $0, %edx
  callq ___sigreturn
  ud2
#endif
.subsections_via_symbols
