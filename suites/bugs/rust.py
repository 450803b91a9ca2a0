"""Bugs of an app in Rust."""
import os
import pathlib
import re

root = pathlib.Path(__file__).resolve().parents[2]
EXTENSION = 'rs'
BUILDS = {
    'debug': ['-Cdebuginfo=2'], 'release': ['-Copt-level=3', '-Cdebuginfo=2'], 'small': ['-Copt-level=s', '-Cdebuginfo=2'],
    'v0': ['-Copt-level=2', '-Cdebuginfo=2', '-Csymbol-mangling-version=v0'],
    'limited': ['-Copt-level=3', '-Cdebuginfo=limited', '-Ccodegen-units=1'],
    'lines': ['-Copt-level=2', '-Cdebuginfo=line-tables-only'], 'debug-bare': ['-Cdebuginfo=0'],
    'bare': ['-Copt-level=3', '-Cdebuginfo=0'],
}
KEPT = re.compile('debug')
BARE = {'bare'}
NEVER = '#[inline(never)] '
DEMANGLE = None
LINES = ['sink({0});', 'if total() == {0} {{ sink(1); }}', 'sink(total() ^ {0});']
CLOSURE = 'job("more {0}", |n| {{\n  sink({0});\n  n ^ {0}\n}});'
DEATHS = ['FEW[(n + many()) as usize]', 'absent().unwrap() + n', 'n / zero()', '(i32::MAX - 1 + many()) + n', '"x".parse::<i32>().unwrap() + n',
          'absent().expect("nobody is here") + n', 'i32::from(i8::try_from(n + many()).unwrap())', 'unsafe { *(zero() as usize as *const i32).wrapping_add(8) } + n',
          '"tea"[(n as usize)..].len() as i32', 'borrowed()']

HEAD = '''\
#![allow(unused, non_camel_case_types)]
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hint::black_box;

thread_local! {
    static TOTAL: Cell<i32> = Cell::new(0);
    static BOX: RefCell<i32> = RefCell::new(0);
    static JOBS: RefCell<HashMap<String, &'static dyn Fn(i32) -> i32>> = RefCell::default();
}
static FEW: [i32; 3] = [1, 2, 3];
#[inline(never)]
fn sink(n: i32) { TOTAL.set(TOTAL.get().wrapping_add(n)) }
#[inline(never)]
fn total() -> i32 { TOTAL.get() }
#[inline(never)] fn many() -> i32 { black_box(300) }
#[inline(never)] fn zero() -> i32 { black_box(0) }
#[inline(never)] fn absent() -> Option<i32> { black_box(None) }
fn borrowed() -> i32 { BOX.with(|of| { let one = of.borrow_mut(); *of.borrow_mut() + *one }) }
fn job(name: &str, of: impl Fn(i32) -> i32 + 'static) {
    JOBS.with(|jobs| jobs.borrow_mut().insert(name.to_owned(), Box::leak(Box::new(of))));
}
#[inline(never)]
fn run_job(name: &str, n: i32) -> i32 {
    let job = JOBS.with(|jobs| jobs.borrow()[name]);
    let got = job(n);
    sink(got);
    got + 1
}
trait Priced {
    fn price(&self, n: i32) -> i32;
}
#[inline(never)]
fn block_on<T>(of: impl std::future::Future<Output = T>) -> T {
    let mut of = std::pin::pin!(of);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(got) = of.as_mut().poll(&mut context) {
            return got;
        }
    }
}
struct Later(bool);
impl std::future::Future for Later {
    type Output = ();
    fn poll(mut self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>) -> std::task::Poll<()> {
        self.0 = !self.0;
        if self.0 { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    }
}
'''


def main(calls):
    cases = ''.join(f'        {way} => {call},\n' for way, call in enumerate(calls))
    return f'''\
#[inline(never)]
fn choose(way: i32, n: i32) -> i32 {{
    let got = match way {{
{cases}        _ => 0,
    }};
    sink(got);
    got + way
}}
fn main() {{
    let folder = std::env::var("REPORTS").unwrap();
    let monitor = wedjat::Monitor::builder("till", "1").directory(folder).crash(wedjat::Crash::default()).install().unwrap();
    let way = std::env::args().nth(1).unwrap().parse().unwrap();
    println!("{{}}", choose(way, black_box(5)));
    drop(monitor);
}}
'''


def compile_command(build, source, recorder, prefix, program):
    built = pathlib.Path(os.environ.get('CARGO_TARGET_DIR', root / 'target')) / 'debug'
    return ['rustc', '--edition=2024', '--crate-name=till', '-Awarnings', '-Coverflow-checks=on', *BUILDS[build], '--extern', f'wedjat={built}/libwedjat.rlib',
            '-L', f'dependency={built}/deps', source, '-o', program]


