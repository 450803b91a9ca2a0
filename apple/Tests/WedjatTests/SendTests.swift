// Reports of earlier launches: who sends them, in whose task, and what becomes of them.
import XCTest

@testable import Wedjat

final class SendTests: RecorderTestCase {
  enum Local {
    @TaskLocal static var name = "none"
  }

  func testEachAnswerHasItsEffect() async throws {
    try leave(4)
    XCTAssertEqual(try Recorder.reports(in: folder).count, 4)
    var answers: [Recorder.Answer] = [.accepted, .refused, .later, .stop]
    var offered: [URL] = []
    let sent = try await Recorder.send(from: folder) { url in
      offered.append(url)
      return answers.removeFirst()
    }
    XCTAssertEqual(sent, Recorder.Sent(accepted: 1, refused: 1, deferred: 2))
    XCTAssertEqual(try Recorder.reports(in: folder), Array(offered.suffix(2)))
    XCTAssertEqual(
      try Recorder.sendAndWait(from: folder) { _ in .accepted }, Recorder.Sent(accepted: 2))
  }

  func testAFolderThatIsNotThere() async throws {
    do {
      let sent = try await Recorder.send(from: folder) { _ in .accepted }
      XCTAssertEqual(sent, Recorder.Sent())
    } catch {
      XCTAssertEqual(error.code, .folderUnavailable)
    }
  }

  @MainActor
  func testItRunsInTheCallersTask() async throws {
    try leave(1)
    try await Local.$name.withValue("caller") {
      let priority = Task.currentPriority
      try await Recorder.send(from: folder) { _ in
        MainActor.assertIsolated()
        XCTAssertEqual(Local.name, "caller")
        XCTAssertEqual(Task.currentPriority, priority)
        await Task.yield()
        return .accepted
      }
    }
  }

  func testACancelledTaskIsOfferedNoMore() async throws {
    try leave(5)
    let offered = Shared(0)
    let task = Task { [folder] in
      try await Recorder.send(from: folder) { _ in
        offered.change { $0 += 1 }
        withUnsafeCurrentTask { $0?.cancel() }
        XCTAssert(Task.isCancelled)
        return .accepted
      }
    }
    let sent = try await task.value
    XCTAssertEqual(offered.value, 1)
    XCTAssertEqual(sent, Recorder.Sent(accepted: 1, deferred: 4))
    XCTAssertEqual(try Recorder.reports(in: folder).count, 4)
  }

  func testATaskThatWasCancelledBefore() async throws {
    try leave(2)
    let task = Task { [folder] in
      withUnsafeCurrentTask { $0?.cancel() }
      return try await Recorder.send(from: folder) { _ in
        XCTFail("a report was offered")
        return .accepted
      }
    }
    let sent = try await task.value
    XCTAssertEqual(sent, Recorder.Sent(deferred: 2))
  }

  /// More sends than any pool has threads, each of which waits until all have a report.
  func testSendsDoNotWaitForThreadsOfAPool() async throws {
    let count = 100
    let folders = (0..<count).map { folder.appendingPathComponent("\($0)") }
    let files = FileManager.default
    try leave(1, in: folders[0])
    for other in folders[1...] {
      try files.createDirectory(at: other, withIntermediateDirectories: true)
      for report in try Recorder.reports(in: folders[0]) {
        try files.copyItem(at: report, to: other.appendingPathComponent(report.lastPathComponent))
      }
    }
    let under = Shared(0)
    let sent = try await withThrowingTaskGroup(of: Recorder.Sent.self) { group in
      for folder in folders {
        group.addTask {
          try await Recorder.send(from: folder) { _ in
            under.change { $0 += 1 }
            for _ in 0..<3000 where under.value < count { try? await Task.sleep(nanoseconds: 10_000_000) }
            return under.value == count ? .accepted : .later
          }
        }
      }
      return try await group.reduce(into: 0) { $0 += $1.accepted }
    }
    XCTAssertEqual(sent, UInt64(count))
  }
}
