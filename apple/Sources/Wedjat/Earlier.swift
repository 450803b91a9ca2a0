// What earlier launches left: how the last one ended, and reports to be sent.
import CWedjat
import Foundation

extension Wedjat {
  /// How the launch before this one ended.
  public struct PreviousLaunch {
    public enum Ending: UInt32 {
      case exit, uninstalled, crash, panic, stalled, outOfMemory, reboot, abrupt
    }
    /// `nil` for one that this version of the package does not know.
    public let ending: Ending?
    /// Whether the app itself wanted it.
    public let isClean: Bool
    public let foreground: Bool
    public let appVersion: String
    public let started: Date
    public let lastSeen: Date
  }

  /// How the launch before this one ended, even where it left no report; `nil` the first time.
  public var previousLaunch: PreviousLaunch? {
    var launch = wedjat_launch()
    launch.size = MemoryLayout<wedjat_launch>.size
    guard previous(&launch) else { return nil }
    let version = withUnsafeBytes(of: &launch.app_version) { bytes in
      String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
    }
    func date(_ nanoseconds: UInt64) -> Date {
      Date(timeIntervalSince1970: Double(nanoseconds) / 1e9)
    }
    return PreviousLaunch(
      ending: PreviousLaunch.Ending(rawValue: launch.how.rawValue), isClean: launch.is_clean,
      foreground: launch.foreground, appVersion: version, started: date(launch.started),
      lastSeen: date(launch.last_seen))
  }

  /// What becomes of a report.
  public enum Answer: Int32 {
    /// It arrived: it is removed.
    case accepted = 0
    /// It will never be taken: it is set aside.
    case refused = 1
    /// Not now: it stays.
    case later = 2
    /// Not now, and no other either: all that is left stays.
    case stop = 3
  }

  /// Gives each report that earlier launches left in `directory` to `each`, oldest first, and does what the
  /// answer says. Not on the main thread. Gives how many were accepted, or `nil` where the folder fails.
  public static func send(from directory: URL, _ each: (URL) -> Answer) -> Int? {
    withoutActuallyEscaping(each) { each in
      let box = Sender(each)
      var sent = wedjat_sent()
      sent.size = MemoryLayout<wedjat_sent>.size
      let data = Unmanaged.passUnretained(box).toOpaque()
      let done = wedjat_send(
        directory.path,
        { path, data in
          guard let path = path, let data = data else { return Answer.later.rawValue }
          let sender = Unmanaged<Sender>.fromOpaque(data).takeUnretainedValue()
          return sender.each(URL(fileURLWithPath: String(cString: path))).rawValue
        }, data, &sent)
      return withExtendedLifetime(box) { done ? Int(sent.accepted) : nil }
    }
  }

  private final class Sender {
    let each: (URL) -> Answer
    init(_ each: @escaping (URL) -> Answer) { self.each = each }
  }
}
