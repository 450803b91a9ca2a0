//! Names of many builds, and what is one of them.

use super::*;
use proptest::prelude::*;

/// A name as it is compared, and those that builds have for it.
const NAMES: &str = "
app::freeze
    app::freeze.llvm.12345
    app::freeze::h0123456789abcdef
    app::freeze
    app::freeze::<u32>
app::run::{closure}::go
    app::run::{closure#3}::go
    app::run::{{closure}}::go
    app::run::{closure#0}::go
turn
    turn<(), main::{closure_env#0}>
    turn<(), main::{closure_env#1}>
    turn
app::turn
    app::turn::<(), app::main::{closure#0}>
    app::turn
app::Shop::open
    <app::Shop>::open
    app::Shop::open
    app::shop::<impl app::Shop>::open
    <app::Shop<u8>>::open::<u8>
<app::Shop as app::Till>::ring
    <app::Shop as app::Till>::ring
    <app::Shop<T> as app::Till<U>>::ring
    app::x::<impl app::Till for app::Shop>::ring
<app::Shop as app::Till>::ring
    <app[7f3a]::Shop as app[7f3a]::Till>::ring
<&[app::Coin] as app::Till>::ring
    <&[app::Coin] as app::Till>::ring
    <&[app::Coin<T>] as app::Till<U>>::ring
    app::x::<impl app::Till for &[app::Coin]>::ring
<&(app::Coin, app::Note) as app::Till>::ring
    <&(app::Coin<T>, app::Note) as app::Till>::ring
<&mut app::Coin as app::Till>::ring
    <&mut app::Coin as app::Till>::ring
    app::x::<impl app::Till for &mut app::Coin>::ring
<*const app::Coin as app::Till>::ring
    <*const app::Coin as app::Till>::ring
<*mut app::Coin as app::Till>::ring
    <*mut app::Coin<T> as app::Till>::ring
<dyn app::Coin as app::Till>::ring
    <dyn app::Coin as app::Till>::ring
    <dyn app::Coin+core::marker::Send as app::Till>::ring
    <dyn app::Coin + core::marker::Send as app::Till>::ring
<dyn core::ops::function::Fn as app::Till>::ring
    <dyn core::ops::function::Fn<(u32,)>+Output = u32 as app::Till>::ring
    <dyn core::ops::function::Fn<(u32,), Output = u32> as app::Till>::ring
<fn as app::Till>::ring
    <fn(u32) -> u32 as app::Till>::ring
    <fn() as app::Till>::ring
<(app::Coin, app::Note) as app::Till>::ring
    <(app::Coin,app::Note) as app::Till>::ring
    <(app::Coin, app::Note) as app::Till>::ring
<() as app::Till>::ring
    <() as app::Till>::ring
<[(app::Coin, [fn; _]); _] as app::Till>::ring
    <[(app::Coin, [fn(u32) -> u32; 3]); N] as app::Till>::ring
    <[(app::Coin<T>,[fn(u32) -> u32; N]); 4] as app::Till>::ring
[app::Note]::ring
    <[app::Note]>::ring
app::run
    app[7f3a]::run
    app::run
{impl}::run
    {impl#3}::run
    {impl#0}::run
decode
    decode.isra.0
    decode.constprop.1.isra.0
    decode.part.0.cold
    decode [clone .cold]
    decode.__uniq.99.llvm.7
    decode
ns::Box::get
    ns::Box<int>::get(int) const
    ns::Box<char>::get(char)
    void ns::Box<int>::get<int>(int)
till::make::{unnamed type}::operator()::{lambda}::operator()
    int till::make(int)::{unnamed type}::operator()() const::{lambda()#1}::operator()() const
(anonymous namespace)::work
    (anonymous namespace)::work(int)
    void (anonymous namespace)::work<int>(int)
app::run::{lambda}::operator()
    app::run()::{lambda(int)#1}::operator()(int) const
    app::run()::{lambda(int)#2}::operator()(int) const
    app::run()::'lambda0'(int)::operator()(int) const
app::run::{lambda}::operator()
    app::run(int)::{unnamed type}::operator()(int) const
    app::run(int)::{unnamed type}::_FUN(int)
    app::run(int)::{lambda(int)#2}::_FUN(int)
    app::run()::$_0::__invoke(int)
app::run::{unnamed type}::pay
    app::run(int)::{unnamed type}::pay(int)
app::run::{lambda}::operator()
    app::run()::$_0::operator()(int) const
    app::run()::$_12::operator()() const
    auto app::run()::$_1::operator()<int>(int) const
    app::run()::<lambda(int)>::operator()
    app::run::<lambda>::operator()
core::ops::function::FnOnce::call_once
    core::ops::function::FnOnce::call_once{{vtable.shim}}
    core::ops::function::FnOnce::call_once<u8>
till.Shop#open
    kfun:till.Shop#open(kotlin.Int){}kotlin.Unit
    kfun:till.Shop#open
till.open$lambda
    kfun:till.open$lambda$0#internal
    kfun:till.open$lambda$12(kotlin.Int){}
ns::operator<<
    ns::operator<<(std::ostream&, int)
    std::ostream& ns::operator<< <ns::Coin>(std::ostream&, ns::Coin const&)
    ns::operator<<<ns::Coin>
    ns::operator<<
ns::operator<
    ns::operator<(int, int)
    bool ns::operator< <ns::Coin>(ns::Coin, ns::Coin)
    ns::operator<<ns::Coin>
    ns::operator<
ns::operator>
    ns::operator><ns::Coin>
    bool ns::operator><(anonymous namespace)::Coin>(int)
ns::operator-
    ns::operator-<ns::Coin>
    ns::operator-(int)
ns::operator+
    ns::operator+<ns::Coin>
    ns::Coin ns::operator+<ns::Box<(anonymous namespace)::Note>>(ns::Note, int)
ns::Any::operator+
    ns::Any ns::Any::operator+<int>(int) const
ns::operator<=>
    ns::operator<=><ns::Coin>
    ns::operator<=>(int)
ns::operator->
    ns::operator->() const
    ns::operator-><ns::Coin>
ns::operator->*
    ns::operator->*(int)
    ns::operator->*<ns::Coin>
ns::operator[]
    ns::operator[](int)
    ns::operator[]<int>(int) const
ns::operator()
    ns::operator()<int>(int) const
ns::operator std::vector<int>
    ns::operator std::vector<int>() const
operator new[]
    operator new[](unsigned long)
operator::run
    operator::run
ns::operator+::{lambda}::operator()
    ns::operator+<ns::Coin>(ns::Coin)::{lambda(int)#1}::operator()(int) const
-[A b]_block_invoke
    __34-[A b]_block_invoke_2
    __34-[A b]_block_invoke
-[Shop open:with:]
    -[Shop open:with:]
a::h
    a::h
name
    name[abi:cxx11](int)
";

#[test]
fn a_name_is_the_same_whichever_build_it_went_through() {
    let mut plain = "";
    for line in NAMES.lines() {
        match line.strip_prefix("    ") {
            Some(name) => assert_eq!(plain_name(name), plain, "{name}"),
            None => plain = line,
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
        "_FUN",
    ] {
        assert!(says_nothing(&plain_name(name)), "{name}");
    }
    for name in ["app::run::{closure#0}", "poll", "{impl#3}::run"] {
        assert!(!says_nothing(&plain_name(name)), "{name}");
    }
}

proptest! {
    #[test]
    fn no_name_makes_it_panic(name in "(a|é|<|>|\\(|\\)|\\{|\\}|\\[|\\]|::| as | for |impl |operator|->| -> |#|'lambda|\\.|0|(anonymous namespace)){0,24}") {
        let plain = plain_name(&name).into_owned();
        prop_assert!(plain.len() <= name.len() + 64);
    }
}
