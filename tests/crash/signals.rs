//! Deaths by a signal, sent or of the process's own making: what the report says of each.

use wedjat::report::{EventKind, Found, WalkEnd};

use crate::child::{calls, functions, in_order, play, stack};
use crate::{Tests, UNMAPPED};

pub fn trials() -> Tests {
    let test = |death: &'static Death| -> (String, Box<dyn Fn() + Send>) {
        (death.role.to_owned(), Box::new(move || death.check()))
    };
    DEATHS.iter().map(test).collect()
}

/// One way to die and what its report must say.
struct Death {
    role: &'static str,
    signal: i32,
    name: &'static str,
    code: &'static str,
    address: Address,
}

enum Address {
    None,
    Is(u64),
    /// That of the instruction at fault.
    Pc,
    Any,
}

const DEATHS: [Death; 14] = [
    Death {
        role: "abort",
        signal: libc::SIGABRT,
        name: "SIGABRT",
        code: "SI_TKILL",
        address: Address::None,
    },
    Death {
        role: "bus",
        signal: libc::SIGBUS,
        name: "SIGBUS",
        code: "BUS_ADRERR",
        address: Address::Any,
    },
    Death {
        role: "divide",
        signal: libc::SIGFPE,
        name: "SIGFPE",
        code: "FPE_INTDIV",
        address: Address::Pc,
    },
    Death {
        role: "illegal",
        signal: libc::SIGILL,
        name: "SIGILL",
        code: "ILL_ILLOPN",
        address: Address::Pc,
    },
    Death {
        role: "null",
        signal: libc::SIGSEGV,
        name: "SIGSEGV",
        code: "SEGV_MAPERR",
        address: Address::Is(0x10),
    },
    Death {
        role: "wild",
        signal: libc::SIGSEGV,
        name: "SIGSEGV",
        code: "SI_KERNEL",
        address: Address::None,
    },
    Death {
        role: "unmapped",
        signal: libc::SIGSEGV,
        name: "SIGSEGV",
        code: "SEGV_MAPERR",
        address: Address::Is(UNMAPPED),
    },
    Death {
        role: "readonly",
        signal: libc::SIGSEGV,
        name: "SIGSEGV",
        code: "SEGV_ACCERR",
        address: Address::Any,
    },
    Death {
        role: "trap",
        signal: libc::SIGTRAP,
        name: "SIGTRAP",
        code: "SI_KERNEL",
        address: Address::None,
    },
    Death {
        role: "syscall",
        signal: libc::SIGSYS,
        name: "SIGSYS",
        code: "SYS_SECCOMP",
        address: Address::Any,
    },
    Death {
        role: "raise_segv",
        signal: libc::SIGSEGV,
        name: "SIGSEGV",
        code: "SI_TKILL",
        address: Address::None,
    },
    Death {
        role: "kill_fpe",
        signal: libc::SIGFPE,
        name: "SIGFPE",
        code: "SI_USER",
        address: Address::None,
    },
    Death {
        role: "raise_trap",
        signal: libc::SIGTRAP,
        name: "SIGTRAP",
        code: "SI_TKILL",
        address: Address::None,
    },
    Death {
        role: "term",
        signal: libc::SIGTERM,
        name: "SIGTERM",
        code: "SI_USER",
        address: Address::None,
    },
];

impl Death {
    fn check(&self) {
        let ended = play(self.role);
        assert_eq!(
            ended.signal(),
            Some(self.signal),
            "{:?} {}",
            ended.status,
            ended.stderr
        );
        let report = ended.report();
        let event = report.event.as_ref().unwrap();
        assert_eq!((event.kind, event.fatal), (EventKind::Crash, true));
        let signal = event.signal.as_ref().unwrap();
        assert_eq!(signal.number, self.signal as u64);
        assert_eq!(signal.name, self.name);
        assert_eq!(signal.code_name.as_deref(), Some(self.code));
        let thread = &report.threads[0];
        assert!(thread.crashed && thread.main);
        assert_eq!(thread.end, Some(WalkEnd::Root), "{:#x?}", thread.frames);
        assert_eq!(thread.frames[0].found, Found::Context);
        let pc = thread
            .registers
            .iter()
            .find(|(name, _)| name == "rip" || name == "pc")
            .unwrap()
            .1;
        match self.address {
            Address::None => assert_eq!(signal.address, None),
            Address::Is(address) => assert_eq!(signal.address, Some(address)),
            Address::Pc => assert_eq!(signal.address, Some(pc)),
            Address::Any => assert!(signal.address.is_some()),
        }
        let functions = functions(&report, 0);
        assert!(
            in_order(&functions, &["culprit", "middle", "outer", "roles", "main"]),
            "{functions:#?}"
        );
        if !["null", "abort", "trap"].contains(&self.role) {
            return;
        }
        // The names of the functions that led there, and lines of this very file.
        let stack = stack(&report, 0);
        assert!(calls(&stack, &["outer", "roles", "main"]), "{stack:#?}");
        let culprit = stack
            .iter()
            .position(|(function, ..)| function.ends_with("culprit"));
        let culprit = culprit.unwrap_or_else(|| panic!("{stack:#?}"));
        assert!(
            calls(&stack[culprit..], &["culprit", "middle", "outer"]),
            "{stack:#?}"
        );
        for (function, file, line) in &stack[culprit..culprit + 3] {
            assert_eq!(file, "main.rs", "{function}");
            let is_culprit = function.ends_with("culprit");
            let text = include_str!("main.rs")
                .lines()
                .nth(*line as usize - 1)
                .unwrap();
            assert!(
                text.contains("// at: ") || is_culprit,
                "{function} line {line}: {text}"
            );
        }
    }
}
