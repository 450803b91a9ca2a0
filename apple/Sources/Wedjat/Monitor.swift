// The C library's monitor, guarded by a lock: no call uses it once it is uninstalled. And helpers for calls of C.
internal import CWedjat
import Foundation

nonisolated final class Monitor: @unchecked Sendable {
  // Unchecked: the lock guards both variables, and the C library takes its monitor from any thread.
  private let lock = NSCondition()
  private var pointer: OpaquePointer?
  private var calls = 0

  private init(_ pointer: OpaquePointer) { self.pointer = pointer }

  /// `install` returns what `wedjat_install` returned; it has room for a text of so many bytes.
  static func install(
    _ install: (UnsafeMutablePointer<CChar>, Int) -> OpaquePointer?
  ) throws(RecorderError) -> Monitor {
    let (pointer, text) = withRoom(for: 1024, install)
    guard let pointer else { throw RecorderError(installing: text) }
    return Monitor(pointer)
  }

  /// Calls `body` with the monitor, which stays until `body` has returned; with `nil` once it is uninstalled: C's functions
  /// do nothing with that.
  func use<T>(_ body: (OpaquePointer?) -> T) -> T {
    guard let pointer = begin() else { return body(nil) }
    defer { end() }
    return body(pointer)
  }

  /// The lock is not held meanwhile, for threads of the recorder's that this waits for may call `use`.
  func uninstall() {
    guard let pointer = close() else { return }
    wedjat_uninstall(pointer)
  }

  private func begin() -> OpaquePointer? {
    lock.lock()
    defer { lock.unlock() }
    if pointer != nil { calls += 1 }
    return pointer
  }

  private func end() {
    lock.lock()
    defer { lock.unlock() }
    calls -= 1
    if calls == 0 { lock.broadcast() }
  }

  /// The monitor, once no call uses it and no later one can.
  private func close() -> OpaquePointer? {
    lock.lock()
    defer { lock.unlock() }
    let last = pointer
    pointer = nil
    while calls > 0 { lock.wait() }
    return last
  }
}

/// A value that threads share.
nonisolated final class Locked<Value: Sendable>: @unchecked Sendable {
  // Unchecked: the lock guards the value.
  private let lock = NSLock()
  private var guarded: Value

  init(_ value: Value) { guarded = value }

  var value: Value {
    get { change { $0 } }
    set { change { $0 = newValue } }
  }

  func change<T>(_ body: (inout Value) -> T) -> T {
    lock.lock()
    defer { lock.unlock() }
    return body(&guarded)
  }
}

/// A value on its way through C.
nonisolated final class Box<Value> {
  let value: Value
  init(_ value: Value) { self.value = value }
}

/// Calls `fill` with room for `size` bytes, and returns its result and the text that it has written.
nonisolated func withRoom<T>(for size: Int, _ fill: (UnsafeMutablePointer<CChar>, Int) -> T) -> (T, String) {
  withUnsafeTemporaryAllocation(of: CChar.self, capacity: size) { room in
    room.initialize(repeating: 0)
    let start = room.baseAddress!
    return (fill(start, size), String(cString: start))
  }
}

nonisolated func seconds(_ nanoseconds: UInt64) -> TimeInterval { Double(nanoseconds) / 1e9 }
