//! Names of every language, and those that cost other demanglers time and memory.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::*;

#[test]
fn names_in_their_source_form() {
    for (mangled, expected) in [
        ("_ZN3foo3barEv", "foo::bar()"),
        ("__ZN3foo3barEv", "foo::bar()"),
        (
            "_ZN4core3fmt5Write9write_str17h0123456789abcdefE",
            "core::fmt::Write::write_str",
        ),
        ("_RNvC6_123foo3bar", "123foo::bar"),
        // As LLVM prints them.
        ("_RNvC6_123foo3bar.llvm.98", "123foo::bar (.llvm.98)"),
        (
            "_ZN3foo3barEv.constprop.0.cold",
            "foo::bar() (.constprop.0.cold)",
        ),
        (
            "_ZN3foo3bar17h0123456789abcdefE.llvm.5",
            "foo::bar (.llvm.5)",
        ),
        ("work.isra.0", "work.isra.0"),
        ("$s4main3fooyyF", "foo()"),
        ("_TtC4main3App", "App"),
        ("_TF4main3fooFT_T_", "_TF4main3fooFT_T_"),
        ("main", "main"),
        ("-[Foo bar:]", "-[Foo bar:]"),
        ("_ZN_damaged", "_ZN_damaged"),
        ("$s4main", "main"),
        ("$s_damaged", "$s_damaged"),
    ] {
        assert_eq!(demangle(mangled), expected);
    }
}

#[test]
fn manglings_show() {
    use Mangling::{Itanium, Rust, Swift};
    for (name, expected) in [
        // Of C++'s library.
        ("_Rb_tree_iterator", None),
        ("_R", None),
        ("_Reuse", None),
        ("_RNvC6_123foo3bar", Some(Rust)),
        ("_RINvCs1_3foo3barmE", Some(Rust)),
        ("_ZN3foo3barEv", Some(Itanium)),
        ("$s4main3fooyyF", Some(Swift)),
        ("_TtC4main3App", Some(Swift)),
        ("_TtC4main", None),
        ("_TIFFOpen", None),
        ("_Thread", None),
    ] {
        assert_eq!(Mangling::of(name), expected, "{name}");
    }
}

fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// What a name costs this thread.
fn timed(name: &str) -> (String, Duration) {
    let began = cpu_time();
    let text = demangle(name).into_owned();
    (text, cpu_time() - began)
}

/// A second is a thousand times more than they take; the first took 7 s and 2 GB.
#[test]
fn names_that_a_parser_tries_again_and_again_stay_as_they_are() {
    for name in [
        format!("_ZN{}E4fooEv", "SbIw".repeat(24)),
        format!("_ZN{}E4fooEv", "SbIw".repeat(2_000)),
        format!("_Z1fI{}{}ilSi", "LSbIw".repeat(10), "1a".repeat(120)),
        format!("_Z1fI{}ilSi", "LSbIw".repeat(40)),
        format!("_Z1fI{}tlSs", "plLSbIw".repeat(40)),
        format!("_Z1fI{}Tes", "L1aI".repeat(60)),
    ] {
        let (text, time) = timed(&name);
        assert_eq!(text, bounded(&name));
        assert!(time < Duration::from_secs(1), "{time:?}");
    }
}

/// A byte of these costs up to a thousand times one of a name. All together cost what a few do, and other names are not lost.
#[test]
fn names_that_are_none_have_a_share_of_the_time() {
    let deep = format!(
        "_Z1f{}{}{}v",
        "St1aI".repeat(7),
        "i".repeat(100),
        "E".repeat(7)
    );
    assert!(demangle(&deep).starts_with("f(std"), "{}", demangle(&deep));
    let shapes = [
        ("St1aI", 7, ""),
        ("C1I", 9, ""),
        ("UlSt", 5, "1aI"),
        ("St1aI", 7, "Dq"),
    ];
    let mut all = Duration::ZERO;
    for at in 0..400 {
        let (unit, levels, end) = shapes[at % shapes.len()];
        let name = format!(
            "_Z1fI{}{}{}",
            unit.repeat(levels),
            "Cf".repeat(400 + at),
            end
        );
        let (text, time) = timed(&name);
        assert_eq!(text, bounded(&name));
        all += time;
    }
    assert!(all < Duration::from_secs(8), "{all:?}");
    // Shallow names, and other deep ones once as many bytes of names were named.
    assert_eq!(
        demangle("_ZN2ns3payERKSt6vectorIiSaIiEE"),
        "ns::pay(std::vector<int, std::allocator<int> > const&)"
    );
    let filler = format!("_Z1fI{}Evv", "i".repeat(30_000));
    while !demangle(&deep).starts_with("f(std") {
        demangle(&filler);
    }
}

