//! Names of many builds, and what is one of them.

use super::*;
use proptest::prelude::*;

#[test]
fn a_name_is_the_same_whichever_build_it_went_through() {
    for (names, plain) in [
        (
            &[
                "app::freeze.llvm.12345",
                "app::freeze::h0123456789abcdef",
                "app::freeze",
                "app::freeze::<u32>",
            ][..],
            "app::freeze",
        ),
        (
            &[
                "app::run::{closure#3}::go",
                "app::run::{{closure}}::go",
                "app::run::{closure#0}::go",
            ],
            "app::run::{closure}::go",
        ),
        (
            &[
                "turn<(), main::{closure_env#0}>",
                "turn<(), main::{closure_env#1}>",
                "turn",
            ],
            "turn",
        ),
        (
            &["app::turn::<(), app::main::{closure#0}>", "app::turn"],
            "app::turn",
        ),
        (
            &[
                "<app::Shop>::open",
                "app::Shop::open",
                "app::shop::<impl app::Shop>::open",
                "<app::Shop<u8>>::open::<u8>",
            ],
            "app::Shop::open",
        ),
        (
            &[
                "<app::Shop as app::Till>::ring",
                "<app::Shop<T> as app::Till<U>>::ring",
                "app::x::<impl app::Till for app::Shop>::ring",
            ],
            "<app::Shop as app::Till>::ring",
        ),
        (&["app[7f3a]::run", "app::run"], "app::run"),
        (&["{impl#3}::run", "{impl#0}::run"], "{impl}::run"),
        (
            &[
                "decode.isra.0",
                "decode.constprop.1.isra.0",
                "decode.part.0.cold",
                "decode [clone .cold]",
                "decode.__uniq.99.llvm.7",
                "decode",
            ],
            "decode",
        ),
        (
            &[
                "ns::Box<int>::get(int) const",
                "ns::Box<char>::get(char)",
                "void ns::Box<int>::get<int>(int)",
            ],
            "ns::Box::get",
        ),
        (
            &[
                "(anonymous namespace)::work(int)",
                "void (anonymous namespace)::work<int>(int)",
            ],
            "(anonymous namespace)::work",
        ),
        (
            &[
                "app::run()::{lambda(int)#1}::operator()(int) const",
                "app::run()::{lambda(int)#2}::operator()(int) const",
                "app::run()::'lambda0'(int)::operator()(int) const",
            ],
            "app::run::{lambda}::operator()",
        ),
        (
            &[
                "app::run()::$_0::operator()(int) const",
                "app::run()::$_12::operator()() const",
                "auto app::run()::$_1::operator()<int>(int) const",
            ],
            "app::run::{lambda}::operator()",
        ),
        (
            &[
                "(3) suspend resume partial function for till.load() async throws -> ()",
                "(1) await resume partial function for till.load() async throws -> ()",
                "till.load() async throws -> ()",
            ],
            "till.load",
        ),
        (
            &[
                "(1) await resume partial function for closure #2 () async -> () in till.load() -> ()",
            ],
            "closure in till.load",
        ),
        (
            &[
                "kfun:till.Shop#open(kotlin.Int){}kotlin.Unit",
                "kfun:till.Shop#open",
            ],
            "till.Shop#open",
        ),
        (
            &[
                "kfun:till.open$lambda$0#internal",
                "kfun:till.open$lambda$12(kotlin.Int){}",
            ],
            "till.open$lambda",
        ),
        (&["ns::operator<<(std::ostream&, int)"], "ns::operator<<"),
        (
            &["till.load(from: Swift.String) -> ()", "till.load"],
            "till.load",
        ),
        (&["static till.Shop.open() -> ()"], "till.Shop.open"),
        (
            &[
                "static (extension in till):Swift.String.open() -> ()",
                "(extension in till):Swift.String.open",
            ],
            "Swift.String.open",
        ),
        (
            &["till.+ infix(till.A, till.A) -> till.A", "till.+ infix"],
            "till.+",
        ),
        (
            &[
                "protocol witness for till.Open.open() -> Swift.Int in conformance till.Shop : till.Open in till",
                "protocol witness for till.Open.open in conformance till.Shop",
            ],
            "till.Open.open",
        ),
        (
            &[
                "closure #1 () -> () in till.load(x: Swift.Int) -> ()",
                "closure #2 (Swift.Int) -> () in till.load() -> ()",
            ],
            "closure in till.load",
        ),
        (
            &["__34-[A b]_block_invoke_2", "__34-[A b]_block_invoke"],
            "-[A b]_block_invoke",
        ),
        (&["-[Shop open:with:]"], "-[Shop open:with:]"),
        (&["a::h"], "a::h"),
        (&["name[abi:cxx11](int)"], "name"),
    ] {
        for name in names {
            assert_eq!(plain_name(name), plain, "{name}");
        }
    }
}

#[test]
fn names_that_functions_of_any_kind_share_say_nothing() {
    for name in [
        "{async_block#0}",
        "{async_fn#0}",
        "{{closure}}",
        "{closure_env#3}",
        "operator()",
    ] {
        assert!(says_nothing(&plain_name(name)), "{name}");
    }
    for name in [
        "app::run::{closure#0}",
        "closure #1 () -> () in till.load() -> ()",
        "poll",
        "{impl#3}::run",
    ] {
        assert!(!says_nothing(&plain_name(name)), "{name}");
    }
}

proptest! {
    #[test]
    fn no_name_makes_it_panic(name in "(a|é|<|>|\\(|\\)|\\{|\\}|\\[|\\]|::| as | for |impl |operator| #1| in |->| -> |#|'lambda|\\.|0|(anonymous namespace)){0,24}") {
        let plain = plain_name(&name).into_owned();
        prop_assert!(plain.len() <= name.len() + 64);
    }
}
