// An app on Linux: its main thread works off the main queue by a run loop. It stalls once, and ends.
import Foundation
import Wedjat

@inline(never)
func countEveryPrice() {
  let end = Date().addingTimeInterval(0.6)
  var count: UInt64 = 0
  while Date() < end { count &+= 1 }
  Recorder.shared?.set("prices", to: count)
}

do {
  try Recorder.install(version: "1.2.3")
} catch {
  fatalError("\(error.code): \(error)")
}
guard let recorder = Recorder.shared else { fatalError("no recorder") }
print("before: \(recorder.previousLaunch?.ending?.rawValue ?? "none")")
guard recorder.watchMainQueue() else { fatalError("no watch") }

Task.detached {
  for await report in recorder.reports {
    print("reported: \(report.pathExtension)")
    exit(0)
  }
}
Task.detached {
  try await Task.sleep(nanoseconds: 300_000_000)
  DispatchQueue.main.async { countEveryPrice() }
}
RunLoop.main.run(until: Date().addingTimeInterval(30))
print("no report")
exit(1)
