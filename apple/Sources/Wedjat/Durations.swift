// Times as `Duration`, where the system has it. The sources keep them in seconds, for older systems.
import Foundation

nonisolated extension TimeInterval {
  @available(iOS 16, macOS 13, macCatalyst 16, tvOS 16, visionOS 1, *)
  init(_ duration: Duration) {
    let (seconds, attoseconds) = duration.components
    self = Double(seconds) + Double(attoseconds) / 1e18
  }
}

@available(iOS 16, macOS 13, macCatalyst 16, tvOS 16, visionOS 1, *)
nonisolated extension Recorder.Options {
  /// Makes options with a budget for each capture: by default, stalls and crashes are reported.
  public init(
    stall: StallTrigger? = .init(), crash: CrashTrigger? = .init(), cpu: CPUTrigger? = nil,
    memory: MemoryTrigger? = nil, slowFrames: SlowFramesTrigger? = nil, resolveNames: Bool = false,
    allImages: Bool = false, maxOtherThreads: Int? = nil, stopBudget: Duration, captureSignal: Int32? = nil,
    limits: Limits = .init(), rates: Rates = .init(), sharedDirectory: Bool = false
  ) {
    self.init(
      stall: stall, crash: crash, cpu: cpu, memory: memory, slowFrames: slowFrames, resolveNames: resolveNames,
      allImages: allImages, maxOtherThreads: maxOtherThreads, stopBudget: TimeInterval(stopBudget),
      captureSignal: captureSignal, limits: limits, rates: rates, sharedDirectory: sharedDirectory)
  }
}

@available(iOS 16, macOS 13, macCatalyst 16, tvOS 16, visionOS 1, *)
nonisolated extension Recorder.Options.StallTrigger {
  /// Makes the conditions with a time for each strike.
  public init(timeout: Duration, strikes: Int? = nil, launchThreshold: Duration? = nil, launchWaits: Bool = false) {
    self.init(
      timeout: TimeInterval(timeout), strikes: strikes, launchThreshold: launchThreshold.map { TimeInterval($0) },
      launchWaits: launchWaits)
  }

  /// Makes the conditions with a time for the launch.
  public init(strikes: Int? = nil, launchThreshold: Duration, launchWaits: Bool = false) {
    self.init(timeout: nil, strikes: strikes, launchThreshold: TimeInterval(launchThreshold), launchWaits: launchWaits)
  }
}

@available(iOS 16, macOS 13, macCatalyst 16, tvOS 16, visionOS 1, *)
nonisolated extension Recorder.Options.CPUTrigger {
  /// Makes the condition with a time over which the use is averaged.
  public init(over: Duration, share: Double? = nil) { self.init(over: TimeInterval(over), share: share) }
}

@available(iOS 16, macOS 13, macCatalyst 16, tvOS 16, visionOS 1, *)
nonisolated extension Recorder.Options.SlowFramesTrigger {
  /// Makes the condition with a time for which frames are slow.
  public init(below: Double? = nil, cpuShare: Double? = nil, lasting: Duration) {
    self.init(below: below, cpuShare: cpuShare, lasting: TimeInterval(lasting))
  }
}

@available(iOS 16, macOS 13, macCatalyst 16, tvOS 16, visionOS 1, *)
nonisolated extension Recorder.Options.Rates {
  /// Makes rates with a first cooldown between reports of equal stalls.
  public init(
    sameStalls: Int? = nil, cooldown: Duration, reports: Int? = nil, captures: Int? = nil, bytes: Int? = nil
  ) {
    self.init(
      sameStalls: sameStalls, cooldown: TimeInterval(cooldown), reports: reports, captures: captures, bytes: bytes)
  }
}

@available(iOS 16, macOS 13, macCatalyst 16, tvOS 16, visionOS 1, *)
nonisolated extension Recorder.Stall {
  /// ``lasted``: time so far.
  public var duration: Duration { .seconds(lasted) }
  /// ``cpu``: CPU time that the thread has used since the begin.
  public var cpuDuration: Duration { .seconds(cpu) }
  /// ``delay``: time in which the thread was ready but had no CPU.
  public var delayDuration: Duration { .seconds(delay) }
}

@available(iOS 16, macOS 13, macCatalyst 16, tvOS 16, visionOS 1, *)
nonisolated extension Recorder.Stats {
  /// ``stalledTime``: time in stalls that are over.
  public var stalledDuration: Duration { .seconds(stalledTime) }
  /// ``longest``: length of the longest of them.
  public var longestDuration: Duration { .seconds(longest) }
  /// ``watchdogCPU``: CPU time of the recorder's own watching thread.
  public var watchdogCPUDuration: Duration { .seconds(watchdogCPU) }
}
