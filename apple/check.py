"""Parses the Swift package's sources by tree-sitter's grammar, and holds the C names in them against the header."""

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
if lines >= 300:
    wrong.append(f"{lines} lines of Swift; at most 300")
print("\n".join(wrong) or f"swift: {lines} lines parsed, each C name is in the header")
sys.exit(bool(wrong))
