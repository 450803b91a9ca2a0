// What the pages' blocks take for granted.
import Foundation
import Wedjat

nonisolated struct Event {}
nonisolated final class EventQueue: @unchecked Sendable {
  func next() -> Event? { nil }
  func post(_ work: @escaping @Sendable () -> Void) {}
}
nonisolated let queue = EventQueue()
nonisolated let server = URL(fileURLWithPath: "/")
nonisolated func handle(_ event: Event) {}
nonisolated func load() async throws -> [Int] { [] }
nonisolated func decode() throws -> Int { 3 }
