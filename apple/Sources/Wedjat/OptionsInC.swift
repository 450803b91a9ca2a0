// Options as C has them (wedjat.h).
internal import CWedjat
import Foundation

// 0 is the default in C. A number that is too small or too large becomes the nearest allowed number, and NaN the default.

nonisolated func milliseconds(_ time: TimeInterval?) -> UInt32 { scaled(time, 1e3) }
nonisolated func microseconds(_ time: TimeInterval?) -> UInt32 { scaled(time, 1e6) }
nonisolated func scaled(_ time: TimeInterval?, _ factor: Double) -> UInt32 {
  guard let time, !time.isNaN else { return 0 }
  return UInt32(min(max(time * factor, 1), 4e9))
}
nonisolated func count32(_ number: Int?) -> UInt32 { number.map { UInt32(clamping: max($0, 1)) } ?? 0 }
nonisolated func count64(_ number: Int?) -> UInt64 { number.map { UInt64(max($0, 1)) } ?? 0 }
nonisolated func share(_ number: Double?) -> Double {
  guard let number, !number.isNaN else { return 0 }
  return min(max(number, 1e-6), 1e6)
}
nonisolated func signalNumber(_ number: Int32?) -> Int32 { number ?? 0 }
nonisolated func threadLimit(_ number: Int?) -> Int32 { number.map { $0 <= 0 ? -1 : Int32(clamping: $0) } ?? 0 }

nonisolated extension Recorder.Options {
  /// Calls `body` with the options as C has them. Their texts live as long as the call.
  func withC<T>(
    name: String, version: String, directory: String, news: News, _ body: (inout wedjat_options) -> T
  ) -> T {
    name.withCString { name in
      version.withCString { version in
        directory.withCString { directory in
          var options = wedjat_options_init(name, version, directory)
          options.stall = stall != nil
          options.stall_launch_waits = stall?.launchWaits ?? false
          options.stall_timeout_ms = milliseconds(stall?.timeout)
          options.stall_strikes = count32(stall?.strikes)
          options.launch_threshold_ms = milliseconds(stall?.launchThreshold)
          options.crash = crash != nil
          options.sigterm = crash?.sigterm ?? false
          options.leave_to_debugger = crash?.leaveToDebugger ?? false
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
          options.resolve_names = resolveNames
          options.all_images = allImages
          options.max_other_threads = threadLimit(maxOtherThreads)
          options.stop_budget_us = microseconds(stopBudget)
          options.capture_signal = signalNumber(captureSignal)
          options.limit_reports = count32(limits.reports)
          options.limit_bytes = count64(limits.bytes)
          options.same_stalls = count32(rates.sameStalls)
          options.cooldown_ms = milliseconds(rates.cooldown)
          options.reports_per_hour = count32(rates.reports)
          options.captures_per_hour = count32(rates.captures)
          options.bytes_per_hour = count64(rates.bytes)
          options.shared_directory = sharedDirectory
          news.put(into: &options)
          return body(&options)
        }
      }
    }
  }
}
