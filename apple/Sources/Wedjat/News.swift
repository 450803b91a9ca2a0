// Stalls and reports on their way from C to the app: to closures and to sequences.
internal import CWedjat
import Foundation

/// The receiver of C's callbacks. It outlives the monitor.
///
/// No closure of the app's runs on a thread of the recorder's, so that an uninstall, which waits for those, never waits for
/// the app.
nonisolated final class News: Sendable {
  let reports = Broadcast<URL>()
  let stalls = Broadcast<Recorder.Stall>()
  private let onReport: (@Sendable (URL) -> Void)?
  private let onStall: (@Sendable (Recorder.Stall) -> Void)?
  private let queue = DispatchQueue(label: "wedjat")
  private let kept = Locked<[Kept]>([])

  /// An object that C has a pointer to.
  private struct Kept: @unchecked Sendable {
    // Unchecked: it is only held.
    let object: AnyObject
  }

  init(onReport: (@Sendable (URL) -> Void)?, onStall: (@Sendable (Recorder.Stall) -> Void)?) {
    (self.onReport, self.onStall) = (onReport, onStall)
  }

  func keep(_ object: AnyObject) {
    let new = Kept(object: object)
    kept.change { $0.append(new) }
  }

  func finish() {
    reports.finish()
    stalls.finish()
  }

  /// Makes `options` call this object, which must live until the monitor is uninstalled.
  func put(into options: inout wedjat_options) {
    let data = Unmanaged.passUnretained(self).toOpaque()
    options.on_report_data = data
    options.on_report = { path, data in
      guard let path, let data else { return }
      let news = Unmanaged<News>.fromOpaque(data).takeUnretainedValue()
      news.report(URL(fileURLWithPath: String(cString: path)))
    }
    options.on_stall_data = data
    options.on_stall = { event, data in
      guard let event, let data else { return }
      Unmanaged<News>.fromOpaque(data).takeUnretainedValue().stall(Recorder.Stall(event.pointee))
    }
  }

  private func report(_ url: URL) {
    reports.send(url)
    if let onReport { queue.async { onReport(url) } }
  }

  private func stall(_ stall: Recorder.Stall) {
    stalls.send(stall)
    if let onStall { queue.async { onStall(stall) } }
  }
}

/// Sends each element to all sequences that are open.
nonisolated final class Broadcast<Element: Sendable>: Sendable {
  private struct State: Sendable {
    var open: [Int: AsyncStream<Element>.Continuation] = [:]
    var made = 0
    var isFinished = false
  }
  private let state = Locked(State())

  func stream() -> AsyncStream<Element> {
    AsyncStream(bufferingPolicy: .bufferingNewest(100)) { continuation in
      let number = state.change { state -> Int? in
        guard !state.isFinished else { return nil }
        state.made += 1
        state.open[state.made] = continuation
        return state.made
      }
      guard let number else { return continuation.finish() }
      continuation.onTermination = { [state] _ in state.change { _ = $0.open.removeValue(forKey: number) } }
    }
  }

  func send(_ element: Element) {
    for continuation in Array(state.value.open.values) { continuation.yield(element) }
  }

  /// Not under the lock, for the end of a sequence takes it.
  func finish() {
    let ended = state.change { state in
      state.isFinished = true
      return Array(state.open.values)
    }
    for continuation in ended { continuation.finish() }
  }
}
