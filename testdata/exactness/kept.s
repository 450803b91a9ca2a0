# Assembly without call frame information that keeps its earlier stack pointer: in a register over calls of helpers, as ciphers
# in assembly do; in a slot of a realigned frame, as codecs do. Callers have frame pointers.
        .text
        .globl main
        .type main, @function
main:   .cfi_startproc
        push %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset rbp, -16
        mov %rsp, %rbp
        .cfi_def_cfa_register rbp
        push %rbx
        .cfi_offset rbx, -24
        sub $8, %rsp
        mov $3, %ebx
1:      lea register(%rip), %rdi
        call calls
        lea register_preserved(%rip), %rdi
        call calls
        lea slot(%rip), %rdi
        call calls
        lea word(%rip), %rdi
        call calls
        lea popped(%rip), %rdi
        call calls
        lea leaf(%rip), %rdi
        call calls
        dec %ebx
        jnz 1b
        xor %eax, %eax
        add $8, %rsp
        pop %rbx
        leave
        .cfi_def_cfa rsp, 8
        ret
        .cfi_endproc
        .size main, .-main

        .type calls, @function
calls:  .cfi_startproc
        push %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset rbp, -16
        mov %rsp, %rbp
        .cfi_def_cfa_register rbp
        call *%rdi
        nop
        pop %rbp
        .cfi_def_cfa rsp, 8
        ret
        .cfi_endproc
        .size calls, .-calls

# OpenSSL's aesni-x86_64: r11 lives through the helper, which leaves it alone.
        .p2align 4
register:
        lea (%rsp), %r11
        push %rbp
        sub $160, %rsp
        and $-16, %rsp
        mov $4, %ecx
1:      call helper
        mov %rax, 16(%rsp)
        call helper
        dec %ecx
        jnz 1b
        mov -8(%r11), %rbp
        lea (%r11), %rsp
        ret

# The same with rbp as one of its numbers.
        .p2align 4
register_preserved:
        mov %rsp, %r10
        push %rbx
        push %rbp
        sub $96, %rsp
        and $-64, %rsp
        mov $7, %ebp
1:      call helper
        mov %r10, %rax
        dec %ebp
        jnz 1b
        mov -8(%rax), %rbx
        mov -16(%rax), %rbp
        mov %rax, %rsp
        ret

# OpenSSL's sha256-x86_64.
        .p2align 4
slot:   mov %rsp, %rax
        push %rbx
        push %rbp
        push %r12
        sub $88, %rsp
        and $-64, %rsp
        mov %rax, 64(%rsp)
        mov $5, %ebx
        xor %ebp, %ebp
1:      mov %rbx, 8(%rsp)
        add %rbx, %rbp
        dec %ebx
        jnz 1b
        mov 64(%rsp), %rsi
        mov -24(%rsi), %r12
        mov -16(%rsi), %rbp
        mov -8(%rsi), %rbx
        lea (%rsi), %rsp
        ret

# x86inc: the frame's size is rounded, the stack pointer in the frame's last word.
        .p2align 4
word:   push %rbx
        push %rbp
        mov %rsp, %rax
        sub $136, %rsp
        and $-32, %rsp
        mov %rax, 128(%rsp)
        mov $4, %ebp
1:      call helper
        mov %rax, 32(%rsp)
        dec %ebp
        jnz 1b
        mov 128(%rsp), %rsp
        pop %rbp
        pop %rbx
        ret

# libjpeg-turbo: rbp is the realigned frame, in whose first word the stack pointer is.
        .p2align 4
popped: push %rbp
        mov %rsp, %rax
        sub $8, %rsp
        and $-32, %rsp
        mov %rax, (%rsp)
        mov %rsp, %rbp
        lea -64(%rbp), %rsp
        push %rbx
        mov $4, %ebx
1:      call helper
        dec %ebx
        jnz 1b
        pop %rbx
        mov %rbp, %rsp
        pop %rsp
        pop %rbp
        ret

        .p2align 4
leaf:   mov %rsp, %r9
        sub $72, %rsp
        and $-16, %rsp
        mov $3, %eax
1:      mov %rax, (%rsp)
        dec %eax
        jnz 1b
        mov %r9, %rsp
        ret

        .p2align 4
helper: mov $3, %eax
        add $5, %eax
        ret
        .section .note.GNU-stack, "", @progbits
