// The recorder of the process: installed, shared, uninstalled.
internal import CWedjat
public import Foundation

/// The recorder of this process: it reports stalls of the main thread, and crashes.
///
/// Install it on the main thread, early:
///
/// ```swift
/// try Recorder.install()
/// ```
///
/// ``shared`` then is the recorder, until ``uninstall()``. All methods may be called from any thread and from any actor.
/// After ``uninstall()`` they do nothing.
public nonisolated final class Recorder: Sendable {
  /// The folder of its reports.
  public let directory: URL
  let monitor: Monitor
  let news: News

  private init(monitor: Monitor, news: News, directory: URL) {
    (self.monitor, self.news, self.directory) = (monitor, news, directory)
  }

  private static let current = Locked<Recorder?>(nil)

  /// The recorder of this process; `nil` before ``install(name:version:directory:options:onReport:onStall:)`` and after
  /// ``uninstall()``.
  public static var shared: Recorder? { current.value }

  /// Installs the recorder of this process. Call it on the thread to be watched: the main thread.
  ///
  /// On Apple platforms the main run loop is observed, and the app does nothing more. Elsewhere call
  /// ``watchMainQueue()``, ``watchByPing(_:)`` or use ``heartbeat``.
  ///
  /// - Parameters:
  ///   - name: The app's name in each report. By default the bundle's, or that of the program.
  ///   - version: The app's version in each report. By default the bundle's version and build, as "1.2.3 (45)".
  ///   - directory: The folder of reports. It is made if it is missing, for this user alone. By default
  ///     ``defaultDirectory``.
  ///   - options: What to record. By default stalls and crashes.
  ///   - onReport: Called with each report of a stall, of load or of a caught panic once it is whole, on a queue of the
  ///     recorder's. ``reports`` is the same as a sequence.
  ///   - onStall: Called when a stall is sure and when it is over, on the same queue. ``stalls`` is the same as a sequence.
  /// - Returns: The recorder, which is ``shared`` from now on.
  /// - Throws: ``RecorderError`` if there is a recorder already, or if the folder cannot be used.
  @discardableResult
  public static func install(
    name: String? = nil, version: String? = nil, directory: URL? = nil, options: Options = Options(),
    onReport: (@Sendable (URL) -> Void)? = nil, onStall: (@Sendable (Stall) -> Void)? = nil
  ) throws(RecorderError) -> Recorder {
    let folder = directory ?? defaultDirectory
    let path = try folder.pathOfFolder()
    let news = News(onReport: onReport, onStall: onStall)
    let monitor = try Monitor.install { error, size in
      options.withC(name: name ?? App.name, version: version ?? App.version, directory: path, news: news) {
        wedjat_install(&$0, error, size)
      }
    }
    if directory == nil { App.keepOutOfBackups(folder) }
    let recorder = Recorder(monitor: monitor, news: news, directory: folder)
    current.value = recorder
    return recorder
  }

  /// Restores every handler and ends the watch; ``shared`` is `nil` from now on.
  ///
  /// Sequences of ``stalls`` and ``reports`` end. Closures of the install may still be called with earlier stalls and reports.
  public func uninstall() {
    Recorder.current.change { if $0 === self { $0 = nil } }
    monitor.uninstall()
    news.finish()
  }

  /// The library's version, as "0.1.0".
  public static var libraryVersion: String { String(cString: wedjat_version()) }

  /// The folder of reports if none is given.
  ///
  /// On Apple platforms `Wedjat` in a folder of the bundle's name in Application Support; the install keeps it out of
  /// backups. Elsewhere `reports` in a folder of the program's name in `$XDG_STATE_HOME`, if that is an absolute path,
  /// or `$HOME/.local/state`.
  public static var defaultDirectory: URL { App.directory }
}
