// What an app says of its state: each type of value, and marks on the caller's actor.
import XCTest

@testable import Wedjat

final class ContextTests: RecorderTestCase {
  /// A report's bytes have a text as it is, and a small integer behind a short key as one byte.
  private func report(_ recorder: Recorder) throws -> Data { try Data(contentsOf: recorder.record()) }

  private func key(_ key: String, _ value: UInt8...) -> Data { Data([0xa0 | UInt8(key.utf8.count)] + key.utf8 + value) }

  func testValuesOfEachType() throws {
    let recorder = try install()
    recorder.set("int", to: 7)
    recorder.set("int32", to: Int32(8))
    recorder.set("uint64", to: UInt64(9))
    recorder.set("large", to: UInt64.max)
    recorder.set("float", to: Float(0.5))
    recorder.set("double", to: 0.5)
    recorder.set("size", to: CGFloat(0.5))
    recorder.set("part", to: "a part of it".dropFirst(2))
    recorder.set("bool", to: true)
    recorder.set("some", to: Optional(10))
    let data = try report(recorder)
    let half: [UInt8] = [0xcb, 0x3f, 0xe0, 0, 0, 0, 0, 0, 0]
    let part: [UInt8] = [0xaa] + "part of it".utf8
    for (name, value) in [
      ("int", [7]), ("int32", [8]), ("uint64", [9]), ("some", [10]), ("bool", [0xc3]), ("float", half), ("double", half),
      ("size", half), ("part", part),
    ] as [(String, [UInt8])] {
      XCTAssertNotNil(data.range(of: key(name) + value), name)
    }
    XCTAssertNotNil(data.range(of: Data("18446744073709551615".utf8)))
  }

  func testNilRemovesAKey() throws {
    let recorder = try install()
    recorder.set("text", to: "value of the text")
    recorder.set("number", to: 5)
    recorder.set("text", to: nil)
    recorder.set("number", to: Int?.none)
    let data = try report(recorder)
    XCTAssertNil(data.range(of: Data("value of the text".utf8)))
    XCTAssertNil(data.range(of: key("number", 5)))
  }

  func testGaugesMarksAndBreadcrumbs() throws {
    let recorder = try install()
    recorder.gauge("queue", [1, 2].count)
    recorder.gauge("load", 0.5)
    recorder.breadcrumb("tapped Buy")
    XCTAssertEqual(recorder.mark("decode the cart") { 3 }, 3)
    XCTAssertThrowsError(try recorder.mark("fails") { throw CancellationError() })
    let data = try report(recorder)
    for text in ["queue", "load", "tapped Buy", "decode the cart", "fails"] {
      XCTAssertNotNil(data.range(of: Data(text.utf8)), text)
    }
  }

  @MainActor
  func testAMarkStaysOnTheCallersActor() async throws {
    let recorder = try install()
    let other = Shared(false)
    // It is queued on the main actor, and runs once this function lets go of it.
    let queued = Task { @MainActor in other.value = true }
    let first = await recorder.mark("on the main actor") { () async -> Bool in
      MainActor.assertIsolated()
      return other.value
    }
    XCTAssertFalse(first, "the mark has left the main actor before its work")
    let turn = await recorder.heartbeat.turn { () async -> Bool in
      MainActor.assertIsolated()
      return other.value
    }
    XCTAssertFalse(turn, "the turn has left the main actor before its work")
    await queued.value
    XCTAssert(other.value)
  }

  func testAMarkOfAnActor() async throws {
    actor Counter {
      var count = 0
      func add(_ recorder: Recorder) async throws -> Int {
        try await recorder.mark("add") {
          assertIsolated()
          await Task.yield()
          count += 1
          return count
        }
      }
    }
    let recorder = try install()
    let count = try await Counter().add(recorder)
    XCTAssertEqual(count, 1)
  }
}
