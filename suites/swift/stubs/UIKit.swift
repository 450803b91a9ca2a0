// As much of UIKit as the pages' blocks use, for compilers of other systems.
@_exported import Foundation

@MainActor public class UIApplication {
  public struct LaunchOptionsKey: Hashable {}
}
@MainActor open class UIResponder {
  public init() {}
}
@MainActor public protocol UIApplicationDelegate {}
extension UIApplicationDelegate {
  public static func main() {}
}
