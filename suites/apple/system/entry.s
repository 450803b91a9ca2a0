// Where threads begin: no caller, and a frame record of zeroes, as dyld's `start` leaves one. And
// where signal handlers are called from (emulator/src/system/signal.rs builds the arguments).
.text
.p2align 4
.globl _emulator_start
_emulator_start:
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

// setjmp.h: registers that calls preserve, stack pointer, return address. Masks of signals are left
// alone.
.p2align 4
.globl _setjmp
_setjmp:
#if defined(__arm64__)
  stp x19, x20, [x0]
  stp x21, x22, [x0, #16]
  stp x23, x24, [x0, #32]
  stp x25, x26, [x0, #48]
  stp x27, x28, [x0, #64]
  stp x29, x30, [x0, #80]
  mov x1, sp
  str x1, [x0, #96]
  stp d8, d9, [x0, #104]
  stp d10, d11, [x0, #120]
  stp d12, d13, [x0, #136]
  stp d14, d15, [x0, #152]
  mov w0, #0
  ret
#else
  movq %rbx, (%rdi)
  movq %rbp, 8(%rdi)
  movq %r12, 16(%rdi)
  movq %r13, 24(%rdi)
  movq %r14, 32(%rdi)
  movq %r15, 40(%rdi)
  leaq 8(%rsp), %rax
  movq %rax, 48(%rdi)
  movq (%rsp), %rax
  movq %rax, 56(%rdi)
  xorl %eax, %eax
  retq
#endif

.p2align 4
.globl _longjmp
_longjmp:
#if defined(__arm64__)
  ldp x19, x20, [x0]
  ldp x21, x22, [x0, #16]
  ldp x23, x24, [x0, #32]
  ldp x25, x26, [x0, #48]
  ldp x27, x28, [x0, #64]
  ldp x29, x30, [x0, #80]
  ldr x2, [x0, #96]
  ldp d8, d9, [x0, #104]
  ldp d10, d11, [x0, #120]
  ldp d12, d13, [x0, #136]
  ldp d14, d15, [x0, #152]
  mov sp, x2
  cmp w1, #0
  csinc w0, w1, wzr, ne
  ret
#else
  movl %esi, %eax
  testl %eax, %eax
  jnz 1f
  incl %eax
1:
  movq (%rdi), %rbx
  movq 8(%rdi), %rbp
  movq 16(%rdi), %r12
  movq 24(%rdi), %r13
  movq 32(%rdi), %r14
  movq 40(%rdi), %r15
  movq 48(%rdi), %rsp
  jmpq *56(%rdi)
#endif
.subsections_via_symbols
