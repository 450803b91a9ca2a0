// The watch of the main thread, and the recorder's answers: counters, stalls, reports, the previous launch.
internal import CWedjat
public import Foundation

nonisolated extension Recorder {
  /// The heartbeat of a run loop that cannot be observed.
  public var heartbeat: Heartbeat { Heartbeat(beat: monitor.use { wedjat_get_heartbeat($0) }) }

  /// Watches the main thread by the main dispatch queue, where the system observes no run loop.
  ///
  /// On Apple platforms this is for programs that call `dispatchMain()`. On Linux it is for all whose main thread works that
  /// queue off, by `RunLoop.main`, and for those with `dispatchMain()` or an async `main`. These leave the queue to threads of a
  /// pool: a stall's report has the stack of the thread that works it off at that moment.
  ///
  /// - Returns: True if the watch began. It begins once, and only with ``Options/stall``.
  @discardableResult
  public func watchMainQueue() -> Bool { monitor.use { wedjat_watch_main_queue($0) } }

  /// Watches a loop that cannot be observed: `post` puts each beat into that loop's own queue.
  ///
  /// `post` runs on a thread of the recorder's until ``uninstall()`` returns. If it blocks for ever, so does that.
  ///
  /// - Returns: True if the watch began. It begins once, and only with ``Options/stall``.
  @discardableResult
  public func watchByPing(
    _ post: @escaping @Sendable (_ beat: @escaping @Sendable () -> Void) -> Void
  ) -> Bool {
    let box = Box<PostFunction>(post)
    news.keep(box)
    return monitor.use {
      wedjat_watch_by_ping(
        $0,
        { beat, data in
          guard let beat, let data else { return }
          Unmanaged<Box<PostFunction>>.fromOpaque(data).takeUnretainedValue().value { beat() }
        }, Unmanaged.passUnretained(box).toOpaque())
    }
  }

  private typealias PostFunction = @Sendable (_ beat: @escaping @Sendable () -> Void) -> Void

  /// Watches the calling thread too, until ``unwatchThread()`` or its end. Reports of its stalls have `name`, cut after 64 bytes.
  ///
  /// The watch begins with the first beat. It is for a thread of your own, such as one with a run loop that renders. A dispatch
  /// queue is no thread: it has another one each time.
  ///
  /// - Parameters:
  ///   - timeout: Time without a beat that makes one strike, in seconds.
  ///   - strikes: Strikes in a row that make a stall.
  /// - Returns: The thread's heartbeat.
  /// - Throws: ``RecorderError`` if the thread is watched already, if 256 threads are, or without a recorder. The thread that
  ///   installed the recorder is watched already: use ``heartbeat`` there.
  public func watchThread(named name: String, timeout: TimeInterval = 0.05, strikes: Int = 5) throws(RecorderError)
    -> Heartbeat
  {
    try watched(monitor.use { wedjat_watch_thread($0, name, milliseconds(timeout), count32(strikes)) })
  }

  /// Watches the calling thread as ``watchThread(named:timeout:strikes:)`` does, as a member of the pool `name`.
  ///
  /// Members have numbers from 1 on, and share one limit of reports. A report of a stall has counts of the members that were in
  /// a stall and at rest.
  ///
  /// - Parameters:
  ///   - timeout: Time without a beat that makes one strike, in seconds.
  ///   - strikes: Strikes in a row that make a stall.
  /// - Returns: The thread's heartbeat.
  /// - Throws: ``RecorderError`` if the thread is watched already, if 256 threads are, or without a recorder. The thread that
  ///   installed the recorder is watched already: use ``heartbeat`` there.
  public func enterPool(named name: String, timeout: TimeInterval = 0.05, strikes: Int = 5) throws(RecorderError)
    -> Heartbeat
  {
    try watched(monitor.use { wedjat_enter($0, name, milliseconds(timeout), count32(strikes)) })
  }

  private func watched(_ beat: wedjat_heartbeat) throws(RecorderError) -> Heartbeat {
    guard beat.install != 0 else { throw RecorderError.watching() }
    return Heartbeat(beat: beat)
  }

  /// Ends the watch that ``watchThread(named:timeout:strikes:)`` or ``enterPool(named:timeout:strikes:)`` began on the calling
  /// thread; nothing on any other.
  public func unwatchThread() { monitor.use { wedjat_unwatch_thread($0) } }

  /// Calls `work` in a pause of the calling thread, such as for a dialog within a turn. Until it returns, only turns that
  /// begin within the pause can be stalls.
  ///
  /// Pauses nest. On a thread that is not watched it only calls `work`.
  public static func mayBlock<T, Failure: Error>(_ work: () throws(Failure) -> T) throws(Failure) -> T {
    wedjat_pause()
    defer { wedjat_resume() }
    return try work()
  }

  /// Counts a frame that is shown: call it for each one. See ``Options/slowFrames``.
  public func frame() { monitor.use { wedjat_frame($0) } }

  /// Ends the launch: the app can be used. Only the first call counts.
  public func launched() { monitor.use { wedjat_launched($0) } }

  /// Sets whether the app is in the foreground. Until the first call it is taken to be there.
  public func setForeground(_ foreground: Bool) { monitor.use { wedjat_set_foreground($0, foreground) } }

  /// Signals whose handlers have been replaced since the install, such as `SIGSEGV`.
  public var replacedSignals: [Int32] {
    var signals = [Int32](repeating: 0, count: 64)
    let count = monitor.use { wedjat_replaced_signals($0, &signals, signals.count) }
    return Array(signals.prefix(count))
  }

  /// Counters since the install; all zeros after ``uninstall()``.
  public var stats: Stats {
    var stats = wedjat_stats()
    stats.size = MemoryLayout<wedjat_stats>.size
    _ = monitor.use { wedjat_get_stats($0, &stats) }
    return Stats(stats)
  }

  /// The end of the launch before this one, even if it left no report; `nil` the first time.
  public var previousLaunch: PreviousLaunch? {
    var launch = wedjat_launch()
    launch.size = MemoryLayout<wedjat_launch>.size
    return monitor.use { wedjat_previous_launch($0, &launch) } ? PreviousLaunch(launch) : nil
  }

  /// Stalls of the main thread from now on, each as it begins and as it ends.
  ///
  /// Each use of this property is a sequence of its own, with room for the newest 100. It ends with ``uninstall()``.
  public var stalls: AsyncStream<Stall> { news.stalls.stream() }

  /// Reports from now on, each once it is whole: of stalls, of load and of caught panics. Crashes are left for the next
  /// launch; see ``send(from:isolation:_:)``.
  ///
  /// Each use of this property is a sequence of its own, with room for the newest 100. It ends with ``uninstall()``.
  public var reports: AsyncStream<URL> { news.reports.stream() }
}
