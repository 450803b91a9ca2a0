// swift-tools-version:6.1
// The Swift package: a layer (apple/Sources/Wedjat) over the C interface (CWedjat). See docs/swift.md.
import Foundation
import PackageDescription

// Address and checksum of the binary library for Apple platforms; apple/release writes this line.
let released: (url: String, checksum: String)? = nil

// The library: of the release, else as apple/xcframework has made it in this clone, else as scripts/install-c has installed it,
// where pkg-config finds it. On Linux always the last.
func library() -> Target {
  let made = "apple/CWedjat.xcframework"
  #if !os(Linux)
    if let released { return .binaryTarget(name: "CWedjat", url: released.url, checksum: released.checksum) }
    if FileManager.default.fileExists(atPath: "\(Context.packageDirectory)/\(made)") {
      return .binaryTarget(name: "CWedjat", path: made)
    }
  #endif
  return .systemLibrary(name: "CWedjat", path: "apple/System/CWedjat", pkgConfig: "wedjat")
}

#if os(Linux)
  let resources: [Resource] = []
#else
  let resources: [Resource] = [.copy("PrivacyInfo.xcprivacy")]
#endif

let package = Package(
  name: "wedjat",
  platforms: [.iOS(.v14), .macOS(.v13), .macCatalyst(.v14), .tvOS(.v14), .visionOS(.v1)],
  products: [.library(name: "Wedjat", targets: ["Wedjat"])],
  targets: [
    library(),
    .target(
      name: "Wedjat", dependencies: ["CWedjat"], path: "apple/Sources/Wedjat",
      exclude: resources.isEmpty ? ["PrivacyInfo.xcprivacy"] : [], resources: resources,
      linkerSettings: [
        .linkedLibrary("iconv", .when(platforms: [.iOS, .macOS, .macCatalyst, .tvOS, .visionOS]))
      ]),
    .testTarget(name: "WedjatTests", dependencies: ["Wedjat"], path: "apple/Tests/WedjatTests"),
  ],
  swiftLanguageModes: [.v6, .v5]
)
