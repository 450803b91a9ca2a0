// Code of an app that uses the package; suites/swift/flags compiles it with each flag. `Sentry` is a module with the same names.
import Foundation
import Sentry
import Wedjat

/// Not Sendable.
nonisolated final class Prices {
  var count = 0
}

func load(_ prices: Prices, isolation: isolated (any Actor)? = #isolation) async throws -> Prices {
  await Task.yield()
  prices.count += 1
  return prices
}

@MainActor
final class Screen {
  let prices = Prices()
  var shown: Prices?
  var title = ""

  func appear(_ recorder: Recorder) async throws {
    shown = try await recorder.mark("load") { try await load(prices) }
    title = recorder.mark("title") { "\(prices.count)" }
    let same = await recorder.mark("wait") { () async -> Prices in
      await Task.yield()
      title = "waited"
      return prices
    }
    same.count += 1
    try await recorder.heartbeat.turn { try await Task.sleep(nanoseconds: 1) }
    recorder.heartbeat.turn { title = "turned" }
  }

  func send(from folder: URL) async throws -> Recorder.Sent {
    try await Recorder.send(from: folder) { url in
      title = url.lastPathComponent
      prices.count += 1
      return await upload(url) ? .accepted : .later
    }
  }

  func upload(_ url: URL) async -> Bool { await Task.yield(); return title == url.lastPathComponent }
}

actor Cache {
  let prices = Prices()

  func fill() async throws {
    guard let recorder = Recorder.shared else { return }
    _ = try await recorder.mark("fill") { try await load(prices) }
    recorder.set("filled", to: prices.count)
    try await Recorder.send { [prices] _ in prices.count += 1; return .later }
  }
}

nonisolated func plain() {
  Recorder.shared?.breadcrumb("plain")
  let options = Options()
  options.stats = Stats()
}

func each(_ recorder: Recorder, _ array: [Int], _ text: Substring, _ size: CGFloat, _ none: Int?) {
  recorder.set("text", to: text)
  recorder.set("string", to: "text")
  recorder.set("int32", to: Int32(1))
  recorder.set("uint64", to: UInt64.max)
  recorder.set("float", to: Float(1))
  recorder.set("size", to: size)
  recorder.set("literal", to: 3)
  recorder.set("number", to: 2.5)
  recorder.set("bool", to: true)
  recorder.set("none", to: none)
  recorder.set("name", to: Optional("x"))
  recorder.set("gone", to: nil)
  recorder.gauge("count", array.count)
  recorder.gauge("share", 0.5)
  recorder.gauge("size", size)
}

func options() throws -> Recorder.Options {
  var options = Recorder.Options(stall: nil, resolveNames: true)
  options.stall = .init(launchWaits: true)
  options.stall = .init(timeout: 0.1, strikes: 3)
  options.stall = .init(timeout: .milliseconds(100), strikes: 3)
  options.stall = .init(launchThreshold: .seconds(5))
  options.cpu = .init(over: .seconds(60), share: 0.5)
  options.limits = .init(reports: 5)
  options.rates = .init(cooldown: .seconds(1))
  options.crash?.sigterm = true
  let data = try JSONEncoder().encode(options)
  let decoded = try JSONDecoder().decode(Recorder.Options.self, from: data)
  precondition(decoded == options)
  precondition(Set([options]).count == 1)
  return options
}

func install(into folder: URL) {
  do {
    try Recorder.install(name: "Client", version: "1", directory: folder, options: options()) { report in
      print(report.path)
    } onStall: { stall in
      print(stall.duration > .seconds(1), stall.lasted)
    }
  } catch let error as RecorderError where error.code == .alreadyInstalled {
    print(error.localizedDescription)
  } catch {
    print(error)
  }
}

/// The error of each function that throws has a type.
nonisolated func typed(_ recorder: Recorder, _ folder: URL) async -> RecorderError.Code? {
  do {
    try Recorder.install()
    try recorder.record("button")
    _ = try Recorder.reports(in: folder)
    try Recorder.sendAndWait(from: folder) { _ in .stop }
    try await Recorder.send(from: folder) { _ in .stop }
    return nil
  } catch {
    return error.code
  }
}

func watch(_ recorder: Recorder) async {
  recorder.watchByPing { beat in DispatchQueue.main.async { beat() } }
  recorder.watchMainQueue()
  recorder.breadcrumb(Recorder.mayBlock { "dialog" })
  for await stall in recorder.stalls where stall.isOver { print(stall.kind == .busy, stall.outcome as Any) }
  for await report in recorder.reports { print(report) }
  let (stats, before) = (recorder.stats, recorder.previousLaunch)
  print(stats.longestDuration, before?.ending == .crash, recorder.stacks(of: .main) ?? "", recorder.replacedSignals)
  recorder.launched()
  recorder.frame()
  recorder.setForeground(false)
  recorder.uninstall()
}
