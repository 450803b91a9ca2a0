//! Whose code an image holds, by its name.

use super::Owner;
use crate::report::Image;
use crate::symbolicate::frame::is_system;
use crate::symbolicate::frame::{Symbolicated, image_file_name};

/// Whose code an image holds, as far as the image alone says so. The app's may hold a library's, too.
pub(super) fn of_image(of: &Symbolicated, image: &Image) -> Owner {
    let name = image_file_name(&image.name);
    // Apps that run on systems without Swift bring its runtime along; sanitizers come with the compiler.
    #[rustfmt::skip]
    let runtime = [
        "libswift", "libclang_rt.", "libc++", "libstdc++", "libstd-", "libFoundation", "lib_Foundation", "libdispatch.",
        "libBlocksRuntime.",
    ];
    let is_library = name.contains(".dylib") || name.contains(".so");
    #[rustfmt::skip]
    let recorder = ["KSCrash", "CrashReporter", "Crashlytics", "FirebaseCrashlytics"];
    let begins_as = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    if !is_apps(of, image) {
        Owner::System
    } else if is_library && begins_as(&runtime) {
        Owner::Language
    } else if begins_as(&recorder) {
        Owner::Recorder
    } else {
        Owner::App
    }
}

/// Returns true if an image is the app's own, rather than the system's.
fn is_apps(of: &Symbolicated, image: &Image) -> bool {
    let name = image.name.as_str();
    let app = &of.report.head.app.name;
    if name.starts_with('[') || name.is_empty() {
        return false;
    }
    if !app.is_empty() && image_file_name(name) == app {
        return true;
    }
    const FOLDERS: [&str; 3] = ["/opt/homebrew/", "/usr/local/lib/", "/usr/local/Cellar/"];
    if is_system(name) || FOLDERS.iter().any(|folder| name.starts_with(folder)) {
        return false;
    }
    if name.contains('/') {
        return true;
    }
    // MetricKit gives names without paths.
    #[rustfmt::skip]
    const FRAMEWORKS: [&str; 22] = [
        "AppKit", "AVFCore", "AVFAudio", "AVFoundation", "CFNetwork", "Combine", "CoreAnimation",
        "CoreData", "CoreFoundation", "CoreGraphics", "CoreLocation", "CoreText", "Foundation",
        "FrontBoardServices", "GraphicsServices", "ImageIO", "QuartzCore", "Security", "SwiftUI",
        "UIKit", "UIKitCore", "WebKit",
    ];
    let system_library = name.starts_with("lib") && name.ends_with(".dylib");
    !(name == "dyld" || name == "kernel" || system_library || FRAMEWORKS.contains(&name))
}
