// As much of SwiftUI as the pages' blocks use, for compilers of other systems.
@_exported import Foundation

@MainActor @preconcurrency public protocol App {
  associatedtype Body: Scene
  var body: Body { get }
  init()
}
extension App {
  public static func main() {}
}
@MainActor @preconcurrency public protocol Scene {}
public enum ScenePhase: Hashable, Sendable { case background, inactive, active }
public struct EnvironmentValues { public var scenePhase: ScenePhase { .active } }
@propertyWrapper public struct Environment<Value> {
  let path: KeyPath<EnvironmentValues, Value>
  public init(_ path: KeyPath<EnvironmentValues, Value>) { self.path = path }
  public var wrappedValue: Value { EnvironmentValues()[keyPath: path] }
}
public struct WindowGroup<Content: View>: Scene {
  public init(@ViewBuilder content: () -> Content) {}
}
extension Scene {
  public func onChange<Value: Equatable>(of value: Value, _ action: @escaping (Value, Value) -> Void) -> some Scene { self }
}
@MainActor @preconcurrency public protocol View {}
@resultBuilder public struct ViewBuilder {
  public static func buildBlock<Content: View>(_ content: Content) -> Content { content }
}
public struct Text: View {
  public init(_ text: String) {}
}
public struct Button: View {
  public init(_ text: String, action: @escaping @MainActor () -> Void) {}
}
extension View {
  public func task(_ action: @escaping @MainActor @Sendable () async -> Void) -> some View { self }
}