def families(new):
    """Functions of the app, and the calls by which they die. `new` makes names, deaths and attributes."""
    def function(name, body, arguments='n: i32', before=''):
        return f'{new.inline()}{before}fn {name}({arguments}) -> i32 {{\n  @between\n  let got = {body};\n  @between\n  sink(got);\n  got + 1\n}}'

    def chain():
        one, two, module = new.verb(), new.verb(), new.noun().lower()
        return [f'mod {module} {{\nuse super::*;\n{function(one, new.death(), before="pub ")}\n{function(two, f"{one}(n + 1)", before="pub ")}\n}}'], \
            [f'{module}::{two}(n)', f'{module}::{one}(n)']

    def method():
        of, one, two = new.type(), new.verb(), new.verb()
        return [f'struct {of}(i32);\nimpl {of} {{\n{function(one, new.death(), "&self, n: i32")}\n{function(two, f"self.{one}(n + self.0)", "&self, n: i32")}\n'
               f'{function(one + "_all", new.death())}\n}}'], [f'{of}(1).{one}(n)', f'{of}(1).{two}(n)', f'{of}::{one}_all(n)']

    def generics():
        of, one, two = new.type(), new.verb(), new.verb()
        return [f'struct {of}<T>(T);\nimpl<T: Clone> {of}<T> {{\n{function(one, new.death(), "&self, n: i32")}\n}}',
               function(two + '<T: Into<i64>>', new.death(), 'of: T, n: i32')], [f'{of}("a").{one}(n)', f'{two}(7u8, n)']

    def indexes():
        of = new.type()
        return [f'struct {of}(i32);\nimpl std::ops::Index<i32> for {of} {{\ntype Output = i32;\n{new.inline()}fn index(&self, n: i32) -> &i32 {{\n  @between\n'
               f'  sink({new.death()});\n  &self.0\n}}\n}}\nimpl std::ops::Add<i32> for {of} {{\ntype Output = i32;\n{function("add", new.death(), "self, n: i32")}\n}}\n'
               f'impl Drop for {of} {{\n{NEVER}fn drop(&mut self) {{\n  let n = self.0;\n  if n > 3 {{ sink({new.death()}); }}\n  sink(n);\n}}\n}}'], \
            [f'{of}(1)[n]', f'{of}(1) + n', f'{{ drop({of}(n)); n }}']

    def closures():
        verb = new.verb()
        body = ''.join(f'  @closure\n  job("{verb} {part}", |n| {{\n    @between\n    let got = {new.death()};\n    sink(got);\n    got + 1\n  }});\n  @between\n'
                       for part in ('one', 'two'))
        return [f'#[inline(never)]\nfn {verb}() {{\n{body}}}\n#[inline(never)]\nfn begin_{verb}(name: &str, n: i32) -> i32 {{\n  {verb}();\n  let got = run_job(name, n);\n'
               f'  sink(got);\n  got + 1\n}}'], [f'begin_{verb}("{verb} {part}", n)' for part in ('one', 'two')]

    def closure_in_closure():
        verb = new.verb()
        return [f'#[inline(never)]\nfn {verb}(n: i32) -> i32 {{\n  @closure\n  job("{verb}", |n| {{\n    @closure\n    job("{verb} in", |n| {{\n      @between\n'
               f'      let got = {new.death()};\n      sink(got);\n      got + 1\n    }});\n    let got = run_job("{verb} in", n);\n    sink(got);\n    got + 1\n  }});\n'
               f'  let got = run_job("{verb}", n);\n  sink(got);\n  got + 1\n}}'], [f'{verb}(n)']

    def mapped():
        verb = new.verb()
        return [f'{new.inline()}fn {verb}(n: i32) -> i32 {{\n  @between\n  let got: i32 = FEW.iter().map(|by| {{\n    @between\n    let got = {new.death()};\n    sink(got);\n'
               f'    got + by\n  }}).sum();\n  sink(got);\n  got\n}}'], [f'{verb}(n)']

    def witnesses():
        one, two, use, each = new.type(), new.type(), new.verb(), new.verb()
        types = [f'struct {of};\nimpl Priced for {of} {{\n{function("price", new.death(), "&self, n: i32")}\n}}' for of in (one, two)]
        return types + [f'#[inline(never)]\nfn {use}(of: &dyn Priced, n: i32) -> i32 {{\n  @between\n  let got = of.price(n);\n  sink(got);\n  got + 1\n}}',
                       function(f'{each}<T: Priced>', 'of.price(n)', 'of: T, n: i32')], \
            [f'{use}(&{one}, n)', f'{use}(&{two}, n)', f'{each}({one}, n)', f'{each}({two}, n)']

    def futures():
        one, two = new.verb(), new.verb()
        return [f'{new.inline()}async fn {one}(n: i32) -> i32 {{\n  @between\n  Later(false).await;\n  let got = {new.death()};\n  sink(got);\n  got + 1\n}}\n'
               f'async fn {two}(n: i32) -> i32 {{\n  @between\n  let got = {one}(n).await;\n  sink(got);\n  got + 1\n}}'], [f'block_on({two}(n))', f'block_on({one}(n))']

    def equal_bodies():
        death, one, two = new.death(), new.verb(), new.verb()
        return [f'{NEVER}fn {name}(n: i32) -> i32 {{\n  let got = {death};\n  sink(got);\n  got + 1\n}}' for name in (one, two)], [f'{one}(n)', f'{two}(n)']

    return [equal_bodies, chain, method, generics, indexes, closures, closure_in_closure, mapped, witnesses, futures]
