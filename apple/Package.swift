// swift-tools-version:5.9
// The Swift package: a thin layer over the C interface, and the library as a binary target that
// apple/xcframework makes.
import PackageDescription

let package = Package(
  name: "Wedjat",
  platforms: [.iOS(.v14), .macOS(.v13)],
  products: [.library(name: "Wedjat", targets: ["Wedjat"])],
  targets: [
    .binaryTarget(name: "CWedjat", path: "CWedjat.xcframework"),
    .target(name: "Wedjat", dependencies: ["CWedjat"], linkerSettings: [.linkedLibrary("iconv")]),
  ]
)
