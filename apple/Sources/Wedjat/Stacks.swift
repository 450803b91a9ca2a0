// Reports and stacks that the app asks for.
internal import CWedjat
public import Foundation

nonisolated extension Recorder {
  /// Writes a report of all threads, now.
  ///
  /// - Parameter reason: Text for the report.
  /// - Returns: The report's file.
  @discardableResult
  public func record(_ reason: String? = nil) throws(RecorderError) -> URL {
    let (isWritten, text) = withRoom(for: 4096) { room, size in
      monitor.use { monitor -> Bool? in monitor.map { wedjat_record($0, reason, room, size) } }
    }
    guard let isWritten else { throw RecorderError(.notInstalled, "The recorder is uninstalled.") }
    guard isWritten else { throw RecorderError(.notRecorded, "The report could not be written: \(text)") }
    return URL(fileURLWithPath: text)
  }

  /// Threads whose stacks are wanted.
  public enum Threads: String, Hashable, Codable, Sendable, CaseIterable {
    /// The watched thread.
    case main
    /// The calling thread.
    case current
    /// All threads.
    case all
  }

  /// Returns stacks as text, one frame a line, innermost first, with names as they are in Swift; `nil` if they cannot be
  /// taken.
  public func stacks(of threads: Threads = .all) -> String? {
    let wanted: wedjat_threads
    switch threads {
    case .main: wanted = WEDJAT_THREADS_MAIN
    case .current: wanted = WEDJAT_THREADS_CURRENT
    case .all: wanted = WEDJAT_THREADS_ALL
    }
    return text(of: Int32(wanted.rawValue), size: 1 << 17).map(demangled)
  }

  /// Each call captures the stacks anew: there is a second one only if the text does not fit.
  private func text(of threads: Int32, size: Int) -> String? {
    let room = UnsafeMutablePointer<CChar>.allocate(capacity: size)
    defer { room.deallocate() }
    let length = monitor.use { wedjat_stacks($0, threads, room, size) }
    guard length >= 0 else { return nil }
    return length < size ? String(cString: room) : text(of: threads, size: length + 16384)
  }
}

/// Demangles each of Swift's names in `text`, by the language's runtime.
nonisolated func demangled(_ text: String) -> String {
  var (result, rest) = ("", text[...])
  while let start = rest.range(of: "$s") {
    let begin = rest[..<start.lowerBound].hasSuffix("_") ? rest.index(before: start.lowerBound) : start.lowerBound
    let end = rest[start.upperBound...].firstIndex { !($0.isLetter || $0.isNumber || $0 == "_" || $0 == "$") }
    let name = rest[start.lowerBound..<(end ?? rest.endIndex)]
    if let plain = demangle(String(name)) {
      result += rest[..<begin] + plain
    } else {
      result += rest[..<name.endIndex]
    }
    rest = rest[name.endIndex...]
  }
  return result + rest
}

private nonisolated func demangle(_ name: String) -> String? {
  guard let plain = swiftDemangle(name, UInt(name.utf8.count), nil, nil, 0) else { return nil }
  defer { free(plain) }
  return String(cString: plain)
}

/// Of the language's runtime library, where it is stable.
@_silgen_name("swift_demangle")
private nonisolated func swiftDemangle(
  _ name: UnsafePointer<CChar>, _ length: UInt, _ room: UnsafeMutablePointer<CChar>?,
  _ size: UnsafeMutablePointer<UInt>?, _ flags: UInt32
) -> UnsafeMutablePointer<CChar>?
