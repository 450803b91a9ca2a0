// What the tests share: a folder of its own for each, a recorder that is uninstalled after it, and waiting.
import Foundation
import XCTest

@testable import Wedjat

/// A test with a folder of reports. There is one recorder in a process, and tests run one after another, on the main thread.
class RecorderTestCase: XCTestCase {
  private(set) var folder = URL(fileURLWithPath: "/")

  override func setUp() {
    super.setUp()
    folder = FileManager.default.temporaryDirectory.appendingPathComponent("wedjat-\(UUID().uuidString)")
  }

  override func tearDown() {
    Recorder.shared?.uninstall()
    try? FileManager.default.removeItem(at: folder)
    super.tearDown()
  }

  @discardableResult
  func install(_ options: Recorder.Options = Recorder.Options()) throws -> Recorder {
    try Recorder.install(name: "Tests", version: "1", directory: folder, options: options)
  }

  /// Leaves so many reports of an earlier launch in the folder.
  func leave(_ count: Int, in folder: URL? = nil) throws {
    let recorder = try Recorder.install(
      name: "Tests", version: "1", directory: folder ?? self.folder, options: .init(stall: nil))
    for number in 0..<count { try recorder.record("left \(number)") }
    recorder.uninstall()
  }

  /// Works off the main queue until `isDone`.
  func runMain(for seconds: TimeInterval = 20, until isDone: () -> Bool) -> Bool {
    let end = Date().addingTimeInterval(seconds)
    while !isDone(), Date() < end { RunLoop.main.run(until: Date().addingTimeInterval(0.01)) }
    return isDone()
  }
}

/// A value that closures share.
final class Shared<Value: Sendable>: Sendable {
  private let locked: Locked<Value>

  init(_ value: Value) { locked = Locked(value) }

  var value: Value {
    get { locked.value }
    set { locked.value = newValue }
  }

  func change(_ body: (inout Value) -> Void) { locked.change(body) }
}
