// A stall, as the app learns of it while it runs.
internal import CWedjat
public import Foundation

nonisolated extension Recorder {
  /// A stall of the main thread, as it begins and as it ends. Times are in seconds.
  public struct Stall: Hashable, Codable, Sendable {
    /// The kind of a stall.
    public enum Kind: String, Hashable, Codable, Sendable, CaseIterable {
      /// There was no heartbeat yet.
      case launch
      /// The thread computed.
      case busy
      /// The thread waited.
      case blocked
      /// The thread was ready, and had no CPU.
      case starved
    }
    /// The end of a stall.
    public enum Outcome: String, Hashable, Codable, Sendable, CaseIterable {
      /// The thread handles events again.
      case recovered
      /// The recorder was uninstalled meanwhile.
      case uninstalled
      /// The thread ended.
      case threadEnded = "thread_ended"
    }
    /// The kind, by what the thread did; `nil` for a kind that this version of the package does not know.
    public var kind: Kind?
    /// True if the stall is over.
    public var isOver: Bool
    /// The end of the stall; `nil` while it lasts.
    public var outcome: Outcome?
    /// True if no heartbeat ever came: the stall is the launch.
    public var neverBeat: Bool
    /// Turns of the run loop so far; 1 for one long freeze.
    public var turns: Int
    /// Its begin, by the monotonic clock.
    public var start: TimeInterval
    /// Time so far.
    public var lasted: TimeInterval
    /// CPU time that the thread has used since the begin.
    public var cpu: TimeInterval
    /// Time in which the thread was ready but had no CPU.
    public var delay: TimeInterval

    /// Makes a stall, such as for a preview or a test.
    public init(
      kind: Kind?, isOver: Bool = false, outcome: Outcome? = nil, neverBeat: Bool = false, turns: Int = 1,
      start: TimeInterval = 0, lasted: TimeInterval, cpu: TimeInterval = 0, delay: TimeInterval = 0
    ) {
      (self.kind, self.isOver, self.outcome, self.neverBeat) = (kind, isOver, outcome, neverBeat)
      (self.turns, self.start, self.lasted, self.cpu, self.delay) = (turns, start, lasted, cpu, delay)
    }

    init(_ event: wedjat_stall_event) {
      self.init(
        kind: event.stall_class.flatMap { Kind(rawValue: String(cString: $0)) }, isOver: event.is_over,
        outcome: event.outcome.flatMap { Outcome(rawValue: String(cString: $0)) }, neverBeat: event.never_beat,
        turns: Int(event.turns), start: seconds(event.start), lasted: seconds(event.lasted), cpu: seconds(event.cpu),
        delay: seconds(event.delay))
    }
  }
}
