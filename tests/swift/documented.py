"""Holds the public symbols of the Swift package against their documentation, by a symbol graph of the compiler's.

documented.py WEDJAT.SYMBOLS.JSON
"""

import json
import sys

graph = json.load(open(sys.argv[1]))
wrong, documented = [], 0
for symbol in graph["symbols"]:
    # What the compiler makes of a conformance has the standard library's documentation.
    if "::SYNTHESIZED::" in symbol["identifier"]["precise"] or "location" not in symbol:
        continue
    name = ".".join(symbol["pathComponents"])
    text = " ".join(line["text"] for line in symbol.get("docComment", {}).get("lines", []))
    if not text:
        wrong.append(f"{name} has no documentation")
    elif text.split()[0] in ("What", "Whether", "Where", "How", "Which", "Gives", "Says", "As"):
        wrong.append(f"{name}: its documentation begins with {text.split()[0]}")
    else:
        documented += 1
if documented < 100:
    wrong.append(f"only {documented} public symbols")
print("\n".join(wrong) or f"documented: {documented} public symbols")
sys.exit(bool(wrong))
