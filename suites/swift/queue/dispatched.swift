// A program that calls dispatchMain(): threads of a pool work off the main queue. A task of the main actor blocks for 2 s; with
// `idle` there is none, and it prints its counters.
import Dispatch
import Foundation
import Wedjat

@inline(never)
func readEveryPage() {
  Thread.sleep(forTimeInterval: 2)
  Recorder.shared?.set("pages", to: 3)
}

do {
  let folder = URL(fileURLWithPath: CommandLine.arguments[1])
  try Recorder.install(name: "Dispatched", version: "1", directory: folder)
} catch {
  fatalError("\(error)")
}
guard let recorder = Recorder.shared, recorder.watchMainQueue() else { fatalError("no watch") }

Thread.detachNewThread {
  // By now the queue is at rest, and the threads of its first blocks may have ended.
  Thread.sleep(forTimeInterval: 2)
  let before = recorder.stats.turns
  if CommandLine.arguments.contains("idle") {
    Thread.sleep(forTimeInterval: 3)
    print("stalls \(recorder.stats.stalls), pings at rest \(recorder.stats.turns - before)")
    exit(0)
  }
  Task { @MainActor in
    readEveryPage()
    try await Task.sleep(nanoseconds: 500_000_000)
    print("stalls \(recorder.stats.stalls)")
    exit(0)
  }
}
dispatchMain()
