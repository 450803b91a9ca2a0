// The app's own state, which is in every later report: keys, gauges, breadcrumbs, marks.
internal import CWedjat

nonisolated extension Recorder {
  /// Sets a key of the app's own to a text; `nil` removes the key.
  public func set(_ key: String, to value: (some StringProtocol)?) {
    guard let value else { return remove(key) }
    monitor.use { wedjat_set($0, key, String(value)) }
  }

  /// Sets a key of the app's own to an integer; `nil` removes the key. One that does not fit into 64 bits with a sign is set
  /// as text.
  public func set(_ key: String, to value: (some BinaryInteger)?) {
    guard let value else { return remove(key) }
    guard let number = Int64(exactly: value) else { return set(key, to: value.description) }
    monitor.use { wedjat_set_integer($0, key, number) }
  }

  /// Sets a key of the app's own to a number; `nil` removes the key.
  public func set(_ key: String, to value: (some BinaryFloatingPoint)?) {
    guard let value else { return remove(key) }
    monitor.use { wedjat_set_number($0, key, Double(value)) }
  }

  /// Sets a key of the app's own to true or false; `nil` removes the key.
  public func set(_ key: String, to value: Bool?) {
    guard let value else { return remove(key) }
    monitor.use { wedjat_set_bool($0, key, value) }
  }

  /// Removes a key.
  public func remove(_ key: String) { monitor.use { wedjat_remove($0, key) } }

  /// Sets a gauge: a number by name, such as the length of a queue.
  public func gauge(_ name: String, _ value: some BinaryInteger) { gauge(name, Double(value)) }

  /// Sets a gauge: a number by name, such as a temperature.
  public func gauge(_ name: String, _ value: some BinaryFloatingPoint) {
    monitor.use { wedjat_gauge($0, name, Double(value)) }
  }

  /// Leaves one line about what just happened, with the time.
  public func breadcrumb(_ line: String) { monitor.use { wedjat_breadcrumb($0, line) } }

  /// Marks the time that `work` takes, such as the decoding of a file.
  public func mark<T, Failure: Error>(_ name: String, _ work: () throws(Failure) -> T) throws(Failure) -> T {
    let mark = monitor.use { wedjat_mark_begin($0, name) }
    defer { monitor.use { wedjat_mark_end($0, mark) } }
    return try work()
  }

  /// Marks the time that `work` takes with what it awaits, such as a network call. `work` runs on the caller's actor.
  @_disfavoredOverload
  public func mark<T, Failure: Error>(
    _ name: String, isolation: isolated (any Actor)? = #isolation, _ work: () async throws(Failure) -> T
  ) async throws(Failure) -> T {
    let mark = monitor.use { wedjat_mark_begin($0, name) }
    defer { monitor.use { wedjat_mark_end($0, mark) } }
    return try await work()
  }
}
