// Stalls of the main thread and what the app learns of them; stacks; a crash.
import XCTest

@testable import Wedjat

@inline(never)
private func compute(for seconds: TimeInterval) {
  let end = Date().addingTimeInterval(seconds)
  while Date() < end {}
}

@inline(never)
private func stacksOfThisFunction(_ recorder: Recorder) -> String? { recorder.stacks(of: .current) }

final class StallTests: RecorderTestCase {
  /// Collects what both sequences have, and what comes to the closures.
  private func collect(_ recorder: Recorder) -> (stalls: Shared<[Recorder.Stall]>, reports: Shared<[URL]>, ended: Shared<Int>) {
    let (stalls, reports, ended) = (Shared<[Recorder.Stall]>([]), Shared<[URL]>([]), Shared(0))
    let (stallsNow, reportsNow) = (recorder.stalls, recorder.reports)
    Task.detached {
      for await stall in stallsNow { stalls.change { $0.append(stall) } }
      ended.change { $0 += 1 }
    }
    Task.detached {
      for await report in reportsNow { reports.change { $0.append(report) } }
      ended.change { $0 += 1 }
    }
    return (stalls, reports, ended)
  }

  private func expectOneStall(_ recorder: Recorder, _ stalling: () -> Void) throws {
    let (stalls, reports, ended) = collect(recorder)
    XCTAssert(recorder.watchMainQueue())
    XCTAssert(runMain { recorder.stats.turns > 3 }, "no beats")
    stalling()
    // A busy machine may add shorter ones.
    func isOver() -> Recorder.Stall? { stalls.value.first { $0.isOver && $0.duration > .milliseconds(500) } }
    XCTAssert(runMain { !reports.value.isEmpty && isOver() != nil }, "\(stalls.value) \(reports.value)")
    let over = try XCTUnwrap(isOver())
    XCTAssertEqual(over.outcome, .recovered)
    XCTAssert(stalls.value.contains { !$0.isOver && $0.outcome == nil && $0.start == over.start }, "\(stalls.value)")
    XCTAssertGreaterThan(recorder.stats.stalls, 0)
    XCTAssertGreaterThan(recorder.stats.longestDuration, .milliseconds(500))
    XCTAssert(reports.value.allSatisfy { $0.pathExtension == "wedjat" })
    recorder.uninstall()
    XCTAssert(runMain { ended.value == 2 }, "sequences that do not end")
    // A sequence that is made now ends at once.
    XCTAssert(runMain(until: { [over = Shared(false)] in
      let late = recorder.stalls
      Task.detached { for await _ in late {}; over.value = true }
      Thread.sleep(forTimeInterval: 0.05)
      return over.value
    }))
  }

  func testAStallOfTheMainRunLoop() throws {
    try expectOneStall(install()) {
      DispatchQueue.main.async { compute(for: 0.7) }
    }
  }

  func testAStallOfATaskOfTheMainActor() throws {
    try expectOneStall(install()) {
      Task { @MainActor in compute(for: 0.7) }
    }
  }

  func testAScopeThatMayBlockIsNoStall() throws {
    let recorder = try install()
    XCTAssert(recorder.watchMainQueue())
    XCTAssert(runMain { recorder.stats.turns > 3 }, "no beats")
    let before = recorder.stats.stalledTime
    DispatchQueue.main.async { Recorder.mayBlock { Thread.sleep(forTimeInterval: 1) } }
    let turns = recorder.stats.turns
    XCTAssert(runMain { recorder.stats.turns > turns + 3 })
    XCTAssertLessThan(recorder.stats.stalledTime - before, 0.9)
    XCTAssertThrowsError(try Recorder.mayBlock { throw CancellationError() })
  }

  func testClosuresAreCalledOnAQueue() throws {
    let (stalls, reports) = (Shared<[Recorder.Stall]>([]), Shared<[URL]>([]))
    let recorder = try Recorder.install(name: "Tests", version: "1", directory: folder) { report in
      XCTAssertFalse(Thread.isMainThread)
      reports.change { $0.append(report) }
    } onStall: { stall in
      stalls.change { $0.append(stall) }
    }
    XCTAssert(recorder.watchByPing { beat in DispatchQueue.main.async { beat() } })
    XCTAssertFalse(recorder.watchMainQueue(), "a second watch")
    XCTAssert(runMain { recorder.stats.turns > 3 })
    DispatchQueue.main.async { compute(for: 0.7) }
    XCTAssert(runMain { !reports.value.isEmpty && stalls.value.count > 1 }, "\(stalls.value) \(reports.value)")
  }

  func testAHeartbeatOfTheAppsOwn() throws {
    let recorder = try install()
    let heartbeat = recorder.heartbeat
    heartbeat.begin()
    heartbeat.end()
    XCTAssertEqual(heartbeat.turn { 3 }, 3)
    XCTAssertEqual(recorder.stats.turns, 2)
    for _ in 0..<3 { recorder.frame() }
    recorder.launched()
    XCTAssertEqual(recorder.stats.shownFrames, 3)
  }

  func testStacksHaveNamesOfSwift() throws {
    let recorder = try install()
    let text = try XCTUnwrap(stacksOfThisFunction(recorder))
    XCTAssert(text.contains("stacksOfThisFunction"), text)
    XCTAssert(text.contains("StallTests.testStacksHaveNamesOfSwift() throws"), text)
    XCTAssertFalse(text.contains("$s"), text)
    XCTAssertNotNil(recorder.stacks(of: .main))
    XCTAssertGreaterThan(try XCTUnwrap(recorder.stacks()).count, text.count)
  }

  func testNamesAreReplacedInTheirLines() {
    let text = "0 _$s4main3fooyyF + 4\n1 $s4main3fooyyF (in x)\n2 a$style $s\n3 $s4main3fooyyF"
    XCTAssertEqual(demangled(text), "0 main.foo() -> () + 4\n1 main.foo() -> () (in x)\n2 a$style $s\n3 main.foo() -> ()")
  }

  func testHandlersThatWereReplaced() throws {
    let recorder = try install()
    XCTAssertEqual(recorder.replacedSignals, [])
    let before = signal(SIGFPE, SIG_DFL)
    defer { signal(SIGFPE, before) }
    XCTAssertEqual(recorder.replacedSignals, [SIGFPE])
  }

  #if os(Linux)
    /// The test's own program runs this one test as a child, which dies of a trap while nobody holds the recorder.
    func testACrashIsReported() throws {
      if let folder = ProcessInfo.processInfo.environment["WEDJAT_CRASH_IN"] {
        try Recorder.install(name: "Tests", version: "1", directory: URL(fileURLWithPath: folder))
        let none: [Int] = []
        print(none[ProcessInfo.processInfo.processIdentifier == 0 ? 1 : 2])
        return
      }
      let child = Process()
      child.executableURL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
      child.arguments = ["WedjatTests.StallTests/testACrashIsReported"]
      child.environment = ProcessInfo.processInfo.environment.merging(["WEDJAT_CRASH_IN": folder.path]) { $1 }
      (child.standardOutput, child.standardError) = (FileHandle.nullDevice, FileHandle.nullDevice)
      try child.run()
      child.waitUntilExit()
      XCTAssertEqual(child.terminationReason, .uncaughtSignal)
      let recorder = try install()
      XCTAssertEqual(recorder.previousLaunch?.ending, .crash)
      XCTAssertEqual(recorder.previousLaunch?.isClean, false)
      XCTAssertEqual(try Recorder.reports(in: folder).count, 1)
    }
  #endif
}
