// swift-tools-version:5.9
// The Swift package: a layer over the C interface, and the library as a binary target that apple/xcframework makes.
// apple/release writes the same with the binary target's address and checksum.
import PackageDescription

let package = Package(
  name: "Wedjat",
  platforms: [.iOS(.v14), .macOS(.v13), .macCatalyst(.v14), .tvOS(.v14), .visionOS(.v1)],
  products: [.library(name: "Wedjat", targets: ["Wedjat"])],
  targets: [
    .binaryTarget(name: "CWedjat", path: "CWedjat.xcframework"),
    .target(
      name: "Wedjat", dependencies: ["CWedjat"], resources: [.copy("PrivacyInfo.xcprivacy")],
      linkerSettings: [.linkedLibrary("iconv")]),
  ]
)
