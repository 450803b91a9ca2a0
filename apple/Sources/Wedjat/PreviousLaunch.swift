// How the last launch ended.
internal import CWedjat
public import Foundation

nonisolated extension Recorder {
  /// The end of an earlier launch, and its state when it was last seen.
  public struct PreviousLaunch: Hashable, Codable, Sendable, Identifiable {
    /// The end of a launch.
    public enum Ending: String, Hashable, Codable, Sendable, CaseIterable {
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
      /// The machine was restarted.
      case reboot
      /// It was killed, or ended by `_exit`.
      case abrupt
    }
    /// Identifies the launch, in hexadecimal; the same in all its reports.
    public var id: String
    /// The end; `nil` for an end that this version of the package does not know.
    public var ending: Ending?
    /// True if the app itself ended the launch.
    public var isClean: Bool
    /// The exit status, if it is known.
    public var status: Int32?
    /// True if the app was in the foreground when it last said so.
    public var foreground: Bool
    /// The app's version then.
    public var appVersion: String
    /// The id of the process.
    public var processID: UInt64
    /// Time of the install.
    public var started: Date
    /// Time at which the launch was last seen at work.
    public var lastSeen: Date
    /// Bytes of memory of its own then, if they are known.
    public var footprint: UInt64?
    /// Free bytes of the machine's memory then, if they are known.
    public var deviceFree: UInt64?

    /// Makes the end of a launch, such as for a preview or a test.
    public init(
      id: String = "", ending: Ending?, isClean: Bool, status: Int32? = nil, foreground: Bool = true,
      appVersion: String = "", processID: UInt64 = 0, started: Date = Date(), lastSeen: Date = Date(),
      footprint: UInt64? = nil, deviceFree: UInt64? = nil
    ) {
      (self.id, self.ending, self.isClean, self.status) = (id, ending, isClean, status)
      (self.foreground, self.appVersion, self.processID) = (foreground, appVersion, processID)
      (self.started, self.lastSeen) = (started, lastSeen)
      (self.footprint, self.deviceFree) = (footprint, deviceFree)
    }

    init(_ launch: wedjat_launch) {
      func date(_ nanoseconds: UInt64) -> Date { Date(timeIntervalSince1970: seconds(nanoseconds)) }
      let (endings, how) = (Ending.allCases, Int(launch.how.rawValue))
      self.init(
        id: withUnsafeBytes(of: launch.id) { $0.map { String(format: "%02x", $0) }.joined() },
        ending: endings.indices.contains(how) ? endings[how] : nil, isClean: launch.is_clean,
        status: launch.status == -1 ? nil : launch.status, foreground: launch.foreground,
        appVersion: withUnsafeBytes(of: launch.app_version) { bytes in
          String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
        },
        processID: launch.pid, started: date(launch.started), lastSeen: date(launch.last_seen),
        footprint: launch.footprint == 0 ? nil : launch.footprint,
        deviceFree: launch.device_free == 0 ? nil : launch.device_free)
    }
  }
}
