"""Holds the Swift package (Package.swift, apple/) against the C interface without a Swift compiler.

check.py           parses sources and the pages' blocks by tree-sitter's grammar; each C name, field, function and number of
                   arguments against the header; each option against src/ffi/options.rs and the table in docs/measured/swift.md
check.py --table   prints that table
"""

import pathlib
import re
import sys

import tree_sitter_swift
from tree_sitter import Language, Parser

root = pathlib.Path(__file__).resolve().parents[2]
parser = Parser(Language(tree_sitter_swift.language()))
wrong = []


def walk(node):
    yield node
    for child in node.children:
        yield from walk(child)


def parse(place, source):
    # The grammar has no functions without a body.
    source = re.sub(r"(@_silgen_name.*?\n\) -> [^\n]*)", r"\1 {}", source, flags=re.S)
    tree = parser.parse(source.encode()).root_node
    for node in walk(tree):
        if node.type == "ERROR" or node.is_missing:
            wrong.append(f"{place}:{node.start_point[0] + 1}: not Swift: {node.text.decode()[:60]!r}")
    return tree


def hold(so, what):
    if not so:
        wrong.append(what)


# --- what the header has
header = re.sub(r"/\*.*?\*/", "", (root / "include/wedjat.h").read_text(), flags=re.S)
known = set(re.findall(r"\b(?:wedjat|WEDJAT)_\w+", header))
fields = {
    name: {field: kind.strip() for kind, field in re.findall(r"([\w ]+?)[ *]+(\w+)(?:\[\d+\])?;", body)}
    for body, name in re.findall(r"typedef struct \{(.*?)\} (wedjat_\w+);", header, flags=re.S)
}
functions = {
    name: 0 if arguments == "void" else arguments.count(",") + 1
    for name, arguments in re.findall(r"^\w[\w *]*?\b(wedjat_\w+)\((.*?)\);", header, flags=re.S | re.M)
}
assert len(fields) > 6 and len(functions) > 27, (len(fields), len(functions))

# --- the package's sources
called = {}
sources = {path.name: path.read_text() for path in sorted((root / "apple/Sources").rglob("*.swift"))}
code = {name: re.sub(r"//.*", "", text) for name, text in sources.items()}
for name, text in [*sources.items(), ("Package.swift", (root / "Package.swift").read_text())]:
    for node in walk(parse(name, text)):
        if node.type != "call_expression" or node.children[0].text.decode() not in functions:
            continue
        given = [part for part in walk(node.children[1]) if part.type in ("value_argument", "call_suffix")]
        arguments = [part for part in node.children[1].children if part.type == "value_arguments"]
        count = sum(part.type == "value_argument" for listed in arguments for part in listed.children)
        function = node.children[0].text.decode()
        called[function] = called.get(function, 0) + 1
        hold(given and count == functions[function], f"{name}: {function} takes {functions[function]} arguments, not {count}")
for name, text in code.items():
    for used in re.findall(r"\b(?:wedjat|WEDJAT)_\w+", text):
        hold(used in known, f"{name}: the header has no {used}")
    # A local that is made as `var x = wedjat_y()`, and one that is given as `x: wedjat_y`.
    made = re.findall(r"\bvar (\w+) = (wedjat_\w+)\(\)", text) + re.findall(r"\b(\w+): (?:inout )?(wedjat_\w+)", text)
    for local, struct in (pair for pair in made if pair[1] in fields):
        for field in re.findall(rf"(?<![\w.]){local}\.([a-z]\w*)", text):
            hold(field in fields[struct], f"{name}: {struct} has no field {field}")
everything = "\n".join(code.values())
hold(set(called) == set(functions), f"not called: {sorted(set(functions) - set(called))}")
for struct, local in (("stats", "stats"), ("launch", "launch"), ("sent", "sent"), ("stall_event", "event")):
    for field in fields[f"wedjat_{struct}"]:
        hold(field == "size" or f"{local}.{field}" in everything, f"wedjat_{struct}.{field} is not read")
for constant in re.findall(r"\bWEDJAT_(?!H\b|ENDED|ERROR_NONE|VERSION)\w+", header):
    hold(constant in everything, f"{constant} is not used")
endings = re.findall(r"WEDJAT_ENDED_(\w+) = (\d+)", header)
cases = re.findall(r"^ +case (\w+)$", sources["PreviousLaunch.swift"].split("enum Ending")[1].split("\n    }")[0], flags=re.M)
hold([(re.sub("[A-Z]", lambda m: "_" + m[0], case).upper(), str(at)) for at, case in enumerate(cases)] == endings,
     f"the endings are {cases}")

