"""Bugs of an app in Swift."""
import re

EXTENSION = 'swift'
BUILDS = {
    'Onone': ['-Onone', '-g'], 'O': ['-O', '-g'], 'Osize': ['-Osize', '-g'],
    'O-exclusive': ['-O', '-g', '-enforce-exclusivity=unchecked'],
    'Onone-lines': ['-Onone', '-gline-tables-only'], 'O-lines': ['-O', '-gline-tables-only'],
    'Onone-bare': ['-Onone'], 'O-bare': ['-O'],
}
KEPT = re.compile('Onone')
BARE = {'O-bare'}

HEAD = '''\
import Glibc

var total = 0
@inline(never) func sink(_ n: Int) { total &+= n }
@inline(never) func number(_ text: String) -> Int { Int(text) ?? text.utf8.count }
let many = number("300"), zero = number("0"), absent: Int? = many == 1 ? 1 : nil
let few = [1, 2, 3], prices = ["tea": 1], thing: Any = many == 1 ? "x" : 7
var jobs: [String: (Int) -> Int] = [:]
@inline(never) func runJob(_ name: String, _ n: Int) -> Int {
  let job = jobs[name]
  let got = job == nil ? 0 : job!(n)
  sink(got)
  return got + 1
}
var hooks: [String: (String, Int) -> Int] = [:]
@inline(never) func runHook(_ name: String, _ n: Int) -> Int {
  let hook = hooks[name]
  let got = hook == nil ? 0 : hook!(name, n)
  sink(got)
  return got + 1
}
protocol Priced { func price(of n: Int) -> Int }
'''
NEVER, DEMANGLE = '@inline(never) ', ['swift-demangle', '-simplified']
DEATHS = ['few[n + many]', 'absent! + n', '(Int.max - 1 + many) &+ n', 'n / zero', 'prices["x\\(n)"]!', '(thing as! String).count + n',
          'few[n - many]', 'Int(Int8(many + n))', '(many..<n).count']
LINES = ['sink({0})', 'if total == {0} {{ sink(1) }}', 'total &+= {0}']
CLOSURE = 'jobs["more {0}"] = {{ n in\n  sink({0})\n  return n &+ {0}\n}}'


def main(calls):
    cases = ''.join(f'  case {way}: got = {call}\n' for way, call in enumerate(calls))
    return f'''\
@inline(never) func choose(_ way: Int, _ n: Int) -> Int {{
  let got: Int
  switch way {{
{cases}  default: got = 0
  }}
  sink(got)
  return got + way
}}
print(choose(number(CommandLine.arguments[1]), number("5")))
'''


def compile_command(build, source, recorder, prefix, program):
    return ['swiftc', source, '-module-name', 'till', *BUILDS[build], recorder, f'{prefix}/lib/libwedjat.a', '-lgcc_s', '-lm',
            '-o', program]


