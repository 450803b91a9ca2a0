// Ways to die, each in a function of its own, and bugs on several ways through an app. `till WAY` dies.
import Glibc

struct Spilled: Error {}


protocol Priced {
  func price(of amount: Int) -> Int
}

final class Purse: Priced {
  var coins: [Int] = []

  @inline(never) func price(of amount: Int) -> Int { coins[amount] }
  @inline(never) fileprivate func secret(_ at: Int) -> Int { coins[at] * 3 }
  @inline(never) func take(_ at: Int) -> Int { coins.remove(at: at) }
  @inline(never) func take(from at: Int) -> Int { coins.remove(at: at) + 1 }
  subscript(row row: Int) -> Int {
    @inline(never) get { coins[row] + 7 }
  }
  init(_ coins: [Int]) { self.coins = coins }
}

@inline(never) func number(_ text: String) -> Int { Int(text) ?? text.utf8.count }

let many = number("300"), zero = number("0"), none: Int? = many == 1 ? 1 : nil

@inline(never) func dieBounds(_ of: [Int]) -> Int { of[many] }
@inline(never) func dieNil(_ of: Int?) -> Int { of! }
@inline(never) func dieOverflow(_ by: Int) -> Int { Int.max - 1 + by }
@inline(never) func dieDivision(_ by: Int) -> Int { many / by }
@inline(never) func dieRemainder(_ by: Int) -> Int { many % by }
@inline(never) func dieFatal(_ why: String) -> Never { fatalError(why) }
@inline(never) func diePrecondition(_ at: Int) { precondition(at == 0, "not at the start") }
@inline(never) func dieFailure(_ at: Int) -> Int {
  if at > 1 { preconditionFailure("no such row") }
  return at
}
@inline(never) func spill(_ at: Int) throws -> Int {
  if at > 1 { throw Spilled() }
  return at
}
@inline(never) func dieTry(_ at: Int) -> Int { try! spill(at) }
@inline(never) func dieCast(_ of: Any) -> String { of as! String }
@inline(never) func dieLookup(_ of: [String: Int]) -> Int { of["tea"]! }
@inline(never) func dieRange(_ end: Int) -> Int { (many..<end).count }
@inline(never) func dieConversion(_ of: Int) -> Int8 { Int8(of) }
@inline(never) func dieUnsigned(_ of: Int) -> UInt { UInt(-of) }
@inline(never) func dieEmpty(_ of: [Int]) -> Int {
  var all = of
  return all.removeLast()
}
@inline(never) func diePointer(_ at: Int) { UnsafeMutablePointer<Int>(bitPattern: at * 8 + 8)!.pointee = 1 }
@inline(never) func dieAbort(_ at: Int) -> Int {
  if at > 1 { abort() }
  return at
}
@inline(never) func dieClosure(_ of: [Int]) -> [Int] { of.map { $0 + of[many] } }
@inline(never) func dieGeneric<T: Collection>(_ of: T) -> T.Element where T.Index == Int { of[many] }
@inline(never) func dieText(_ of: String) -> Character { of[of.index(of.endIndex, offsetBy: many)] }
@inline(never) func dieSorted(_ of: [Int]) -> [Int] { of.sorted { [$0][many] < $1 } }

let few = [1, 2, 3]
let purse = Purse(few)
var result: Any = 0

// The bugs: several ways through one function, and functions whose names differ by labels alone.
@inline(never) func checkout(_ way: Int) -> Int {
  let got: Int
  switch way {
  case 1: got = purse.take(many)
  case 2: got = purse.take(from: many)
  case 3: got = purse.secret(many)
  case 4: got = (purse as Priced).price(of: many)
  case 5: got = purse[row: many]
  case 6: got = few.map { $0 + few[many] }.count
  case 7: got = dieNil(none)
  default: got = refund(many)
  }
  // No call is the last thing that it does: a frame of a tail call is gone.
  return got + way
}
@inline(never) func refund(_ amount: Int) -> Int { dieGeneric(few) + amount }

let ways: [String: () -> Any] = [
  "dieBounds": { dieBounds(few) }, "dieNil": { dieNil(none) }, "dieOverflow": { dieOverflow(many) },
  "dieDivision": { dieDivision(zero) }, "dieRemainder": { dieRemainder(zero) }, "dieFatal": { dieFatal("empty") },
  "diePrecondition": { diePrecondition(many) }, "dieFailure": { dieFailure(many) }, "dieTry": { dieTry(many) },
  "dieCast": { dieCast(many) }, "dieLookup": { dieLookup(["coffee": many]) }, "dieRange": { dieRange(zero) },
  "dieConversion": { dieConversion(many) }, "dieUnsigned": { dieUnsigned(many) }, "dieEmpty": { dieEmpty([]) },
  "diePointer": { diePointer(zero) }, "dieAbort": { dieAbort(many) }, "dieClosure": { dieClosure(few) },
  "dieGeneric": { dieGeneric(few) }, "dieText": { dieText("tea") }, "dieSorted": { dieSorted(few) },
]
let way = CommandLine.arguments[1]
if way == "main" { _ = try spill(many) }
if let bug = Int(way) { result = checkout(bug) } else { result = ways[way]!() }
print(result)
