// What to record, in Swift, and the same in C (wedjat.h).
import CWedjat
import Foundation

/// What to record, and how much of it.
///
/// A trigger that is `nil` is off. A number that is `nil` stands for the library's default, named beside it. Times are
/// in seconds.
public struct Options: Sendable {
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
  /// Give frames names from the images' own symbols.
  public var names = false
  /// List all images of the process, not only those that frames point into.
  public var allImages = false
  /// Most threads in a report beside the first (1024); 0 for none.
  public var threads: Int?
  /// Longest time a capture may stop a thread (0.001).
  public var stopBudget: TimeInterval?
  /// What the folder may hold.
  public var limits = Limits()
  /// What may be written within an hour.
  public var rates = Rates()
  /// Take the folder even where others may write in it. They can then remove reports.
  public var sharedDirectory = false
  /// Called with each report of a stall, of load or of a caught panic once it is whole, on a thread of the recorder's.
  public var onReport: (@Sendable (URL) -> Void)?
  /// Called when a stall is sure and when it is over, on a thread of the recorder's. It must not block.
  public var onStall: (@Sendable (Stall) -> Void)?

  public init() {}

  /// When the main thread is stalled.
  public struct StallTrigger: Sendable {
    /// Time without a beat that makes one strike (0.05).
    public var timeout: TimeInterval?
    /// Strikes in a row that make a stall (5).
    public var strikes: Int?
    /// Time the launch may take (as long as a later turn).
    public var launch: TimeInterval?
    /// Whatever the thread waits for before its first beat counts as part of the launch.
    public var launchWaits = false

    public init(timeout: TimeInterval? = nil, strikes: Int? = nil, launch: TimeInterval? = nil) {
      (self.timeout, self.strikes, self.launch) = (timeout, strikes, launch)
    }
  }

  /// What of a crash is reported.
  public struct CrashTrigger: Sendable {
    /// Report SIGTERM too.
    public var sigterm = false
    /// Report while a debugger is attached; otherwise signals are left to it.
    public var whileDebugged = true
    /// Report bytes around the crash. They may be anything that the app holds.
    public var nearMemory = false

    public init() {}
  }

  /// When the use of CPU is reported.
  public struct CPUTrigger: Sendable {
    /// Over how long (60).
    public var over: TimeInterval?
    /// Share of one core (0.8; two cores are 2.0).
    public var share: Double?

    public init(over: TimeInterval? = nil, share: Double? = nil) { (self.over, self.share) = (over, share) }
  }

  /// When the use of memory is reported.
  public struct MemoryTrigger: Sendable {
    /// Above so many bytes (by the share alone).
    public var bytes: Int?
    /// Without `bytes`: above this share of what the process may have (0.8).
    public var share: Double?

    public init(bytes: Int? = nil, share: Double? = nil) { (self.bytes, self.share) = (bytes, share) }
  }

  /// When slow frames are reported.
  public struct SlowFramesTrigger: Sendable {
    /// Below so many frames a second (30).
    public var below: Double?
    /// While the thread uses more than this share of a core (0.6).
    public var cpuShare: Double?
    /// For so long (5).
    public var lasting: TimeInterval?

    public init(below: Double? = nil, cpuShare: Double? = nil, lasting: TimeInterval? = nil) {
      (self.below, self.cpuShare, self.lasting) = (below, cpuShare, lasting)
    }
  }

  /// What the folder may hold: the oldest reports are removed.
  public struct Limits: Sendable {
    /// Most reports (100).
    public var reports: Int?
    /// Most bytes of all reports together (32 MiB).
    public var bytes: Int?
  }

  /// What may be written within an hour.
  public struct Rates: Sendable {
    /// Stalls with one heaviest stack that are all reported before pauses begin (5).
    public var sameStalls: Int?
    /// The first pause between reports of equal stalls after that (60).
    public var samePause: TimeInterval?
    /// Most reports (60).
    public var reports: Int?
    /// Most stacks of the main thread (20,000).
    public var captures: Int?
    /// Most bytes of reports (32 MiB).
    public var bytes: Int?
  }
}

// Numbers as C has them: 0 stands for the default there. What is out of range becomes the nearest number.

func milliseconds(_ time: TimeInterval?) -> UInt32 { scaled(time, 1e3) }
func microseconds(_ time: TimeInterval?) -> UInt32 { scaled(time, 1e6) }
func scaled(_ time: TimeInterval?, _ factor: Double) -> UInt32 {
  guard let time = time, time > 0 else { return 0 }
  return UInt32(min(max(time * factor, 1), 4e9))
}
func count32(_ number: Int?) -> UInt32 { UInt32(clamping: number ?? 0) }
func count64(_ number: Int?) -> UInt64 { UInt64(clamping: number ?? 0) }
func share(_ number: Double?) -> Double { number ?? 0 }
func threadLimit(_ number: Int?) -> Int32 { number.map { $0 <= 0 ? -1 : Int32(clamping: $0) } ?? 0 }

extension Options {
  /// As C has it. The texts live as long as the call of `body`.
  func withC<T>(
    name: String, version: String, directory: URL, callbacks: Callbacks,
    _ body: (inout wedjat_options) -> T
  ) -> T {
    name.withCString { name in
      version.withCString { version in
        directory.withUnsafeFileSystemRepresentation { directory in
          var options = wedjat_options()
          options.size = MemoryLayout<wedjat_options>.size
          options.name = name
          options.version = version
          options.directory = directory
          options.stall = stall != nil
          options.stall_launch_waits = stall?.launchWaits ?? false
          options.stall_timeout_ms = milliseconds(stall?.timeout)
          options.stall_strikes = count32(stall?.strikes)
          options.launch_ms = milliseconds(stall?.launch)
          options.crash = crash != nil
          options.sigterm = crash?.sigterm ?? false
          options.not_debugged = crash?.whileDebugged == false
          options.near_memory = crash?.nearMemory ?? false
          options.cpu = cpu != nil
          options.cpu_over_ms = milliseconds(cpu?.over)
          options.cpu_share = share(cpu?.share)
          options.memory = memory != nil
          options.memory_bytes = count64(memory?.bytes)
          options.memory_share = share(memory?.share)
          options.slow_frames = slowFrames != nil
          options.frames_below = share(slowFrames?.below)
          options.frames_cpu_share = share(slowFrames?.cpuShare)
          options.frames_lasting_ms = milliseconds(slowFrames?.lasting)
          options.names = names
          options.all_images = allImages
          options.threads = threadLimit(threads)
          options.stop_budget_us = microseconds(stopBudget)
          options.limit_reports = count32(limits.reports)
          options.limit_bytes = count64(limits.bytes)
          options.same_stalls = count32(rates.sameStalls)
          options.same_pause_ms = milliseconds(rates.samePause)
          options.reports_per_hour = count32(rates.reports)
          options.captures_per_hour = count32(rates.captures)
          options.bytes_per_hour = count64(rates.bytes)
          options.shared_directory = sharedDirectory
          callbacks.put(into: &options)
          return body(&options)
        }
      }
    }
  }
}