# --- each option, by its line in `withC`
returns = dict(re.findall(r"^nonisolated func (\w+)\(.*\) -> (\w+)", code["OptionsInC.swift"], flags=re.M))
types = {"uint32_t": "UInt32", "uint64_t": "UInt64", "int32_t": "Int32", "double": "Double"}
units = {"milliseconds": 1e3, "microseconds": 1e6}
set_here = dict(re.findall(r"^ +options\.(\w+) = (.*)$", everything, flags=re.M))
begun = re.search(r"wedjat_options_init\((\w+), (\w+), (\w+)\)", everything)
set_here.update(zip(("name", "version", "directory"), begun.groups()), size="of the header")
rust = (root / "src/ffi/options.rs").read_text().split("pub struct wedjat_options {")[1].split("\n}\n")[0]
rust = [(name, re.sub(r"\s*/// ?", " ", text)) for text, name in
        re.findall(r"((?:^ +///.*\n)+)^ +pub (\w+):", rust, flags=re.M)]
hold([name for name, _ in rust] == list(fields["wedjat_options"]), "the header's options are not those of options.rs")


def default(text):
    """What a doc block has in its last brackets, without what follows a semicolon."""
    found = re.search(r"\(([^()]*)\)[^()]*$", text)
    return found[1].split(";")[0] if found and "with `" not in text.lower().split(found[0])[0][-8:] else ""


def swift_doc(path):
    """The doc comment above a property, and its declaration. `stall.timeout` is one of the type of `stall`."""
    text, name = sources["Options.swift"], path.split(".")[-1]
    if "." in path:
        kind = re.search(rf"public var {path.split('.')[0]}\b(?:: (\w+)| = (\w+)\()", text)
        text = text.split(f"public struct {kind[1] or kind[2]}:")[1].split("\n  }\n")[0]
    found = re.search(rf"((?:^ +///.*\n)+)^ +public var {name}\b(.*)$", text, flags=re.M)
    return (re.sub(r"\s*/// ?", " ", found[1]), found[2]) if found else (None, None)


at_install = {
    "name": ("name", "of the bundle"), "version": ("version", "of the bundle"),
    "directory": ("directory", "in Application Support"), "on_report": ("onReport", "off"), "on_stall": ("onStall", "off"),
}
rows = []
for name, text in rust:
    expression = set_here.get(name)
    if name in ("size", "on_report_data", "on_stall_data"):
        hold(expression, f"Swift does not set {name}")
        continue
    if name in at_install:
        argument, given = at_install[name]
        hold(expression, f"Swift does not set {name}")
        hold(f" {argument}: " in code["Recorder.swift"], f"install has no {argument}")
        rows.append((name, f"`install({argument}:)`", given))
        continue
    if not expression:
        wrong.append(f"Swift does not set {name}")
        continue
    helper = re.match(r"(\w+)\((.*)\)$", expression)
    wanted = types.get(fields["wedjat_options"][name])
    hold(wanted == (returns.get(helper[1]) if helper else None), f"{name} is {wanted}: {expression}")
    path = re.match(r"\w+(?:\??\.\w+)?", helper[2] if helper else expression)[0].replace("?", "")
    doc, declared = swift_doc(path)
    if doc is None:
        wrong.append(f"Options has no documented {path}")
        continue
    given = default(doc)
    number = re.match(r"[\d,.]*\d", default(text))
    if number and helper:
        ours = float(re.match(r"[\d,.]*\d", given)[0].replace(",", "")) * units.get(helper[1], 1)
        hold(abs(ours - float(number[0].replace(",", ""))) < 1e-6, f"{name}: {number[0]} in C, {given} in Swift")
    on = "off" if declared.endswith("= false") else "on" if re.search(r"= (true|\w+\(\))$", declared) else given or "off"
    rows.append((name, f"`{path}`", on))
table = "| C | Swift | default |\n| --- | --- | --- |\n" + "".join(f"| `{a}` | {b} | {c} |\n" for a, b, c in rows)
if "--table" in sys.argv:
    print(table, end="")
hold(table in (root / "docs/measured/swift.md").read_text(), "docs/measured/swift.md lacks the table of check.py --table")

# --- what the pages show
declared = set(re.findall(r"\b(?:func|var|let|case|init|struct|enum|class) (\w+)", everything))
shown = 0
for page in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
    for block in re.findall(r"^```swift\n(.*?)^```", page.read_text(), flags=re.S | re.M):
        shown += 1
        # A dependency of a manifest stands within a list there.
        parse(page.name, f"let shown = [{block}]" if block.startswith(".package") else block)
        for name in re.findall(r"\b(?:Recorder|recorder\??|before|options|heartbeat|stats)\.(\w+)", block):
            hold(name in declared, f"{page.name}: the package has no {name}")
hold(shown > 4, "the pages show too little Swift")

lines = sum(text.count("\n") for text in sources.values())
print("\n".join(wrong) or f"swift: {lines} lines parsed, {shown} blocks of pages, {len(functions)} functions, {len(rows)} options")
sys.exit(bool(wrong))
