"""Holds the public symbols of the Swift package against their documentation, by a symbol graph of the compiler's: each has a
comment, and each of a recorder's own is in the list of the DocC catalog, which names nothing else.

documented.py WEDJAT.SYMBOLS.JSON
"""

import json
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parents[2]
graph = json.load(open(sys.argv[1]))
LINK = re.compile(r"(?<!`)``([^`\n]+)``(?!`)")
every = {"/".join(symbol["pathComponents"]) for symbol in graph["symbols"]}
wrong, documented, names = [], 0, set()
for symbol in graph["symbols"]:
    # What the compiler makes of a conformance has the standard library's documentation.
    if "::SYNTHESIZED::" in symbol["identifier"]["precise"] or "location" not in symbol:
        continue
    name = "/".join(symbol["pathComponents"])
    names.add(name)
    text = " ".join(line["text"] for line in symbol.get("docComment", {}).get("lines", []))
    if not text:
        wrong.append(f"{name} has no documentation")
    elif text.split()[0] in ("What", "Whether", "Where", "How", "Which", "Gives", "Says", "As"):
        wrong.append(f"{name}: its documentation begins with {text.split()[0]}")
    else:
        documented += 1
        # A link is relative to the symbol, or to one that it is in.
        for link in LINK.findall(text):
            parts = name.split("/")
            if not any("/".join([*parts[:depth], link]) in every for depth in range(len(parts) + 1)):
                wrong.append(f"{name} links to {link}, which is not there")
catalog = (root / "apple/Sources/Wedjat/Wedjat.docc/Wedjat.md").read_text()
listed = {re.sub(r"-\(.*", "", link) for link in re.findall(r"^- ``([^`]+)``$", catalog, flags=re.M)}
for link in LINK.findall(catalog):
    if re.sub(r"-\(.*", "", link) not in names | {"Wedjat"}:
        wrong.append(f"the catalog links to {link}, which is not there")
wrong += [f"the catalog does not list {name}" for name in sorted(names - listed) if name.count("/") < 2 and "RecorderError/" not in name]
if documented < 100:
    wrong.append(f"only {documented} public symbols")
print("\n".join(wrong) or f"documented: {documented} public symbols, {len(listed)} in the catalog's list")
sys.exit(bool(wrong))
