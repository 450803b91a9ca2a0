// A program with an async main, which computes on the main actor for 2 s after its first await.
import Foundation
import Wedjat

@MainActor
@inline(never)
func sortEveryPage() {
  let end = Date().addingTimeInterval(2)
  var count: UInt64 = 0
  while Date() < end { count &+= 1 }
  Recorder.shared?.set("pages", to: count)
}

@main
struct Awaited {
  @MainActor
  static func main() async throws {
    let folder = URL(fileURLWithPath: CommandLine.arguments[1])
    try Recorder.install(name: "Awaited", version: "1", directory: folder)
    guard let recorder = Recorder.shared, recorder.watchMainQueue() else { fatalError("no watch") }
    try await Task.sleep(nanoseconds: 2_000_000_000)
    let early = recorder.stats.stalls
    sortEveryPage()
    try await Task.sleep(nanoseconds: 500_000_000)
    print("stalls \(recorder.stats.stalls - early) after \(early)")
  }
}