/// A tuple of two of the one before, `levels` times.
fn doubling_rust(levels: usize) -> String {
    let mut name = "_RINvC1a1fTjjE".to_owned();
    let mut last = name.len() - 4;
    for _ in 0..levels {
        let back = format!("B{}_", base_62(last - 2));
        last = name.len();
        name.push_str(&format!("T{back}{back}E"));
    }
    name.push('E');
    name
}

/// Rust's numbers: one less, in digits and letters; `_` alone is 0.
fn base_62(number: usize) -> String {
    let digits = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let mut rest = number - 1;
    let mut text = vec![digits[rest % 62]];
    while rest >= 62 {
        rest /= 62;
        text.push(digits[rest % 62]);
    }
    text.reverse();
    String::from_utf8(text).unwrap()
}

#[test]
fn a_name_that_doubles_is_cut() {
    assert_eq!(demangle(&doubling_rust(0)), "a::f::<(usize, usize)>");
    let (text, _) = timed(&doubling_rust(40));
    assert_eq!(text.len(), NAME_BYTES);
    assert!(
        text.starts_with("a::f::<(usize, usize), ((usize,") && text.ends_with('…'),
        "{text}"
    );
    let mut cpp = "_Z1fSt4pairIiiE".to_owned();
    for last in [
        "S0_", "S1_", "S2_", "S3_", "S4_", "S5_", "S6_", "S7_", "S8_", "S9_", "SA_", "SB_",
    ] {
        cpp.push_str(&format!("S_I{last}{last}E"));
    }
    let (text, _) = timed(&cpp);
    assert!(
        text.starts_with("f(std::pair<int, int>, ") && text.ends_with('…'),
        "{text}"
    );
    assert_eq!(text.len(), NAME_BYTES);
}

#[test]
fn names_of_every_language_end_at_the_bound() {
    for start in [
        "",
        "_ZN",
        "_RNv",
        "$s",
        "_T",
        "_Z1f",
        "-[Foo ",
        "@__swiftmacro_",
        "_TtC",
        "?",
    ] {
        for letter in ["a", "\u{e9}", "I", "9", "S_", "A2048A"] {
            let name = format!("{start}{}", letter.repeat(100_000 / letter.len()));
            let (text, time) = timed(&name);
            assert!(
                text.len() <= NAME_BYTES && text.ends_with('…'),
                "{start} {letter}"
            );
            assert!(bounded(&name).len() <= NAME_BYTES);
            assert!(time < Duration::from_secs(1), "{start} {letter}: {time:?}");
        }
    }
    assert_eq!(bounded(&"a".repeat(NAME_BYTES)), "a".repeat(NAME_BYTES));
    let long = format!("$s4main3fooyy{}F", "Sg".repeat(10));
    assert_eq!(demangle(&long), long);
}

#[test]
fn a_symbol_agrees_with_its_own_plain_name_alone() {
    assert!(agree("_ZN3app6freeze17h0123456789abcdefE", "freeze"));
    assert!(agree("_ZN3foo3barIiEEvT_", "bar<int>"));
    assert!(agree("main", "main"));
    assert!(agree(
        "_ZN3app3run28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE",
        "{closure#0}"
    ));
    assert!(agree(
        "_RINvNtCs1234_7mycrate3foo3barxE.llvm.13921902409383346971",
        "bar<i64>"
    ));
    assert!(agree(
        "_RNCINvNtCs1234_7mycrate3foo3barxE0",
        "{closure#0}<i64>"
    ));
    assert!(!agree("_RINvNtCs1234_7mycrate3foo3barxE", "foo"));
    assert!(agree("$s4main3FooCACycfc", "init"));
    assert!(agree("$s4main3FooC3baryyF", "bar"));
    assert!(agree("$s4main3FooC3baryyF", "bar()"));
    assert!(!agree("$s4main3FooC3baryyF", "ba"));
    assert!(!agree("$s4main3FooC3baryyF", "Foo"));
    assert!(agree("_Z4nameB5cxx11i", "name"));
    assert!(agree("_ZN3BoxixEi", "operator[]"));
    assert!(agree("_ZNK3BoxclEii", "operator()"));
    assert!(agree("_ZltIcEbRK3BoxS2_", "operator<<char>"));
    assert!(agree("_ZNK3BoxcvbEv", "operator bool"));
    assert!(!agree("_ZN3BoxixEi", "operator()"));
    assert!(!agree("_ZlsR3BoxS0_", "operator<"));
    assert!(!agree("_ZN3foo3barEv", "baz"));
    assert!(!agree("_ZN3foo3barEv", "foo"));
}
