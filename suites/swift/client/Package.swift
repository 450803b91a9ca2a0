// swift-tools-version:6.1
// A client of the package by URL and tag, as an app has it. suites/swift/by-url copies it to another place, and puts the
// address in place of ADDRESS.
import PackageDescription

let package = Package(
  name: "client",
  platforms: [.macOS(.v13)],
  dependencies: [.package(url: "ADDRESS", from: "0.1.0")],
  targets: [.executableTarget(name: "Client", dependencies: [.product(name: "Wedjat", package: "wedjat")])]
)
