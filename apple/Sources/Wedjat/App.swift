// The app's name, version and folder, from its bundle or its process.
import Foundation

nonisolated enum App {
  static var name: String { text("CFBundleName") ?? ProcessInfo.processInfo.processName }

  /// As Apple's crash reports have it: the version and, in brackets, the build.
  static var version: String {
    let (version, build) = (text("CFBundleShortVersionString"), text("CFBundleVersion"))
    guard let version else { return build ?? "unknown" }
    guard let build, build != version else { return version }
    return "\(version) (\(build))"
  }

  static var directory: URL {
    #if canImport(Darwin)
      let support = FileManager.default.urls(for: .applicationSupportDirectory, in: .userDomainMask).first
      let owner = Bundle.main.bundleIdentifier ?? ProcessInfo.processInfo.processName
      return (support ?? home).appendingPathComponent(owner).appendingPathComponent("Wedjat")
    #else
      let state = path("XDG_STATE_HOME")
      let folder = state.map { URL(fileURLWithPath: $0) } ?? home.appendingPathComponent(".local/state")
      return folder.appendingPathComponent(ProcessInfo.processInfo.processName).appendingPathComponent("reports")
    #endif
  }

  /// Reports are of this device, and of use until they are sent.
  static func keepOutOfBackups(_ folder: URL) {
    #if canImport(Darwin)
      var (folder, values) = (folder, URLResourceValues())
      values.isExcludedFromBackup = true
      try? folder.setResourceValues(values)
    #endif
  }

  /// As the recorder in C and Rust has it: `HOME` before the user's entry in the list of users, which `NSHomeDirectory` reads.
  private static var home: URL {
    #if canImport(Darwin)
      URL(fileURLWithPath: NSHomeDirectory())
    #else
      URL(fileURLWithPath: path("HOME") ?? NSHomeDirectory())
    #endif
  }

  /// A variable that has an absolute path; a relative one would depend on the current folder, and is ignored.
  private static func path(_ variable: String) -> String? {
    ProcessInfo.processInfo.environment[variable].flatMap { $0.hasPrefix("/") ? $0 : nil }
  }

  private static func text(_ key: String) -> String? {
    (Bundle.main.object(forInfoDictionaryKey: key) as? String).flatMap { $0.isEmpty ? nil : $0 }
  }
}

nonisolated extension URL {
  /// The path of a folder, for the system.
  func pathOfFolder() throws(RecorderError) -> String {
    guard isFileURL else {
      throw RecorderError(.notAFileURL, "\(absoluteString) is no file URL. Make it by URL(fileURLWithPath:).")
    }
    return withUnsafeFileSystemRepresentation { $0.map { String(cString: $0) } } ?? path
  }
}
