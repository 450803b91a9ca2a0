// What the recorder tells the app while it runs: stalls, reports, counters.
import CWedjat
import Foundation

/// A stall of the main thread, as it begins and as it ends.
public struct Stall: Sendable {
  /// What the thread did.
  public enum Kind: String, Sendable {
    /// No heartbeat came yet.
    case launch
    /// It computed.
    case busy
    /// It waited.
    case blocked
    /// It was ready, and had no CPU.
    case starved
  }
  /// How it ended.
  public enum Outcome: String, Sendable {
    case recovered
    case uninstalled
    case threadEnded = "thread_ended"
  }
  /// `nil` for one that this version of the package does not know.
  public let kind: Kind?
  /// True if the stall is over.
  public let isOver: Bool
  /// `nil` while the stall lasts.
  public let outcome: Outcome?
  /// True if no heartbeat ever came: the stall is the launch.
  public let neverBeat: Bool
  /// Turns of the run loop so far; 1 for one long freeze.
  public let turns: Int
  /// Its begin, in seconds of the monotonic clock.
  public let start: TimeInterval
  /// Seconds so far.
  public let lasted: TimeInterval
  /// Seconds of CPU time that the thread has used since.
  public let cpu: TimeInterval
  /// Seconds in which the thread was ready but had no CPU.
  public let delay: TimeInterval

  init(_ event: wedjat_stall_event) {
    kind = event.what.flatMap { Kind(rawValue: String(cString: $0)) }
    isOver = event.is_over
    outcome = event.how.flatMap { Outcome(rawValue: String(cString: $0)) }
    neverBeat = event.never_beat
    turns = Int(event.turns)
    start = seconds(event.start)
    lasted = seconds(event.lasted)
    cpu = seconds(event.cpu)
    delay = seconds(event.delay)
  }
}

/// Counters of a recorder since it was installed; times in seconds.
public struct Stats: Sendable {
  /// Turns of the run loop that have ended.
  public let turns: UInt64
  /// Frames.
  public let frames: UInt64
  /// Stalls, reported or not; one that lasts among them.
  public let stalls: UInt64
  /// Time in those that are over.
  public let stalledTime: TimeInterval
  /// The longest of them.
  public let longest: TimeInterval
  /// Whole reports of this launch.
  public let reports: UInt64
  /// Their bytes.
  public let bytes: UInt64
  /// Stacks taken of the watched thread.
  public let captures: UInt64
  /// CPU time of the recorder's own watching thread.
  public let watchdogCPU: TimeInterval
  /// Events that were not reported, for any reason.
  public let lost: UInt64
  /// True while a stall lasts.
  public let isStalled: Bool
  /// Files in the folder that have names of ours and are larger than any of ours: they are left alone.
  public let oversized: UInt64

  init(_ stats: wedjat_stats) {
    turns = stats.turns
    frames = stats.frames
    stalls = stats.stalls
    stalledTime = seconds(stats.stalled_time)
    longest = seconds(stats.longest)
    reports = stats.reports
    bytes = stats.bytes
    captures = stats.captures
    watchdogCPU = seconds(stats.watchdog_cpu)
    lost = stats.lost
    isStalled = stats.stalled
    oversized = stats.oversized
  }
}

func seconds(_ nanoseconds: UInt64) -> TimeInterval { Double(nanoseconds) / 1e9 }

/// The app's closures, behind the one pointer that C is given.
final class Callbacks {
  let onReport: (@Sendable (URL) -> Void)?
  let onStall: (@Sendable (Stall) -> Void)?

  init(onReport: (@Sendable (URL) -> Void)?, onStall: (@Sendable (Stall) -> Void)?) {
    self.onReport = onReport
    self.onStall = onStall
  }

  /// Writes those that the app gave into `options`.
  func put(into options: inout wedjat_options) {
    let data = Unmanaged.passUnretained(self).toOpaque()
    if onReport != nil {
      options.on_report_data = data
      options.on_report = { path, data in
        guard let path = path, let data = data else { return }
        let callbacks = Unmanaged<Callbacks>.fromOpaque(data).takeUnretainedValue()
        callbacks.onReport?(URL(fileURLWithPath: String(cString: path)))
      }
    }
    if onStall != nil {
      options.on_stall_data = data
      options.on_stall = { told, data in
        guard let told = told, let data = data else { return }
        let callbacks = Unmanaged<Callbacks>.fromOpaque(data).takeUnretainedValue()
        callbacks.onStall?(Stall(told.pointee))
      }
    }
  }
}
