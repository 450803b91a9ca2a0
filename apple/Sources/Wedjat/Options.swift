// What to record.
public import Foundation

nonisolated extension Recorder {
  /// The triggers of a recorder, and their limits.
  ///
  /// A trigger that is `nil` is off. A number that is `nil` is the library's default, named beside it. A number that is too
  /// small or too large is replaced by the nearest allowed number. Times are in seconds; initializers take `Duration`, too.
  public struct Options: Hashable, Codable, Sendable {
    /// Watch the installing thread for stalls.
    public var stall: StallTrigger? = StallTrigger()
    /// Report fatal signals and exceptions.
    public var crash: CrashTrigger? = CrashTrigger()
    /// Report when the process uses much CPU for long.
    public var cpu: CPUTrigger?
    /// Report when the process has much memory of its own.
    public var memory: MemoryTrigger?
    /// Report when the frame rate stays low while the main thread is busy; see ``Recorder/frame()``.
    public var slowFrames: SlowFramesTrigger?
    /// Add names from the images' own symbols to frames.
    public var resolveNames = false
    /// List all images of the process, not only those that frames point into.
    public var allImages = false
    /// Most threads in a report beside the first (1024); 0 for none.
    public var maxOtherThreads: Int?
    /// Longest time a capture may stop a thread (0.001).
    public var stopBudget: TimeInterval?
    /// On Linux: the real-time signal that stops threads (the first free one).
    public var captureSignal: Int32?
    /// Limits of the folder.
    public var limits: Limits
    /// Limits of an hour.
    public var rates: Rates
    /// Use the folder even if others may write in it. They can then remove reports, and forge how the last launch ended.
    public var sharedDirectory = false

    /// Makes options: by default, stalls and crashes are reported.
    public init(
      stall: StallTrigger? = .init(), crash: CrashTrigger? = .init(), cpu: CPUTrigger? = nil,
      memory: MemoryTrigger? = nil, slowFrames: SlowFramesTrigger? = nil, resolveNames: Bool = false,
      allImages: Bool = false, maxOtherThreads: Int? = nil, stopBudget: TimeInterval? = nil,
      captureSignal: Int32? = nil, limits: Limits = .init(), rates: Rates = .init(), sharedDirectory: Bool = false
    ) {
      (self.stall, self.crash, self.cpu, self.memory) = (stall, crash, cpu, memory)
      (self.slowFrames, self.resolveNames, self.allImages) = (slowFrames, resolveNames, allImages)
      (self.maxOtherThreads, self.stopBudget, self.captureSignal) = (maxOtherThreads, stopBudget, captureSignal)
      (self.limits, self.rates, self.sharedDirectory) = (limits, rates, sharedDirectory)
    }
  }
}

nonisolated extension Recorder.Options {
  /// The conditions of a stall of the main thread.
  public struct StallTrigger: Hashable, Codable, Sendable {
    /// Time without a beat that makes one strike (0.05).
    public var timeout: TimeInterval?
    /// Strikes in a row that make a stall (5).
    public var strikes: Int?
    /// Time the launch may take (as long as a later turn).
    public var launchThreshold: TimeInterval?
    /// Count whatever the thread waits for before its first beat as part of the launch.
    public var launchWaits = false

    /// Makes the conditions.
    public init(
      timeout: TimeInterval? = nil, strikes: Int? = nil, launchThreshold: TimeInterval? = nil,
      launchWaits: Bool = false
    ) {
      (self.timeout, self.strikes) = (timeout, strikes)
      (self.launchThreshold, self.launchWaits) = (launchThreshold, launchWaits)
    }
  }

  /// The crashes that are reported, and the content of their reports.
  public struct CrashTrigger: Hashable, Codable, Sendable {
    /// Report SIGTERM too.
    public var sigterm = false
    /// Leave signals to the debugger while one is attached.
    public var leaveToDebugger = false
    /// Report bytes around the crash. They may be anything that the app holds.
    public var nearMemory = false

    /// Makes the choice.
    public init(sigterm: Bool = false, leaveToDebugger: Bool = false, nearMemory: Bool = false) {
      (self.sigterm, self.leaveToDebugger, self.nearMemory) = (sigterm, leaveToDebugger, nearMemory)
    }
  }

  /// The use of CPU that is reported.
  public struct CPUTrigger: Hashable, Codable, Sendable {
    /// Time over which the use is averaged (60).
    public var over: TimeInterval?
    /// Share of one core (0.8; two cores are 2.0).
    public var share: Double?

    /// Makes the condition.
    public init(over: TimeInterval? = nil, share: Double? = nil) { (self.over, self.share) = (over, share) }
  }

  /// The use of memory that is reported.
  public struct MemoryTrigger: Hashable, Codable, Sendable {
    /// Most bytes that are not reported (by the share alone).
    public var bytes: Int?
    /// Without `bytes`: largest share of the process' limit that is not reported (0.8).
    public var share: Double?

    /// Makes the condition.
    public init(bytes: Int? = nil, share: Double? = nil) { (self.bytes, self.share) = (bytes, share) }
  }

  /// The slow frames that are reported.
  public struct SlowFramesTrigger: Hashable, Codable, Sendable {
    /// Frames a second that are enough (30).
    public var below: Double?
    /// Share of a core that the thread must use (0.6).
    public var cpuShare: Double?
    /// Time for which both hold (5).
    public var lasting: TimeInterval?

    /// Makes the condition.
    public init(below: Double? = nil, cpuShare: Double? = nil, lasting: TimeInterval? = nil) {
      (self.below, self.cpuShare, self.lasting) = (below, cpuShare, lasting)
    }
  }

  /// Limits of the folder: the oldest reports are removed first.
  public struct Limits: Hashable, Codable, Sendable {
    /// Most reports (100).
    public var reports: Int?
    /// Most bytes of all reports together (32 MiB).
    public var bytes: Int?

    /// Makes limits.
    public init(reports: Int? = nil, bytes: Int? = nil) { (self.reports, self.bytes) = (reports, bytes) }
  }

  /// Limits of an hour.
  public struct Rates: Hashable, Codable, Sendable {
    /// Most stalls with the same heaviest stack that are reported before a cooldown (5).
    public var sameStalls: Int?
    /// First cooldown between reports of equal stalls after that (60).
    public var cooldown: TimeInterval?
    /// Most reports (60).
    public var reports: Int?
    /// Most stacks of the main thread (20,000).
    public var captures: Int?
    /// Most bytes of reports (32 MiB).
    public var bytes: Int?

    /// Makes rates.
    public init(
      sameStalls: Int? = nil, cooldown: TimeInterval? = nil, reports: Int? = nil, captures: Int? = nil,
      bytes: Int? = nil
    ) {
      (self.sameStalls, self.cooldown) = (sameStalls, cooldown)
      (self.reports, self.captures, self.bytes) = (reports, captures, bytes)
    }
  }
}
