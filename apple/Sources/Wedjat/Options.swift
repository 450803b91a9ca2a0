// What to record. Each property has the default of the C interface (wedjat.h), which 0 stands for.
import CWedjat
import Foundation

extension Wedjat {
  public struct Options {
    /// Watch the installing thread for stalls: 50 ms without a beat, five times in a row.
    public var stalls = true
    /// Report fatal signals and exceptions.
    public var crashes = true
    /// With `crashes`: report bytes around the crash. They may be anything that the app holds.
    public var nearMemory = false
    /// Report when the process uses much CPU for long.
    public var cpu = false
    /// Report when the process has much memory of its own.
    public var memory = false
    /// Report when the frame rate (of `Wedjat.frame()`) stays low while the main thread is busy.
    public var slowFrames = false
    /// How long without a beat is one strike, milliseconds; 0 for 50.
    public var stallTimeoutMilliseconds: UInt32 = 0
    /// How many strikes in a row are a stall; 0 for 5.
    public var stallStrikes: UInt32 = 0
    /// How many reports the folder may hold; 0 for 100.
    public var mostReports: UInt32 = 0
    /// Called with each report of a stall once it is whole, on a thread of the recorder's.
    public var onReport: ((URL) -> Void)?

    public init() {}
  }
}

/// A callback on its way through C.
final class Callback {
  let call: (URL) -> Void
  init(_ call: @escaping (URL) -> Void) { self.call = call }
}

extension Wedjat.Options {
  /// As C has it. The texts live as long as the call of `body`.
  func withC<T>(
    name: String, version: String, directory: URL, callback: Callback?,
    _ body: (inout wedjat_options) -> T
  ) -> T {
    name.withCString { name in
      version.withCString { version in
        directory.path.withCString { directory in
          var options = wedjat_options()
          options.size = MemoryLayout<wedjat_options>.size
          options.name = name
          options.version = version
          options.directory = directory
          options.stall = stalls
          options.crash = crashes
          options.near_memory = nearMemory
          options.cpu = cpu
          options.memory = memory
          options.slow_frames = slowFrames
          options.stall_timeout_ms = stallTimeoutMilliseconds
          options.stall_strikes = stallStrikes
          options.limit_reports = mostReports
          if let callback = callback {
            options.on_report_data = Unmanaged.passUnretained(callback).toOpaque()
            options.on_report = { path, data in
              guard let path = path, let data = data else { return }
              let callback = Unmanaged<Callback>.fromOpaque(data).takeUnretainedValue()
              callback.call(URL(fileURLWithPath: String(cString: path)))
            }
          }
          return body(&options)
        }
      }
    }
  }
}
