// What was the main thread doing when the app froze or died? A thin layer over the C interface (wedjat.h).
import CWedjat
import Foundation

/// The recorder of this process. Install it on the main thread, early, and keep it for as long as the app runs.
public final class Wedjat {
  private let monitor: OpaquePointer
  private let callback: Callback?

  public struct InstallError: Error, CustomStringConvertible {
    public let description: String
  }

  private init(monitor: OpaquePointer, callback: Callback?) {
    self.monitor = monitor
    self.callback = callback
  }

  deinit { wedjat_uninstall(monitor) }

  /// Installs the recorder. Its main run loop is observed: the app writes no heartbeat calls.
  public static func install(
    name: String, version: String, directory: URL, options: Options = Options()
  ) throws -> Wedjat {
    let callback = options.onReport.map(Callback.init)
    var why = [CChar](repeating: 0, count: 512)
    let monitor = options.withC(
      name: name, version: version, directory: directory, callback: callback
    ) { options in
      wedjat_install(&options, &why, why.count)
    }
    guard let monitor = monitor else { throw InstallError(description: String(cString: why)) }
    return Wedjat(monitor: monitor, callback: callback)
  }

  /// Writes a report of all threads, now.
  @discardableResult
  public func record(_ reason: String) throws -> URL {
    var path = [CChar](repeating: 0, count: 4096)
    guard wedjat_record(monitor, reason, &path, path.count) else {
      throw InstallError(description: String(cString: path))
    }
    return URL(fileURLWithPath: String(cString: path))
  }

  /// Watches a main queue that no run loop works off (`dispatchMain`).
  @discardableResult
  public func watchMainQueue() -> Bool { wedjat_watch_main_queue(monitor) }

  /// A frame is shown.
  public func frame() { wedjat_frame(monitor) }

  /// The launch is over: the app can be used.
  public func launched() { wedjat_launched(monitor) }

  /// Whether the app is in the foreground.
  public func setForeground(_ foreground: Bool) { wedjat_set_foreground(monitor, foreground) }

  // What the app says of its own state; it stands in every report from now on.

  public func set(_ key: String, _ value: String) { wedjat_set(monitor, key, value) }
  public func set(_ key: String, _ value: Int) { wedjat_set_integer(monitor, key, Int64(value)) }
  public func set(_ key: String, _ value: Double) { wedjat_set_number(monitor, key, value) }
  public func set(_ key: String, _ value: Bool) { wedjat_set_bool(monitor, key, value) }
  public func remove(_ key: String) { wedjat_remove(monitor, key) }
  public func gauge(_ name: String, _ value: Double) { wedjat_gauge(monitor, name, value) }
  public func breadcrumb(_ line: String) { wedjat_breadcrumb(monitor, line) }

  /// Marks the time that `work` takes, as a network call or a page.
  public func mark<T>(_ name: String, _ work: () throws -> T) rethrows -> T {
    let mark = wedjat_mark_begin(monitor, name)
    defer { wedjat_mark_end(monitor, mark) }
    return try work()
  }

  /// The same around an `await`.
  public func mark<T>(_ name: String, _ work: () async throws -> T) async rethrows -> T {
    let mark = wedjat_mark_begin(monitor, name)
    defer { wedjat_mark_end(monitor, mark) }
    return try await work()
  }

  func previous(_ launch: inout wedjat_launch) -> Bool { wedjat_previous_launch(monitor, &launch) }

  /// The stacks of all threads as text.
  public func stacks() -> String {
    let all = Int32(WEDJAT_THREADS_ALL.rawValue)
    var size = wedjat_stacks(monitor, all, nil, 0)
    // The stacks change between the two calls.
    guard size >= 0 else { return "" }
    var text = [CChar](repeating: 0, count: size + 16384)
    size = wedjat_stacks(monitor, all, &text, text.count)
    return size < 0 ? "" : String(cString: text)
  }
}
