// The heartbeat of a run loop that cannot be observed.
internal import CWedjat

nonisolated extension Recorder {
  /// The heartbeat of a run loop: a plain value, to be copied wherever it is needed. After ``Recorder/uninstall()`` it does
  /// nothing.
  public struct Heartbeat: Sendable {
    let beat: wedjat_heartbeat

    /// Begins a turn: the watched thread has something to do. Never blocks or allocates.
    public func begin() { wedjat_begin(beat) }

    /// Ends a turn: the watched thread is about to wait for the next event. Never blocks or allocates.
    public func end() { wedjat_end(beat) }

    /// Calls ``begin()`` and ``end()`` around `work`.
    public func turn<T, Failure: Error>(_ work: () throws(Failure) -> T) throws(Failure) -> T {
      begin()
      defer { end() }
      return try work()
    }

    /// Calls ``begin()`` and ``end()`` around `work` and what it awaits, on the caller's actor.
    @_disfavoredOverload
    public func turn<T, Failure: Error>(
      isolation: isolated (any Actor)? = #isolation, _ work: () async throws(Failure) -> T
    ) async throws(Failure) -> T {
      begin()
      defer { end() }
      return try await work()
    }
  }
}
