// The recorder of the process: installed, watched, asked.
import CWedjat
import Foundation

/// The recorder of this process.
///
/// Install it on the main thread, early, and keep it for as long as the app runs: when the last reference goes, every
/// handler is taken back. All methods may be called from any thread.
///
/// ```swift
/// let recorder = try Recorder.install(name: "MyApp", version: "1.2.3", directory: reports)
/// ```
public final class Recorder: @unchecked Sendable {
  // Unchecked: the C library takes its monitor from any thread, and `kept` has a lock.
  private let monitor: OpaquePointer
  /// Closures that C has a pointer to; they outlive the monitor.
  private var kept: [AnyObject]
  private let lock = NSLock()

  private init(monitor: OpaquePointer, kept: [AnyObject]) {
    self.monitor = monitor
    self.kept = kept
  }

  deinit { wedjat_uninstall(monitor) }

  /// Installs the recorder. The main run loop is observed: the app makes no heartbeat calls.
  ///
  /// - Parameters:
  ///   - name: The app's name, which stands in each report.
  ///   - version: The app's version.
  ///   - directory: The folder of reports, of this user alone. It is made if it is missing.
  ///   - options: What to record. By default stalls and crashes.
  /// - Throws: ``RecorderError`` where there is a recorder already, or the folder cannot be used.
  public static func install(
    name: String, version: String, directory: URL, options: Options = Options()
  ) throws -> Recorder {
    let callbacks = Callbacks(onReport: options.onReport, onStall: options.onStall)
    var why = [CChar](repeating: 0, count: 512)
    let installed = options.withC(name: name, version: version, directory: directory, callbacks: callbacks) {
      options in wedjat_install(&options, &why, why.count)
    }
    guard let monitor = installed else { throw RecorderError(description: String(cString: why)) }
    return Recorder(monitor: monitor, kept: [callbacks])
  }

  /// The library's version, as "0.1.0".
  public static var libraryVersion: String { String(cString: wedjat_version()) }

  /// The heartbeat of a run loop that is not Apple's.
  public var heartbeat: Heartbeat { Heartbeat(beat: wedjat_get_heartbeat(monitor)) }

  /// Watches a main queue that no run loop works off (`dispatchMain`). Gives whether the watch began.
  @discardableResult
  public func watchMainQueue() -> Bool { wedjat_watch_main_queue(monitor) }

  /// Watches a loop that cannot be observed: `post` puts each beat into that loop's own queue.
  ///
  /// `post` runs on a thread of the recorder's until the recorder is gone. It must not keep the recorder alive. Gives
  /// whether the watch began: it does once, and only with ``Options/stall``.
  @discardableResult
  public func watchByPing(
    _ post: @escaping @Sendable (_ beat: @escaping @Sendable () -> Void) -> Void
  ) -> Bool {
    let box = Box<PostFunction>(post)
    lock.lock()
    kept.append(box)
    lock.unlock()
    return wedjat_watch_by_ping(
      monitor,
      { beat, data in
        guard let beat = beat, let data = data else { return }
        Unmanaged<Box<PostFunction>>.fromOpaque(data).takeUnretainedValue().value { beat() }
      }, Unmanaged.passUnretained(box).toOpaque())
  }

  /// Writes a report of all threads, now.
  ///
  /// - Parameter reason: Stands in the report.
  /// - Returns: The report's file.
  @discardableResult
  public func record(_ reason: String? = nil) throws -> URL {
    var path = [CChar](repeating: 0, count: 4096)
    guard wedjat_record(monitor, reason, &path, path.count) else {
      throw RecorderError(description: String(cString: path))
    }
    return URL(fileURLWithPath: String(cString: path))
  }

  /// Threads whose stacks are wanted.
  public enum Threads: Sendable {
    /// The watched thread.
    case main
    /// The calling thread.
    case current
    /// All of them.
    case all
  }

  /// Stacks as text, one frame a line, innermost first; `nil` where they cannot be taken.
  public func stacks(of threads: Threads = .all) -> String? {
    let wanted: wedjat_threads
    switch threads {
    case .main: wanted = WEDJAT_THREADS_MAIN
    case .current: wanted = WEDJAT_THREADS_CURRENT
    case .all: wanted = WEDJAT_THREADS_ALL
    }
    let number = Int32(wanted.rawValue)
    let length = wedjat_stacks(monitor, number, nil, 0)
    guard length >= 0 else { return nil }
    // The stacks change between the two calls.
    var text = [CChar](repeating: 0, count: length + 16384)
    return wedjat_stacks(monitor, number, &text, text.count) < 0 ? nil : String(cString: text)
  }

