"""Parses the Swift package's sources, and what the pages show of Swift, by tree-sitter's grammar; holds the C names in the
sources against the header, and the package's names in the pages against the sources."""

import pathlib
import re
import sys

import tree_sitter_swift
from tree_sitter import Language, Parser

here = pathlib.Path(__file__).parent
header = (here.parent / "include" / "wedjat.h").read_text()
header = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
known = set(re.findall(r"\b(?:wedjat|WEDJAT)_\w+", header))
structs = dict(re.findall(r"typedef struct \{(.*?)\} (wedjat_\w+);", header, flags=re.S)[i][::-1]
               for i in range(len(re.findall(r"typedef struct \{(.*?)\} (wedjat_\w+);", header, flags=re.S))))
fields = {name: set(re.findall(r"\b(\w+)(?:\[\d+\])?;", body)) for name, body in structs.items()}
parser = Parser(Language(tree_sitter_swift.language()))
wrong = []
lines = 0


def walk(node):
    yield node
    for child in node.children:
        yield from walk(child)


for path in sorted((here / "Sources").rglob("*.swift")) + [here / "Package.swift"]:
    source = path.read_bytes()
    lines += 0 if path.name == "Package.swift" else source.count(b"\n")
    for node in walk(parser.parse(source).root_node):
        if node.type == "ERROR" or node.is_missing:
            wrong.append(f"{path.name}:{node.start_point[0] + 1}: not Swift: {node.text.decode()[:60]!r}")
    text = re.sub(r"//.*", "", source.decode())
    for name in re.findall(r"\b(?:wedjat|WEDJAT)_\w+", text):
        if name not in known:
            wrong.append(f"{path.name}: the header has no {name}")
    # A local that is made as `var x = wedjat_y()`, and one that is given as `x: inout wedjat_y`.
    made = re.findall(r"\bvar (\w+) = (wedjat_\w+)\(\)", text) + re.findall(r"\b(\w+): inout (wedjat_\w+)", text)
    for local, struct in made:
        for field in re.findall(rf"(?<![\w.]){local}\.(\w+)", text):
            if field not in fields.get(struct, ()):
                wrong.append(f"{path.name}: {struct} has no field {field}")
sources = "\n".join(path.read_text() for path in (here / "Sources").rglob("*.swift"))
declared = set(re.findall(r"\b(?:func|var|let|case|init|struct|enum) (\w+)", sources))
shown = 0
for page in [here.parent / "README.md", *sorted((here.parent / "docs").glob("*.md"))]:
    for block in re.findall(r"^```swift\n(.*?)^```", page.read_text(), flags=re.S | re.M):
        shown += 1
        # A dependency of a manifest stands within a list there.
        source = f"let shown = [{block}]" if block.startswith(".package") else block
        for node in walk(parser.parse(source.encode()).root_node):
            if node.type == "ERROR" or node.is_missing:
                wrong.append(f"{page.name}: not Swift: {node.text.decode()[:60]!r}")
        for name in re.findall(r"\b(?:Wedjat|recorder\??|before)\.(\w+)", block):
            if name not in declared:
                wrong.append(f"{page.name}: the package has no {name}")
if not shown:
    wrong.append("no page shows Swift")
if lines >= 300:
    wrong.append(f"{lines} lines of Swift; at most 300")
print("\n".join(wrong) or f"swift: {lines} lines and {shown} blocks of pages parsed, each name is there")
sys.exit(bool(wrong))
