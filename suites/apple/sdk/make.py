#!/usr/bin/env python3
"""make.py ZIGLANG_LIB OUT: an SDK without Apple's SDK.

libSystem's list of symbols and the headers come from the ziglang wheel, the frameworks' lists are
the few functions that we call (beside this file). Each is written for macOS, iOS and the
simulator, because the linker takes a library only if the list names the very target.
"""

import pathlib
import re
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent

# SDK name -> the targets that its lists name.
PLATFORMS = {
    "macos": ["x86_64-macos", "arm64-macos"],
    "ios": ["arm64-ios"],
    "ios-simulator": ["x86_64-ios-simulator", "arm64-ios-simulator"],
}


def retarget(text, targets):
    """The same list for other targets. What stands for x86_64 alone stays for x86_64 alone."""

    def replace(match):
        listed = re.findall(r"[\w.-]+", match.group(1))
        intel = any(t.startswith("x86_64-") and t.endswith("-macos") for t in listed)
        arm = any(t.startswith("arm64") and t.endswith("-macos") for t in listed)
        kept = [t for t in targets if (intel if t.startswith("x86_64") else arm)]
        # A list without any of our targets must not become an empty one.
        return "targets: [ " + ", ".join(kept or ["i386-macos"]) + " ]"

    return re.sub(r"targets:\s*\[([^\]]*)\]", replace, text)


def main():
    zig, out = map(pathlib.Path, sys.argv[1:3])
    system = (zig / "libc/darwin/libSystem.tbd").read_text()
    for platform, targets in PLATFORMS.items():
        lib = out / platform / "usr/lib"
        lib.mkdir(parents=True)
        for name in ["libSystem", "libc", "libm", "libpthread"]:
            (lib / f"{name}.tbd").write_text(retarget(system, targets))
        for stub in HERE.glob("*.tbd"):
            text = retarget(stub.read_text(), targets)
            if stub.name.startswith("lib"):
                (lib / stub.name).write_text(text)
                continue
            framework = out / platform / f"System/Library/Frameworks/{stub.stem}.framework"
            framework.mkdir(parents=True)
            (framework / stub.name).write_text(text)
        shutil.copytree(zig / "libc/include/any-darwin-any", out / platform / "usr/include")


main()