  /// A frame is shown: call it for each one.
  public func frame() { wedjat_frame(monitor) }

  /// The launch is over: the app can be used. Only the first call counts.
  public func launched() { wedjat_launched(monitor) }

  /// Says whether the app is in the foreground, as it is taken to be at first.
  public func setForeground(_ foreground: Bool) { wedjat_set_foreground(monitor, foreground) }

  /// Signals whose handlers somebody has replaced since the install, such as `SIGSEGV`.
  public var replacedSignals: [Int32] {
    var signals = [Int32](repeating: 0, count: 64)
    let count = wedjat_replaced_signals(monitor, &signals, signals.count)
    return Array(signals.prefix(count))
  }

  /// Counters since the install.
  public var stats: Stats {
    var stats = wedjat_stats()
    stats.size = MemoryLayout<wedjat_stats>.size
    _ = wedjat_get_stats(monitor, &stats)
    return Stats(stats)
  }

  /// How the launch before this one ended, even where it left no report; `nil` the first time.
  public var previousLaunch: PreviousLaunch? {
    var launch = wedjat_launch()
    launch.size = MemoryLayout<wedjat_launch>.size
    return wedjat_previous_launch(monitor, &launch) ? PreviousLaunch(launch) : nil
  }

  // MARK: - What the app says of its own state; it stands in every report from now on

  /// Sets a key of the app's own.
  public func set(_ key: String, to value: String) { wedjat_set(monitor, key, value) }
  /// Sets a key of the app's own to an integer.
  public func set(_ key: String, to value: Int) { wedjat_set_integer(monitor, key, Int64(value)) }
  /// Sets a key of the app's own to a number.
  public func set(_ key: String, to value: Double) { wedjat_set_number(monitor, key, value) }
  /// Sets a key of the app's own to true or false.
  public func set(_ key: String, to value: Bool) { wedjat_set_bool(monitor, key, value) }
  /// Takes a key away.
  public func remove(_ key: String) { wedjat_remove(monitor, key) }
  /// Sets a gauge: a number by name, such as a queue's length.
  public func gauge(_ name: String, _ value: Double) { wedjat_gauge(monitor, name, value) }
  /// Leaves one line about what just happened, with the time.
  public func breadcrumb(_ line: String) { wedjat_breadcrumb(monitor, line) }

  /// Marks the time that `work` takes, such as a network call or a page.
  public func mark<T>(_ name: String, _ work: () throws -> T) rethrows -> T {
    let mark = wedjat_mark_begin(monitor, name)
    defer { wedjat_mark_end(monitor, mark) }
    return try work()
  }

  /// Marks the time that `work` takes, with what it awaits.
  public func mark<T>(_ name: String, _ work: () async throws -> T) async rethrows -> T {
    let mark = wedjat_mark_begin(monitor, name)
    defer { wedjat_mark_end(monitor, mark) }
    return try await work()
  }
}

/// The heartbeat of a run loop: a plain value, to be copied wherever it is needed.
public struct Heartbeat: Sendable {
  let beat: wedjat_heartbeat

  /// The watched thread has something to do. Never blocks or allocates.
  public func begin() { wedjat_begin(beat) }
  /// The watched thread is about to wait for the next event. Never blocks or allocates.
  public func end() { wedjat_end(beat) }
  /// `begin` and `end` around `work`.
  public func turn<T>(_ work: () throws -> T) rethrows -> T {
    begin()
    defer { end() }
    return try work()
  }
}

/// The reason why something could not be done, as the library gives it.
public struct RecorderError: LocalizedError, CustomStringConvertible {
  /// One sentence, in English.
  public let description: String
  /// The same.
  public var errorDescription: String? { description }
}

typealias PostFunction = @Sendable (_ beat: @escaping @Sendable () -> Void) -> Void

/// A value on its way through C.
final class Box<Value> {
  let value: Value
  init(_ value: Value) { self.value = value }
}
