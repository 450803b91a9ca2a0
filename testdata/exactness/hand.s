# Hand-written: with call frame information (a frame addressed from another register, saved
# registers, a realigned stack), and without any.
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
        mov $5, %ebx
1:      call realigned
        call by_rbx
        call bare
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

        .type realigned, @function
realigned:
        .cfi_startproc
        lea 8(%rsp), %r10
        .cfi_def_cfa r10, 0
        and $-64, %rsp
        push -8(%r10)
        push %rbp
        mov %rsp, %rbp
        .cfi_escape 0x10, 0x6, 0x2, 0x76, 0          # rbp is at rbp + 0
        push %r10
        .cfi_escape 0xf, 0x3, 0x76, 0x78, 0x6        # CFA = *(rbp - 8)
        sub $56, %rsp
        call leaf
        add $56, %rsp
        pop %r10
        .cfi_def_cfa r10, 0
        pop %rbp
        .cfi_same_value rbp
        lea -8(%r10), %rsp
        .cfi_def_cfa rsp, 8
        ret
        .cfi_endproc
        .size realigned, .-realigned

        .type by_rbx, @function
by_rbx: .cfi_startproc
        push %rbx
        .cfi_def_cfa_offset 16
        .cfi_offset rbx, -16
        mov %rsp, %rbx
        .cfi_def_cfa_register rbx
        sub $40, %rsp
        and $-32, %rsp
        call pushes
        mov %rbx, %rsp
        .cfi_def_cfa_register rsp
        pop %rbx
        .cfi_restore rbx
        .cfi_def_cfa_offset 8
        ret
        .cfi_endproc
        .size by_rbx, .-by_rbx

        .type pushes, @function
pushes: .cfi_startproc
        push %rbp
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset rbp, 0
        push %r12
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset r12, 0
        mov $77, %ebp
        sub $8, %rsp
        .cfi_adjust_cfa_offset 8
        call leaf
        add $8, %rsp
        .cfi_adjust_cfa_offset -8
        pop %r12
        .cfi_adjust_cfa_offset -8
        .cfi_restore r12
        pop %rbp
        .cfi_adjust_cfa_offset -8
        .cfi_restore rbp
        ret
        .cfi_endproc
        .size pushes, .-pushes

        .type leaf, @function
leaf:   .cfi_startproc
        mov $3, %eax
        add $4, %eax
        ret
        .cfi_endproc
        .size leaf, .-leaf

# No information at all: only a frame pointer, as older assembly has it.
        .type bare, @function
bare:   push %rbp
        mov %rsp, %rbp
        sub $16, %rsp
        call leaf
        leave
        ret
        .size bare, .-bare
        .section .note.GNU-stack, "", @progbits