def families(new):
    """Functions of the app, and the calls by which they die. `new` makes names, deaths and attributes."""
    def function(name, body, label='_ n: Int', before=''):
        return f'{new.inline()}{before}func {name}({label}) -> Int {{\n  @between\n  let got = {body}\n  @between\n  sink(got)\n  return got + 1\n}}'

    def chain():
        one, two = new.verb(), new.verb()
        return [function(one, new.death()), function(two, f'{one}(n + 1)')], [f'{two}(n)', f'{one}(n)']

    def method():
        kind, of = new.pick(['class', 'struct', 'enum']), new.type()
        one, two = new.verb(), new.verb()
        body = f'{function(one, new.death(), before="static ")}\n{function(two, f"{of}.{one}(n)", before="static ")}' if kind == 'enum' else \
            f'let base = 1\n{function(one, new.death())}\n{function(two, f"{one}(n + base)")}'
        call = of if kind == 'enum' else f'{of}()'
        return [f'{kind} {of} {{\n{body}\n}}'], [f'{call}.{one}(n)', f'{call}.{two}(n)']

    def labels():
        of, verb, one, two = new.type(), new.verb(), new.noun(), new.noun()
        return [f'final class {of} {{\n{function(verb, new.death(), f"{one} n: Int")}\n{function(verb, new.death(), f"{two} n: Int")}\n}}'], \
            [f'{of}().{verb}({one}: n)', f'{of}().{verb}({two}: n)']

    def subscripts():
        of, one, two = new.type(), new.noun(), new.noun()

        def subscript(label):
            return f'subscript({label} n: Int) -> Int {{\n  {new.inline()}get {{\n    @between\n    let got = {new.death()}\n    sink(got)\n' \
                f'    return got + 1\n  }}\n  {new.inline()}set {{\n    @between\n    sink({new.death()} &+ newValue)\n    sink(n)\n  }}\n}}'
        set_it = new.verb()
        setter = f'@inline(never) func {set_it}(_ n: Int) -> Int {{\n  var of = {of}()\n  of[{one}: n] = 3\n  sink(n)\n  return of.base\n}}'
        return [f'struct {of} {{\nvar base = 1\n{subscript(one)}\n{subscript(two)}\n}}', setter], \
            [f'{of}()[{one}: n]', f'{of}()[{two}: n]', f'{set_it}(n)']

    def accessors():
        of, one, two, verb = new.type(), new.noun(), new.noun(), new.verb()
        body = f'var base = number("5")\nvar {one}: Int {{\n  {new.inline()}get {{\n    let n = base\n    @between\n    let got = {new.death()}\n' \
            f'    sink(got)\n    return got + 1\n  }}\n}}\nvar {two} = 0 {{\n  didSet {{\n    let n = {two}\n    sink({new.death()})\n    sink(n)\n  }}\n}}'
        setter = f'@inline(never) func {verb}(_ n: Int) -> Int {{\n  let of = {of}()\n  of.{two} = n\n  sink(n)\n  return of.base\n}}'
        return [f'final class {of} {{\n{body}\n}}', setter], [f'{of}().{one}', f'{verb}(n)']

    def closures():
        verb = new.verb()
        jobs = [(f'{verb} {part}', *new.pick([('jobs', 'n', 'runJob'), ('hooks', '_, n', 'runHook')]), new.death()) for part in ('one', 'two')]
        body = ''.join(f'  @closure\n  {table}["{name}"] = {{ {names} in\n    @between\n    let got = {death}\n    sink(got)\n    return got + 1\n  }}\n  @between\n'
                       for name, table, names, _, death in jobs)
        begin = f'func begin_{verb}(_ way: Int, _ n: Int) -> Int {{\n  {verb}()\n  let got = way == 1 ? {jobs[0][3]}("{jobs[0][0]}", n) : ' \
            f'{jobs[1][3]}("{jobs[1][0]}", n)\n  sink(got)\n  return got + 1\n}}'
        return [f'@inline(never) func {verb}() {{\n{body}}}\n@inline(never) {begin}'], [f'begin_{verb}(1, n)', f'begin_{verb}(2, n)']

    def nested():
        verb, inner = new.verb(), new.verb()
        return [f'{new.inline()}func {verb}(_ n: Int) -> Int {{\n  @between\n  @inline(never) func {inner}(_ n: Int) -> Int {{\n    let got = {new.death()}\n'
               f'    sink(got)\n    return got + 1\n  }}\n  let got = {inner}(n)\n  sink(got)\n  return got + 1\n}}'], [f'{verb}(n)']

    def closure_in_closure():
        verb = new.verb()
        return [f'@inline(never) func {verb}(_ n: Int) -> Int {{\n  @closure\n  jobs["{verb}"] = {{ n in\n    @closure\n    jobs["{verb} in"] = {{ n in\n'
               f'      @between\n      let got = {new.death()}\n      sink(got)\n      return got + 1\n    }}\n    let got = runJob("{verb} in", n)\n    sink(got)\n'
               f'    return got + 1\n  }}\n  let got = runJob("{verb}", n)\n  sink(got)\n  return got + 1\n}}'], [f'{verb}(n)']

    def mapped():
        verb = new.verb()
        return [f'{new.inline()}func {verb}(_ n: Int) -> Int {{\n  @between\n  let all = few.map {{ n in\n    {new.death()}\n  }}\n  sink(all.count)\n  return all.count\n}}'], \
            [f'{verb}(n)']

    def witnesses():
        one, two, use, each = new.type(), new.type(), new.verb(), new.verb()
        types = [f'{kind} {of}: Priced {{\n{function("price", new.death(), "of n: Int")}\n}}' for kind, of in (('struct', one), ('final class', two))]
        return types + [f'@inline(never) func {use}(_ of: any Priced, _ n: Int) -> Int {{\n  @between\n  let got = of.price(of: n)\n  sink(got)\n  return got + 1\n}}',
                       f'{new.inline()}func {each}<T: Priced>(_ of: T, _ n: Int) -> Int {{\n  @between\n  let got = of.price(of: n)\n  sink(got)\n  return got + 1\n}}'], \
            [f'{use}({one}(), n)', f'{use}({two}(), n)', f'{each}({one}(), n)', f'{each}({two}(), n)']

    def generics():
        of, verb = new.type(), new.verb()
        return [f'struct {of}<T> {{\nlet base: T\n{function(verb, new.death())}\n}}'], [f'{of}(base: "a").{verb}(n)']

    def equal_bodies():
        death, one, two = new.death(), new.verb(), new.verb()
        return [f'@inline(never) func {name}(_ n: Int) -> Int {{\n  let got = {death}\n  sink(got)\n  return got + 1\n}}' for name in (one, two)], \
            [f'{one}(n)', f'{two}(n)']

    def thrown():
        verb, outer = new.verb(), new.verb()
        of = new.type()
        return [f'struct {of}: Error {{}}\n@inline(never) func {verb}(_ n: Int) throws -> Int {{\n  if n > zero {{ throw {of}() }}\n  return n\n}}',
               function(outer, f'try! {verb}(n)')], [f'{outer}(n)']

    def operators():
        of = new.type()
        return [f'struct {of} {{\nlet base: Int\n@inline(never) static func + (one: {of}, n: Int) -> Int {{\n  @between\n  let got = {new.death()}\n  sink(got)\n'
               f'  return got + 1\n}}\n@inline(never) init(_ n: Int) {{ base = {new.death()} }}\ninit(raw: Int) {{ base = raw }}\n}}'], \
            [f'{of}(raw: 1) + n', f'{of}(n).base']

    return [equal_bodies, chain, method, labels, subscripts, accessors, closures, nested, closure_in_closure, mapped, witnesses,
                                               generics, thrown, operators]
