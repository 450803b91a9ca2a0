// The one recorder of a process: installed, shared, uninstalled; and why it cannot be.
import XCTest

@testable import Wedjat

final class InstallTests: RecorderTestCase {
  func testTheRecorderIsKeptAndShared() throws {
    XCTAssertNil(Recorder.shared)
    try install()
    let recorder = try XCTUnwrap(Recorder.shared)
    XCTAssertEqual(recorder.directory, folder)
    XCTAssertNoThrow(try recorder.record("kept"))
    recorder.uninstall()
    XCTAssertNil(Recorder.shared)
  }

  func testAfterTheUninstallNothingHappens() throws {
    let recorder = try install()
    recorder.uninstall()
    recorder.uninstall()
    recorder.set("key", to: "value")
    recorder.frame()
    recorder.heartbeat.turn {}
    XCTAssertEqual(recorder.mark("nothing") { 3 }, 3)
    XCTAssertEqual(recorder.stats, Recorder.Stats())
    XCTAssertNil(recorder.stacks())
    XCTAssertFalse(recorder.watchMainQueue())
    XCTAssertThrowsError(try recorder.record()) { XCTAssertEqual(($0 as? RecorderError)?.code, .notInstalled) }
    XCTAssertNoThrow(try install())
  }

  func testAThreadIsWatchedOnce() throws {
    let recorder = try install()
    for watch in [recorder.watchThread(named:timeout:strikes:), recorder.enterPool(named:timeout:strikes:)] {
      XCTAssertThrowsError(try watch("main", 0.05, 5)) { XCTAssertEqual(($0 as? RecorderError)?.code, .notWatched) }
    }
    recorder.uninstall()
    XCTAssertThrowsError(try recorder.watchThread(named: "main")) {
      XCTAssertEqual(($0 as? RecorderError)?.code, .notInstalled)
    }
  }

  func testCallsMayMeetTheUninstall() throws {
    let recorder = try install()
    let threads = (0..<4).map { number in
      Thread { while Recorder.shared != nil { recorder.set("key \(number)", to: recorder.stats.turns) } }
    }
    for thread in threads { thread.start() }
    Thread.sleep(forTimeInterval: 0.05)
    recorder.uninstall()
    try install().uninstall()
  }

  func testAnUninstallDoesNotWaitForTheApp() throws {
    let (reported, uninstalled) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let wait: @Sendable () -> Void = {
      reported.signal()
      uninstalled.wait()
    }
    for closure in ["onReport", "onStall"] {
      let recorder = try Recorder.install(
        name: "Tests", version: "1", directory: folder, onReport: { _ in if closure == "onReport" { wait() } },
        onStall: { _ in if closure == "onStall" { wait() } })
      let heartbeat = recorder.heartbeat
      heartbeat.begin()
      Thread.sleep(forTimeInterval: 0.5)
      heartbeat.end()
      XCTAssertEqual(reported.wait(timeout: .now() + 20), .success, closure)
      recorder.uninstall()
      for _ in 0..<10 { uninstalled.signal() }
    }
  }

  func testErrorsHaveACodeAndWordsOfSwift() throws {
    try install()
    XCTAssertThrowsError(try install()) { error in
      XCTAssertEqual((error as? RecorderError)?.code, .alreadyInstalled)
      XCTAssert(error.localizedDescription.contains("uninstall()"), error.localizedDescription)
      XCTAssertFalse(error.localizedDescription.contains("monitor"))
    }
    Recorder.shared?.uninstall()

    XCTAssertThrowsError(try Recorder.install(directory: URL(fileURLWithPath: "/dev/null/reports"))) { error in
      XCTAssertEqual((error as? RecorderError)?.code, .folderUnavailable)
      XCTAssert("\(error)".contains("/dev/null/reports"), "\(error)")
    }

    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: folder.path)
    XCTAssertThrowsError(try install()) { error in
      XCTAssertEqual((error as? RecorderError)?.code, .folderShared)
      XCTAssert("\(error)".contains("Options.sharedDirectory"), "\(error)")
      XCTAssertFalse("\(error)".contains("shared_directory"), "\(error)")
    }
    XCTAssertNoThrow(try install(.init(sharedDirectory: true)))
  }

  func testAFolderIsAFileURL() throws {
    let web = try XCTUnwrap(URL(string: "https://example.com/a"))
    for attempt in [
      { try Recorder.install(directory: web).uninstall() }, { _ = try Recorder.reports(in: web) },
      { _ = try Recorder.sendAndWait(from: web) { _ in .stop } },
    ] {
      XCTAssertThrowsError(try attempt()) { XCTAssertEqual(($0 as? RecorderError)?.code, .notAFileURL) }
    }
    XCTAssertFalse(FileManager.default.fileExists(atPath: "/a"))
  }

  func testTheDefaultsAreOfTheProgram() throws {
    XCTAssert(Recorder.defaultDirectory.isFileURL)
    XCTAssert(Recorder.defaultDirectory.path.contains(ProcessInfo.processInfo.processName), "\(Recorder.defaultDirectory)")
    XCTAssertEqual(App.name, ProcessInfo.processInfo.processName)
    XCTAssertFalse(App.version.isEmpty)
    XCTAssertFalse(Recorder.libraryVersion.isEmpty)
  }

  func testThePreviousLaunch() throws {
    XCTAssertNil(try install().previousLaunch)
    Recorder.shared?.setForeground(false)
    Recorder.shared?.uninstall()
    let before = try XCTUnwrap(try install().previousLaunch)
    XCTAssertEqual(before.ending, .uninstalled)
    XCTAssertEqual(before.appVersion, "1")
    XCTAssertFalse(before.foreground)
    XCTAssertEqual(before.id.count, 32)
    XCTAssertEqual(before.processID, UInt64(ProcessInfo.processInfo.processIdentifier))
  }
}
