// Counters of a recorder.
internal import CWedjat
public import Foundation

nonisolated extension Recorder {
  /// Counters of a recorder since it was installed. Times are in seconds.
  public struct Stats: Hashable, Codable, Sendable {
    /// Turns of the run loop that have ended.
    public var turns: UInt64 = 0
    /// Frames of ``Recorder/frame()``.
    public var shownFrames: UInt64 = 0
    /// Stalls, reported or not, with a stall that lasts.
    public var stalls: UInt64 = 0
    /// Time in stalls that are over.
    public var stalledTime: TimeInterval = 0
    /// Length of the longest of them.
    public var longest: TimeInterval = 0
    /// Whole reports of this launch.
    public var reports: UInt64 = 0
    /// Bytes of these reports.
    public var bytes: UInt64 = 0
    /// Stacks taken of the watched thread.
    public var captures: UInt64 = 0
    /// CPU time of the recorder's own watching thread.
    public var watchdogCPU: TimeInterval = 0
    /// Events that were not reported, for any reason.
    public var lost: UInt64 = 0
    /// True while a stall lasts.
    public var isStalled = false
    /// Files in the folder that have names of reports and are larger than any report: they are left alone.
    public var oversized: UInt64 = 0
    /// Calls of ``Recorder/Heartbeat/begin()`` and ``Recorder/Heartbeat/end()`` by another thread than the watched one: they did
    /// nothing.
    public var strayBeats: UInt64 = 0
    /// Threads that are watched now besides the main one.
    public var watchedThreads: UInt64 = 0
    /// Threads that are not watched because 256 were at the time.
    public var refusedThreads: UInt64 = 0

    /// Makes counters that are all zero.
    public init() {}

    init(_ stats: wedjat_stats) {
      turns = stats.turns
      shownFrames = stats.shown_frames
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
      strayBeats = stats.stray_beats
      watchedThreads = stats.watched_threads
      refusedThreads = stats.refused_threads
    }
  }
}
