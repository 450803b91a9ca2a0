// Why something could not be done.
internal import CWedjat
public import Foundation

/// The reason why something could not be done.
public nonisolated struct RecorderError: LocalizedError, CustomStringConvertible, Hashable, Codable, Sendable {
  /// The kind of an error.
  public enum Code: String, Hashable, Codable, Sendable, CaseIterable {
    /// A recorder is installed in this process already.
    case alreadyInstalled
    /// The URL of the folder is not a file URL.
    case notAFileURL
    /// The folder cannot be made, read or written to.
    case folderUnavailable
    /// Other users may write in the folder; see ``Recorder/Options/sharedDirectory``.
    case folderShared
    /// A handler of signals or exceptions could not be installed.
    case handlersUnavailable
    /// Memory, threads or file descriptors ran out.
    case outOfResources
    /// An option cannot be used.
    case invalidOptions
    /// The recorder is uninstalled, or belongs to the parent of a forked process.
    case notInstalled
    /// A report or stacks could not be written.
    case notRecorded
    /// The thread is watched already, or 256 threads are.
    case notWatched
  }
  /// The kind of the error.
  public let code: Code
  /// A sentence on what went wrong and what to do, in English.
  public let description: String
  /// The same as ``description``.
  public var errorDescription: String? { description }

  init(_ code: Code, _ description: String) {
    (self.code, self.description) = (code, description)
  }

  /// Why the calling thread could not be watched.
  static func watching() -> RecorderError {
    switch wedjat_last_error() {
    case WEDJAT_ERROR_NOT_INSTALLED: RecorderError(.notInstalled, "No recorder is installed in this process.")
    case WEDJAT_ERROR_WATCHED_ALREADY:
      RecorderError(
        .notWatched,
        "This thread is watched already. On the one that installed the recorder, use Recorder.heartbeat.")
    case WEDJAT_ERROR_TOO_MANY_THREADS:
      RecorderError(.notWatched, "256 threads are watched already. End the watch of one with unwatchThread().")
    default: RecorderError(.outOfResources, "Memory or threads ran out.")
    }
  }

  /// Why the last install on this thread failed; `text` is C's, whose words for Swift's are replaced.
  init(installing text: String) {
    switch wedjat_last_error() {
    case WEDJAT_ERROR_ALREADY_INSTALLED:
      self.init(
        .alreadyInstalled,
        "A recorder is installed in this process already. Use Recorder.shared, or call its uninstall() first.")
    case WEDJAT_ERROR_DIRECTORY: self.init(.folderUnavailable, text)
    case WEDJAT_ERROR_SHARED_DIRECTORY:
      self.init(
        .folderShared, text.replacingOccurrences(of: "allow it (shared_directory)", with: "set Options.sharedDirectory"))
    case WEDJAT_ERROR_SIGNAL: self.init(.handlersUnavailable, text)
    case WEDJAT_ERROR_RESOURCES: self.init(.outOfResources, text)
    case WEDJAT_ERROR_OPTIONS: self.init(.invalidOptions, text)
    default: self.init(.outOfResources, text)
    }
  }
}
