"""Bugs of an app in C++."""
import re

EXTENSION = 'cpp'
BUILDS = {
    'g++-O0': ['g++', '-O0', '-g'], 'g++-O2': ['g++', '-O2', '-g'], 'g++-Os': ['g++', '-Os', '-g'],
    'clang++-O0': ['clang++', '-O0', '-g'], 'clang++-O2': ['clang++', '-O2', '-g'],
    'g++-O2-icf': ['g++', '-O2', '-g', '-ffunction-sections', '-fuse-ld=gold', '-Wl,--icf=all'],
    'g++-O1-lines': ['g++', '-O1', '-g1'], 'g++-O2-bare': ['g++', '-O2'],
}
KEPT = re.compile('-O0')
BARE = {'g++-O2-bare'}
NEVER = '__attribute__((noinline)) '
DEMANGLE = None
LINES = ['sink({0});', 'if (total == {0}) sink(1);', 'total = total + {0};']
CLOSURE = 'jobs["more {0}"] = [=](int n) {{\n  sink({0});\n  return n ^ {0};\n}};'
DEATHS = ['few.at(n + many)', '*absent + n', 'n / zero', 'prices.at("x" + std::to_string(n)).size()', 'std::stoi("x" + std::to_string(n))',
          'maybe.value() + n', 'std::get<int>(either) + n', 'absent[n * many]', 'nobody(n)']

HEAD = '''\
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>
#if __has_include(<coroutine>) && __cpp_impl_coroutine
#include <coroutine>
#endif

namespace till {
volatile int total;
__attribute__((noinline)) void sink(int n) { total = total + n; }
__attribute__((noinline)) int number(const char* text) { return std::atoi(text); }
int many = number("300"), zero = number("0");
int* absent = many == 1 ? &many : nullptr;
std::vector<int> few = {1, 2, 3};
std::map<std::string, std::vector<int>> shelves;
std::map<std::string, std::string> prices = {{"tea", "1"}};
std::optional<int> maybe;
std::variant<std::string, int> either = "one";
std::function<int(int)> nobody;
std::map<std::string, std::function<int(int)>> jobs;
std::map<std::string, std::function<int(const std::string&, int)>> hooks;
__attribute__((noinline)) int run_job(const char* name, int n) {
  int got = jobs[name](n);
  sink(got);
  return got + 1;
}
__attribute__((noinline)) int run_hook(const char* name, int n) {
  int got = hooks[name](name, n);
  sink(got);
  return got + 1;
}
struct Priced {
  virtual ~Priced() = default;
  virtual int price(int n) const = 0;
};
'''



def main(calls):
    cases = ''.join(f'    case {way}: got = {call}; break;\n' for way, call in enumerate(calls))
    return f'''\
__attribute__((noinline)) int choose(int way, int n) {{
  int got = 0;
  switch (way) {{
{cases}  }}
  sink(got);
  return got + way;
}}
}}
int main(int, char** arguments) {{ return till::choose(till::number(arguments[1]), till::number("5")); }}
'''


def compile_command(build, source, recorder, prefix, program):
    return [*BUILDS[build], '-std=c++20', '-fno-optimize-sibling-calls', source, recorder, f'{prefix}/lib/libwedjat.a', '-lpthread', '-ldl', '-lm', '-o', program]


