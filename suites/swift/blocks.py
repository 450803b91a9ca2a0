"""Compiles each block of Swift in docs/swift.md, with the main actor as default isolation and without.

blocks.py BUILT SCRATCH FLAG...     BUILT: the folder of what swift build has built
"""

import os
import pathlib
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

here = pathlib.Path(__file__).resolve().parent
built, scratch, flags = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
scratch.mkdir(parents=True, exist_ok=True)
flags += ["-I", str(built / "Modules"), "-I", str(scratch)]


def compile(*arguments):
    done = subprocess.run(["swiftc", "-warnings-as-errors", *flags, *arguments], capture_output=True, text=True)
    return done.returncode, done.stderr


for stub in ("SwiftUI", "UIKit"):
    code, text = compile("-emit-module", "-module-name", stub, "-parse-as-library", "-o", str(scratch / f"{stub}.swiftmodule"),
                         str(here / f"stubs/{stub}.swift"))
    assert code == 0, text

page = (here.parents[1] / "docs/swift.md").read_text()
work = []
for found in re.finditer(r"^```swift\n(.*?)^```", page, flags=re.S | re.M):
    line = page[: found.start()].count("\n") + 2
    block = found[1]
    if block.startswith(".package"):
        continue  # suites/swift/client has it in a manifest.
    imports = "".join(re.findall(r"^import .*\n", block, flags=re.M))
    body = re.sub(r"^import .*\n", "", block, flags=re.M)
    if not imports:
        # Statements, in a function of a view.
        body = f"func shown(_ recorder: Recorder, _ reports: URL) async throws {{\n{body}\n}}\n"
    head = "import Foundation\n#if canImport(FoundationNetworking)\nimport FoundationNetworking\n#endif\n"
    head += imports + ("" if "import Wedjat" in imports else "import Wedjat\n")
    folder = scratch / str(line)
    folder.mkdir(exist_ok=True)
    # A file that is a program has statements at the top.
    is_program = imports and "@main" not in body and "struct " not in body and "class " not in body
    file = folder / ("main.swift" if is_program else "Shown.swift")
    file.write_text(f'{head}#sourceLocation(file: "docs/swift.md", line: {line})\n{body}')
    for isolation in ([], ["-default-isolation", "MainActor"]):
        files = [str(file)] if is_program else [str(file), str(here / "stubs/Context.swift")]
        library = [] if is_program else ["-parse-as-library"]
        work.append([*library, "-swift-version", "6", *isolation, "-emit-sil", "-wmo", "-module-name", "Shown", "-o", "/dev/null",
                     *files])

with ThreadPoolExecutor(os.cpu_count()) as pool:
    results = list(pool.map(lambda arguments: compile(*arguments), work))
failed = [text for code, text in results if code]
print("\n".join(failed), file=sys.stderr, end="")
print(f"blocks: {len(work) // 2} of docs/swift.md, each in two isolations")
sys.exit(bool(failed) or len(work) < 16)
