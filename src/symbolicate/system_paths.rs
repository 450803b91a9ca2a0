//! Paths of images and files that the operating system owns, in reports of any recorder.

/// Returns true if the operating system, an SDK, a simulator or a compiler's toolchain owns a path.
pub(crate) fn is_system(path: &str) -> bool {
    #[rustfmt::skip]
    const SYSTEM: [&str; 13] = [
        "/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", "/usr/libexec/", "/System/",
        "/Library/Apple/", "/private/preboot/", "/snap/core", "/AppleInternal/", "/Developer/",
        "/private/var/db/", "/cores/",
    ];
    // Simulators' runtimes, SDKs, platforms, Xcode itself, toolchains.
    #[rustfmt::skip]
    const WITHIN: [&str; 12] = [
        ".simruntime/", ".sdk/System/", ".sdk/usr/", ".platform/Developer/", ".xctoolchain/",
        "/Contents/Developer/", "/Contents/SharedFrameworks/", "/Developer/CommandLineTools/",
        "/CoreSimulator/Profiles/", "/CoreSimulator/Volumes/", "/usr/lib/swift/", "/usr/lib/swift_static/",
    ];
    SYSTEM.iter().any(|prefix| path.starts_with(prefix))
        || WITHIN.iter().any(|part| path.contains(part))
        || is_redacted_runtime(path)
}

/// Returns true for what a simulator's runtime holds, on a disk of its own, as reports write it where they hide folders:
/// `/Volumes/VOLUME/*/UIKitCore.framework/UIKitCore`. Apps lie in bundles.
fn is_redacted_runtime(path: &str) -> bool {
    let rest = path.strip_prefix("/Volumes/VOLUME/*/");
    let is_bundle = |part: &str| {
        [".app", ".appex", ".xctest"]
            .iter()
            .any(|end| part.ends_with(end))
    };
    rest.is_some_and(|rest| !rest.split('/').any(is_bundle))
}

#[cfg(test)]
mod tests {
    use super::is_system;

    #[test]
    fn a_path_is_the_systems_or_the_apps() {
        for path in [
            "/System/Library/Frameworks/UIKit.framework/UIKit",
            "/Volumes/VOLUME/*/UIKitCore.framework/UIKitCore",
            "/Volumes/VOLUME/*/libobjc.A.dylib",
            "/Library/Developer/CoreSimulator/Volumes/iOS_22A/Library/Developer/CoreSimulator/Profiles/Runtimes/iOS 18.0.simruntime/Contents/Resources/RuntimeRoot/usr/lib/dyld_sim",
            "/Applications/Xcode.app/Contents/Developer/Platforms/iPhoneSimulator.platform/Developer/SDKs/iPhoneSimulator12.0.sdk/System/Library/Frameworks/UIKit.framework/UIKit",
            "/Applications/Xcode.app/Contents/Developer/Platforms/iPhoneOS.platform/Developer/Library/Frameworks/XCTest.framework/XCTest",
            "/Applications/Xcode.app/Contents/Developer/Toolchains/XcodeDefault.xctoolchain/usr/lib/swift-5.5/macosx/libswift_Concurrency.dylib",
            "/opt/swift/usr/lib/swift/linux/libFoundation.so",
        ] {
            assert!(is_system(path), "{path}");
        }
        for path in [
            "/Applications/kiosk.app/Contents/MacOS/kiosk",
            "/Users/USER/*/kiosk.app/kiosk",
            "/Volumes/VOLUME/*/kiosk.app/Frameworks/Till.framework/Till",
            "/Users/ann/Library/Developer/CoreSimulator/Devices/11111111-2222-3333-4444-555555555555/data/Containers/Bundle/Application/1/kiosk.app/kiosk",
            "/private/var/containers/Bundle/Application/1/kiosk.app/Frameworks/Till.framework/Till",
            "/usr/bin/till",
        ] {
            assert!(!is_system(path), "{path}");
        }
    }
}