def families(new):
    """Functions of the app, and the calls by which they die. `new` makes names, deaths and attributes."""
    def function(name, body, arguments='int n', before='', after=''):
        return f'{before}{new.inline()}int {name}({arguments}){after} {{\n  @between\n  int got = {body};\n  @between\n  sink(got);\n  return got + 1;\n}}'

    def forward(name):
        return f'int {name}(int n);\n'

    def chain():
        one, two = new.verb(), new.verb()
        return [function(one, new.death(), before=forward(one)), function(two, f'{one}(n + 1)', before=forward(one) + forward(two))], [f'{two}(n)', f'{one}(n)']

    def hidden():
        one, two = new.verb(), new.verb()
        return [f'namespace {{\n{function(one, new.death(), before="static ")}\n}}\n{function(two, f"{one}(n)", before=forward(two))}'], [f'{two}(n)']

    def method():
        of, one, two = new.type(), new.verb(), new.verb()
        return [f'struct {of} {{\nint base = 1;\n{function(one, new.death())}\n{function(two, f"{one}(n + base)", after=" const").replace(f"{one}(n", f"const_cast<{of}*>(this)->{one}(n", 1)}\n'
               f'static {function(one + "_all", new.death())}\n}};'], [f'{of}().{one}(n)', f'{of}().{two}(n)', f'{of}::{one}_all(n)']

    def templates():
        of, one, two = new.type(), new.verb(), new.verb()
        return [f'template <class T> struct {of} {{\nT base{{}};\n{function(one, new.death())}\n}};',
               f'template <class T> {function(two, new.death(), "T n")}'], [f'{of}<std::string>().{one}(n)', f'{two}<long>(n)']

    def operators():
        of = new.type()
        return [f'struct {of} {{\nint base;\nexplicit {of}(int n) : base(n) {{}}\n{NEVER}{of}(int n, int) {{\n  base = {new.death()};\n  sink(n);\n}}\n'
               f'{function("operator[]", new.death())}\n{function("operator()", new.death())}\n{function("operator+", new.death())}\n}};'], \
            [f'{of}(1)[n]', f'{of}(1)(n)', f'{of}(1) + n', f'{of}(n, 1).base']

    def closures():
        verb = new.verb()
        jobs = [(f'{verb} {part}', *new.pick([('jobs', 'int n', 'run_job'), ('hooks', 'const std::string&, int n', 'run_hook')]), new.death())
                for part in ('one', 'two')]
        body = ''.join(f'  @closure\n  {table}["{name}"] = [=]({types}) {{\n    @between\n    int got = {death};\n    sink(got);\n    return got + 1;\n  }};\n  @between\n'
                       for name, table, types, _, death in jobs)
        return [f'{NEVER}void {verb}() {{\n{body}}}\n{NEVER}int begin_{verb}(int way, int n) {{\n  {verb}();\n'
               f'  int got = way == 1 ? {jobs[0][3]}("{jobs[0][0]}", n) : {jobs[1][3]}("{jobs[1][0]}", n);\n  sink(got);\n  return got + 1;\n}}'], \
            [f'begin_{verb}(1, n)', f'begin_{verb}(2, n)']

    def closure_in_closure():
        verb = new.verb()
        return [f'{NEVER}int {verb}(int n) {{\n  @closure\n  jobs["{verb}"] = [=](int n) {{\n    @closure\n    jobs["{verb} in"] = [=](int n) {{\n      @between\n'
               f'      int got = {new.death()};\n      sink(got);\n      return got + 1;\n    }};\n    int got = run_job("{verb} in", n);\n    sink(got);\n    return got + 1;\n'
               f'  }};\n  int got = run_job("{verb}", n);\n  sink(got);\n  return got + 1;\n}}'], [f'{verb}(n)']

    def called():
        verb = new.verb()
        return [f'{new.inline()}int {verb}(int n) {{\n  @between\n  auto each = [&](int n) {{\n    @between\n    int got = {new.death()};\n    sink(got);\n    return got + 1;\n  }};\n'
               f'  int got = each(n) + 1;\n  sink(got);\n  return got + 1;\n}}'], [f'{verb}(n)']

    def witnesses():
        one, two, use = new.type(), new.type(), new.verb()
        types = [f'struct {of} : Priced {{\n{function("price", new.death(), after=" const override")}\n}};' for of in (one, two)]
        return ['\n'.join(types) + f'\n{NEVER}int {use}(const Priced& of, int n) {{\n  @between\n  int got = of.price(n);\n  sink(got);\n  return got + 1;\n}}'], \
            [f'{use}({one}(), n)', f'{use}({two}(), n)']

    def equal_bodies():
        death, one, two = new.death(), new.verb(), new.verb()
        return [f'{NEVER}int {name}(int n) {{\n  int got = {death};\n  sink(got);\n  return got + 1;\n}}' for name in (one, two)], [f'{one}(n)', f'{two}(n)']

    def destructors():
        of, verb = new.type(), new.verb()
        return [f'struct {of} {{\nint base;\n{NEVER}~{of}() {{\n  int n = base;\n  sink(absent[n]);\n  sink(n);\n}}\n}};\n'
               f'{NEVER}int {verb}(int n) {{\n  @between\n  {{\n    {of} of{{n}};\n    sink(of.base);\n  }}\n  sink(n);\n  return n;\n}}'], [f'{verb}(n)']

    return [equal_bodies, chain, hidden, method, templates, operators, closures, closure_in_closure, called, witnesses, destructors]
