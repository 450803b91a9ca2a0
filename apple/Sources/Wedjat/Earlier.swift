// What earlier launches left: how the last one ended, and reports to be sent.
import CWedjat
import Foundation

/// How an earlier launch ended, and how it was when it was last seen.
public struct PreviousLaunch: Sendable {
  /// The end of a launch.
  public enum Ending: UInt32, Sendable {
    /// It ended by `exit`, or by a return of `main`.
    case exit
    /// The app uninstalled its recorder, and what came after is not known.
    case uninstalled
    /// It ended by a crash, of which there is a report.
    case crash
    /// It ended by a Rust panic.
    case panic
    /// It was killed in the middle of a stall.
    case stalled
    /// It was killed, most likely because memory ran out.
    case outOfMemory
    /// The machine was started anew.
    case reboot
    /// It was killed, or left by `_exit`.
    case abrupt
  }
  /// Identifies the launch, in hexadecimal; the same in all its reports.
  public let id: String
  /// `nil` for an ending that this version of the package does not know.
  public let ending: Ending?
  /// Whether the app itself wanted the end.
  public let isClean: Bool
  /// The exit status, if it is known.
  public let status: Int32?
  /// Whether the app last said that it was in the foreground.
  public let foreground: Bool
  public let appVersion: String
  public let processID: UInt64
  public let started: Date
  public let lastSeen: Date
  /// Bytes of memory of its own then, if they are known.
  public let footprint: UInt64?
  /// Free bytes of memory of the machine then, if they are known.
  public let deviceFree: UInt64?

  init(_ launch: wedjat_launch) {
    func date(_ nanoseconds: UInt64) -> Date { Date(timeIntervalSince1970: seconds(nanoseconds)) }
    id = withUnsafeBytes(of: launch.id) { $0.map { String(format: "%02x", $0) }.joined() }
    ending = Ending(rawValue: launch.how.rawValue)
    isClean = launch.is_clean
    status = launch.status == -1 ? nil : launch.status
    foreground = launch.foreground
    appVersion = withUnsafeBytes(of: launch.app_version) { bytes in
      String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
    }
    processID = launch.pid
    started = date(launch.started)
    lastSeen = date(launch.last_seen)
    footprint = launch.footprint == 0 ? nil : launch.footprint
    deviceFree = launch.device_free == 0 ? nil : launch.device_free
  }
}

/// What becomes of a report.
public enum Answer: Sendable {
  /// It arrived: it is removed.
  case accepted
  /// It will never be taken: it is set aside.
  case refused
  /// Not now: it stays.
  case later
  /// Not now, and no other either: all that is left stays.
  case stop

  var inC: Int32 {
    let answer: wedjat_answer
    switch self {
    case .accepted: answer = WEDJAT_ACCEPTED
    case .refused: answer = WEDJAT_REFUSED
    case .later: answer = WEDJAT_LATER
    case .stop: answer = WEDJAT_STOP
    }
    return Int32(answer.rawValue)
  }
}

/// How many reports were sent, and how many were not.
public struct Sent: Sendable {
  /// Reports that were accepted and removed.
  public let accepted: UInt64
  /// Reports that were set aside.
  public let refused: UInt64
  /// Reports that stay for another time.
  public let left: UInt64
  /// Reports that another sender has in hand.
  public let busy: UInt64
}

extension Recorder {
  /// Reports that earlier launches left in `directory`, oldest first.
  public static func reports(in directory: URL) throws -> [URL] {
    let found = Found()
    let count = directory.withUnsafeFileSystemRepresentation { directory in
      wedjat_reports(
        directory,
        { path, data in
          guard let path = path, let data = data else { return }
          let found = Unmanaged<Found>.fromOpaque(data).takeUnretainedValue()
          found.urls.append(URL(fileURLWithPath: String(cString: path)))
        }, Unmanaged.passUnretained(found).toOpaque())
    }
    guard count >= 0 else { throw RecorderError(description: "\(directory.path) cannot be listed") }
    return found.urls
  }

  /// Gives each report that earlier launches left in `directory` to `each`, oldest first, and does what the answer
  /// says. While `each` has a report no other sender has it. It blocks: not for the main thread.
  @discardableResult
  public static func sendAndWait(from directory: URL, _ each: (URL) -> Answer) throws -> Sent {
    try withoutActuallyEscaping(each) { each in
      let box = Box<(URL) -> Answer>(each)
      var sent = wedjat_sent()
      sent.size = MemoryLayout<wedjat_sent>.size
      let done = directory.withUnsafeFileSystemRepresentation { directory in
        wedjat_send(
          directory,
          { path, data in
            guard let path = path, let data = data else { return Answer.later.inC }
            let each = Unmanaged<Box<(URL) -> Answer>>.fromOpaque(data).takeUnretainedValue().value
            return each(URL(fileURLWithPath: String(cString: path))).inC
          }, Unmanaged.passUnretained(box).toOpaque(), &sent)
      }
      guard withExtendedLifetime(box, { done }) else {
        throw RecorderError(description: "reports in \(directory.path) could not be listed, removed or set aside")
      }
      return Sent(accepted: sent.accepted, refused: sent.refused, left: sent.left, busy: sent.busy)
    }
  }

  /// As ``sendAndWait(from:_:)``, for an `each` that awaits. No thread of Swift's own pool is blocked meanwhile.
  @discardableResult
  public static func send(
    from directory: URL, _ each: @escaping @Sendable (URL) async -> Answer
  ) async throws -> Sent {
    try await withCheckedThrowingContinuation { continuation in
      DispatchQueue.global(qos: .utility).async {
        continuation.resume(
          with: Result {
            try Recorder.sendAndWait(from: directory) { report in
              let answer = Reply()
              Task(priority: .utility) { answer.give(await each(report)) }
              return answer.wait()
            }
          })
      }
    }
  }
}

/// What C has listed so far; filled and read by one thread.
private final class Found {
  var urls: [URL] = []
}

/// An answer on its way from a task to the thread that waits for it.
private final class Reply: @unchecked Sendable {
  // Unchecked: the semaphore orders the write before the read.
  private var answer = Answer.later
  private let given = DispatchSemaphore(value: 0)

  func give(_ answer: Answer) {
    self.answer = answer
    given.signal()
  }

  func wait() -> Answer {
    given.wait()
    return answer
  }
}
