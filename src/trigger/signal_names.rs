//! Names of signals and their codes, on Linux and Darwin, as signal(7) and sigaction(2) list them.

/// `SIGSEGV` for 11; `SIG?` for one that is not among those we report.
pub fn signal_name(number: i32) -> &'static str {
    match number {
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGILL => "SIGILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGSYS => "SIGSYS",
        libc::SIGTERM => "SIGTERM",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGKILL => "SIGKILL",
        _ => "SIG?",
    }
}

/// The name of `si_code` for this signal, as `SEGV_MAPERR`.
///
/// Numbers: `asm-generic/siginfo.h` of Linux, `sys/signal.h` of Darwin for the Apple platforms.
pub fn code_name(signal: i32, code: i32) -> Option<&'static str> {
    let general = match code {
        // A general protection fault of x86_64.
        #[cfg(target_vendor = "apple")]
        0 if signal == libc::SIGSEGV => Some("SEGV_NOOP"),
        0 => Some("SI_USER"),
        -1 => Some("SI_QUEUE"),
        -2 => Some("SI_TIMER"),
        -3 => Some("SI_MESGQ"),
        -4 => Some("SI_ASYNCIO"),
        -5 => Some("SI_SIGIO"),
        -6 => Some("SI_TKILL"),
        #[cfg(target_os = "linux")]
        0x80 => Some("SI_KERNEL"),
        #[cfg(target_vendor = "apple")]
        0x10001 => Some("SI_USER"),
        #[cfg(target_vendor = "apple")]
        0x10002 => Some("SI_QUEUE"),
        _ => None,
    };
    if general.is_some() {
        return general;
    }
    let names: &[&str] = match signal {
        libc::SIGSEGV => &[
            "SEGV_MAPERR",
            "SEGV_ACCERR",
            "SEGV_BNDERR",
            "SEGV_PKUERR",
            "SEGV_ACCADI",
            "SEGV_ADIDERR",
            "SEGV_ADIPERR",
            "SEGV_MTEAERR",
            "SEGV_MTESERR",
            "SEGV_CPERR",
        ],
        libc::SIGBUS => &[
            "BUS_ADRALN",
            "BUS_ADRERR",
            "BUS_OBJERR",
            "BUS_MCEERR_AR",
            "BUS_MCEERR_AO",
        ],
        libc::SIGFPE => &[
            "FPE_INTDIV",
            "FPE_INTOVF",
            "FPE_FLTDIV",
            "FPE_FLTOVF",
            "FPE_FLTUND",
            "FPE_FLTRES",
            "FPE_FLTINV",
            "FPE_FLTSUB",
        ],
        libc::SIGILL => &[
            "ILL_ILLOPC",
            "ILL_ILLOPN",
            "ILL_ILLADR",
            "ILL_ILLTRP",
            "ILL_PRVOPC",
            "ILL_PRVREG",
            "ILL_COPROC",
            "ILL_BADSTK",
        ],
        libc::SIGTRAP => &[
            "TRAP_BRKPT",
            "TRAP_TRACE",
            "TRAP_BRANCH",
            "TRAP_HWBKPT",
            "TRAP_UNK",
        ],
        libc::SIGSYS => &["SYS_SECCOMP", "SYS_USER_DISPATCH"],
        _ => &[],
    };
    names
        .get(usize::try_from(code).ok()?.checked_sub(1)?)
        .copied()
}
