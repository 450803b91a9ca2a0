#!/usr/bin/env python3
"""golden.py LLVM_BIN BINARY DWARF OUT: what is true at each address of the fixture.

For every row of the line table: `llvm-dwarfdump --lookup --show-parents`, read as a chain of
inlined subroutines, and `llvm-symbolizer --inlines`, which goes another way through the same
sections. Where the two differ this stops; what they agree on is written to OUT.ndjson, one address
a line, innermost frame first. OUT.dwarfdump.txt keeps the first tool's own words for some of them.
"""

import json
import os
import re
import subprocess
import sys


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def rows(llvm, dwarf):
    """Addresses of the line table, without those of end_sequence."""
    found = set()
    for line in run(f"{llvm}/llvm-dwarfdump", "--debug-line", dwarf).splitlines():
        if line.startswith("0x") and "end_sequence" not in line:
            found.add(int(line.split()[0], 16))
    return sorted(found)


TAG = re.compile(r"^0x[0-9a-f]+:\s+DW_TAG_(\w+)")
ATTRIBUTE = re.compile(r'^\s+DW_AT_(\w+)\s+\((?:0x[0-9a-f]+ )?"?(.*?)"?\)$')
LINE_INFO = re.compile(r"^Line info: file '(.*?)', line (\d+),")


def lookup(text):
    """The frames in the words of `llvm-dwarfdump --lookup --show-parents`."""
    dies, line = [], None
    for row in text.splitlines():
        if m := TAG.match(row):
            dies.append({"tag": m[1]})
        elif (m := ATTRIBUTE.match(row)) and dies:
            dies[-1].setdefault(m[1], m[2])
        elif m := LINE_INFO.match(row):
            line = (m[1], int(m[2]))
    # A parent is printed once for each block below it: the deepest chain says all.
    start = max(i for i, die in enumerate(dies) if die["tag"] == "subprogram")
    chain = [die for die in dies[start:] if die["tag"] in ("subprogram", "inlined_subroutine")]
    frames = []
    for die in reversed(chain):
        inlined = die["tag"] == "inlined_subroutine"
        name = die.get("linkage_name") or die.get("abstract_origin") or die.get("specification") or die.get("name")
        frames.append({"linkage": name, "file": line[0], "line": line[1], "inlined": inlined})
        if inlined:
            line = (die["call_file"], int(die["call_line"]))
    return frames


def symbolizer(llvm, dwarf, addresses):
    """The same from the other tool, all addresses in one run."""
    out = {}
    common = [f"{llvm}/llvm-symbolizer", f"--obj={dwarf}", "--inlines", "--output-style=JSON"]
    given = [hex(a) for a in addresses]
    plain = json.loads(run(*common, *given))
    linkage = json.loads(run(*common, "--functions=linkage", "--no-demangle", *given))
    for demangled, raw in zip(plain, linkage):
        assert demangled["Address"] == raw["Address"]
        out[int(raw["Address"], 16)] = [
            {
                "function": d["FunctionName"],
                "linkage": r["FunctionName"],
                "file": r["FileName"],
                "line": r["Line"],
                "inlined": i + 1 < len(raw["Symbol"]),
            }
            for i, (d, r) in enumerate(zip(demangled["Symbol"], raw["Symbol"]))
        ]
    return out


def same(dwarfdump, symbolizer):
    """dwarfdump leaves the folder out of the innermost frame's file."""
    return len(dwarfdump) == len(symbolizer) and all(
        a["linkage"] == b["linkage"]
        and a["line"] == b["line"]
        and a["inlined"] == b["inlined"]
        and ("/" + b["file"]).endswith("/" + a["file"].lstrip("/"))
        for a, b in zip(dwarfdump, symbolizer)
    )


def main():
    llvm, binary, dwarf, out = sys.argv[1:5]
    addresses = rows(llvm, dwarf)
    other = symbolizer(llvm, dwarf, addresses)
    with open(f"{out}.ndjson", "w") as golden, open(f"{out}.dwarfdump.txt", "w") as words:
        for i, address in enumerate(addresses):
            text = run(f"{llvm}/llvm-dwarfdump", f"--lookup={address:#x}", "--show-parents", dwarf)
            frames, second = lookup(text), other[address]
            if not same(frames, second):
                sys.exit(f"golden.py: {address:#x}: the tools differ:\n{frames}\n{second}\n{text}")
            golden.write(json.dumps({"address": f"{address:#x}", "frames": second}, separators=(",", ":")) + "\n")
            if i % 60 == 0:
                words.write(text.replace(dwarf, os.path.basename(dwarf)))
    with open(f"{out}.uuid", "w") as uuid:
        uuid.write(re.search(r"[0-9A-F-]{36}", run(f"{llvm}/llvm-dwarfdump", "--uuid", dwarf))[0] + "\n")


main()
