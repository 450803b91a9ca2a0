// Reports that earlier launches left: listed, and sent.
internal import CWedjat
public import Foundation

nonisolated extension Recorder {
  /// The fate of a report that was to be sent.
  public enum Answer: String, Hashable, Codable, Sendable, CaseIterable {
    /// It arrived: it is removed.
    case accepted
    /// It will never be taken: it is set aside.
    case refused
    /// It cannot be taken now: it stays, and the next one is tried.
    case later
    /// No report can be taken now: this one and all later ones stay.
    case stop

    var inC: Int32 {
      let answer: wedjat_answer
      switch self {
      case .accepted: answer = WEDJAT_ACCEPTED
      case .refused: answer = WEDJAT_REFUSED
      case .later: answer = WEDJAT_LATER
      case .stop: answer = WEDJAT_STOP
      }
      return Int32(answer.rawValue)
    }
  }

  /// Counts of reports that were sent and that were not.
  public struct Sent: Hashable, Codable, Sendable {
    /// Reports that were accepted and removed.
    public var accepted: UInt64
    /// Reports that were set aside.
    public var refused: UInt64
    /// Reports that stay for another time.
    public var deferred: UInt64
    /// Reports that another sender has in hand.
    public var busy: UInt64

    /// Makes counts.
    public init(accepted: UInt64 = 0, refused: UInt64 = 0, deferred: UInt64 = 0, busy: UInt64 = 0) {
      (self.accepted, self.refused, self.deferred, self.busy) = (accepted, refused, deferred, busy)
    }
  }

  /// Returns the reports that earlier launches left in `directory`, oldest first.
  public static func reports(in directory: URL? = nil) throws(RecorderError) -> [URL] {
    let path = try (directory ?? defaultDirectory).pathOfFolder()
    let found = Found()
    let count = wedjat_reports(
      path,
      { path, data in
        guard let path, let data else { return }
        let found = Unmanaged<Found>.fromOpaque(data).takeUnretainedValue()
        found.urls.append(URL(fileURLWithPath: String(cString: path)))
      }, Unmanaged.passUnretained(found).toOpaque())
    guard count >= 0 else { throw RecorderError(.folderUnavailable, "The folder of reports cannot be read: \(path)") }
    return found.urls
  }

  /// Hands each report that earlier launches left in `directory` to `each`, oldest first, and removes, sets aside or keeps it
  /// by the answer.
  ///
  /// While `each` has a report, no other sender gets it, in this process or in another. The calling thread is blocked
  /// meanwhile: call ``send(from:isolation:_:)`` on the main thread and in tasks.
  @discardableResult
  public static func sendAndWait(
    from directory: URL? = nil, _ each: (URL) -> Answer
  ) throws(RecorderError) -> Sent {
    let path = try (directory ?? defaultDirectory).pathOfFolder()
    var sent = wedjat_sent()
    sent.size = MemoryLayout<wedjat_sent>.size
    let isDone = withoutActuallyEscaping(each) { each in
      let box = Box<(URL) -> Answer>(each)
      return withExtendedLifetime(box) {
        wedjat_send(
          path,
          { path, data in
            guard let path, let data else { return Answer.later.inC }
            let each = Unmanaged<Box<(URL) -> Answer>>.fromOpaque(data).takeUnretainedValue().value
            return each(URL(fileURLWithPath: String(cString: path))).inC
          }, Unmanaged.passUnretained(box).toOpaque(), &sent)
      }
    }
    guard isDone else {
      throw RecorderError(
        .folderUnavailable, "Reports in this folder could not be listed, removed or set aside: \(path)")
    }
    return Sent(accepted: sent.accepted, refused: sent.refused, deferred: sent.deferred, busy: sent.busy)
  }

  /// Hands each report that earlier launches left in `directory` to `each`, oldest first, and removes, sets aside or keeps it
  /// by the answer.
  ///
  /// `each` runs in the caller's task and on the caller's actor. Once the task is cancelled no further report is handed out;
  /// the rest stays for the next time. While `each` has a report, no other sender gets it, in this process or in another.
  ///
  /// - Parameters:
  ///   - directory: The folder of reports. By default ``defaultDirectory``.
  ///   - isolation: The caller's actor.
  ///   - each: Sends one report, and returns its fate.
  /// - Returns: Counts of reports by their fate.
  /// - Throws: ``RecorderError`` if the folder cannot be read, or if a report cannot be removed.
  @discardableResult
  public static func send(
    from directory: URL? = nil, isolation: isolated (any Actor)? = #isolation, _ each: (URL) async -> Answer
  ) async throws(RecorderError) -> Sent {
    let handover = Handover()
    // C's function waits for each answer, so it has a thread of its own: one of Swift's pool, or of Dispatch's, may be needed
    // for the answer.
    let thread = Thread {
      handover.end(
        Result { () throws(RecorderError) in try sendAndWait(from: directory) { handover.offer($0) } })
    }
    thread.name = "wedjat-send"
    thread.start()
    while true {
      switch await handover.next() {
      case .report(let url): handover.answer(Task.isCancelled ? .stop : await each(url))
      case .end(let result): return try result.get()
      }
    }
  }
}

/// Paths that C has listed so far; filled and read by one thread.
private nonisolated final class Found {
  var urls: [URL] = []
}

/// Reports on their way from the thread that lists them to the task that sends them, and answers on their way back.
private nonisolated final class Handover: Sendable {
  enum Step: Sendable {
    case report(URL)
    case end(Result<Recorder.Sent, RecorderError>)
  }
  private enum State: Sendable {
    case empty
    case ready(Step)
    case awaited(CheckedContinuation<Step, Never>)
  }
  private let state = Locked(State.empty)
  private let reply = Locked(Recorder.Answer.later)
  private let answered = DispatchSemaphore(value: 0)

  /// On the thread: returns the task's answer.
  func offer(_ url: URL) -> Recorder.Answer {
    put(.report(url))
    answered.wait()
    return reply.value
  }

  func end(_ result: Result<Recorder.Sent, RecorderError>) { put(.end(result)) }

  private func put(_ step: Step) {
    let awaiting = state.change { state -> CheckedContinuation<Step, Never>? in
      guard case .awaited(let continuation) = state else {
        state = .ready(step)
        return nil
      }
      state = .empty
      return continuation
    }
    awaiting?.resume(returning: step)
  }

  /// In the task: the next step, which the thread soon has, so that a cancelled task may wait for it too.
  func next(isolation: isolated (any Actor)? = #isolation) async -> Step {
    await withCheckedContinuation { continuation in
      let ready = state.change { state -> Step? in
        guard case .ready(let step) = state else {
          state = .awaited(continuation)
          return nil
        }
        state = .empty
        return step
      }
      if let ready { continuation.resume(returning: ready) }
    }
  }

  func answer(_ answer: Recorder.Answer) {
    reply.value = answer
    answered.signal()
  }
}
