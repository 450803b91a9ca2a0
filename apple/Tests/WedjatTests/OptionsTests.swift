// Options as values, and as the numbers that C gets.
import XCTest

@testable import Wedjat

final class OptionsTests: RecorderTestCase {
  func testOptionsAreValues() throws {
    let stall = Recorder.Options.StallTrigger(timeout: .milliseconds(100), launchThreshold: .seconds(5))
    var options = Recorder.Options(stall: stall, maxOtherThreads: 3)
    options.rates = .init(cooldown: .seconds(2))
    XCTAssertEqual(options.stall, .init(timeout: 0.1, launchThreshold: 5))
    XCTAssertEqual(options.rates.cooldown, 2)
    XCTAssertNotEqual(options, Recorder.Options())
    XCTAssertEqual(Set([options, options]).count, 1)
    let decoded = try JSONDecoder().decode(Recorder.Options.self, from: JSONEncoder().encode(options))
    XCTAssertEqual(decoded, options)
    XCTAssertNil(Recorder.Options(stall: nil).stall)
    XCTAssertNotNil(Recorder.Options(stall: nil).crash)
  }

  func testEventsAreValues() throws {
    let stall = Recorder.Stall(kind: .busy, lasted: 1.5)
    XCTAssertEqual(stall.duration, .milliseconds(1500))
    XCTAssertEqual(try JSONDecoder().decode(Recorder.Stall.self, from: JSONEncoder().encode(stall)), stall)
    let launch = Recorder.PreviousLaunch(ending: .crash, isClean: false)
    XCTAssertEqual(try JSONDecoder().decode(Recorder.PreviousLaunch.self, from: JSONEncoder().encode(launch)), launch)
    XCTAssertEqual(Recorder.Sent(accepted: 1), Recorder.Sent(accepted: 1))
    XCTAssertEqual(RecorderError(.folderShared, "a"), RecorderError(.folderShared, "a"))
  }

  func testANumberOutOfRangeIsTheNearest() {
    XCTAssertEqual([milliseconds(nil), milliseconds(0), milliseconds(-1), milliseconds(0.0001)], [0, 1, 1, 1])
    XCTAssertEqual([milliseconds(0.05), milliseconds(1e30), milliseconds(.infinity)], [50, 4_000_000_000, 4_000_000_000])
    XCTAssertEqual([milliseconds(.nan), microseconds(0.001)], [0, 1000])
    XCTAssertEqual([count32(nil), count32(0), count32(-5), count32(7), count32(.max)], [0, 1, 1, 7, .max])
    XCTAssertEqual([count64(nil), count64(0), count64(.min), count64(7)], [0, 1, 1, 7])
    XCTAssertEqual([share(nil), share(.nan), share(0.5)], [0, 0, 0.5])
    XCTAssert(share(0) > 0 && share(-1) > 0 && share(.infinity).isFinite)
    XCTAssertEqual([threadLimit(nil), threadLimit(0), threadLimit(-3), threadLimit(5)], [0, -1, -1, 5])
  }

  func testAFolderOfOneReport() throws {
    let recorder = try install(.init(limits: .init(reports: 0)))
    for _ in 0..<3 { try recorder.record() }
    recorder.uninstall()
    try install(.init(limits: .init(reports: -1)))
    XCTAssertEqual(try Recorder.reports(in: folder).count, 1)
  }
}
