#!/usr/bin/env python3
"""summary.py < ROWS: the emulator's rows of each program, as one table by kind of program."""

import sys

KINDS = [
    ("`hello`, Rust", lambda name: name == "hello"),
    ("`app`, Rust", lambda name: name == "app"),
    ("C with function starts", lambda name: name.startswith("C-") and not name.endswith("no-starts")),
    ("C without", lambda name: name.startswith("C-") and name.endswith("no-starts")),
    ("C++ with", lambda name: name.startswith("C++") and not name.endswith("no-starts")),
    ("C++ without", lambda name: name.startswith("C++") and name.endswith("no-starts")),
    ("async functions", lambda name: name.startswith("async")),
    ("signals", lambda name: name.startswith("signals")),
]
COLUMNS = ["program"] + [cell for arch in ("arm64", "x86_64") for cell in (f"{arch}: stops", "exact", "guess", "framehop")]

programs = {}
for line in sys.stdin:
    arch, name, unwinder, stops, *shares = [cell.strip() for cell in line.strip().strip("|").split("|")]
    shares = [float(share.rstrip(" %")) for share in shares[:4]]
    programs.setdefault((arch, name), {"stops": int(stops)})[unwinder.split()[0]] = shares

print("| " + " | ".join(COLUMNS) + " |")
print("| --- " + "| --: " * (len(COLUMNS) - 1) + "|")
for kind, holds in KINDS:
    cells = [kind]
    for arch in ("arm64", "x86_64"):
        rows = [row for (of, name), row in programs.items() if of == arch and holds(name)]
        stops = sum(row["stops"] for row in rows)
        if not stops or any(row["wedjat"][2] for row in rows):
            sys.exit(f"summary.py: {kind} on {arch} has no stop, or one that is wrong and certain")
        share = lambda unwinder, at: sum(row["stops"] * row[unwinder][at] for row in rows) / stops
        cells += [str(stops), *(f"{share(*of):.3f}" for of in (("wedjat", 0), ("wedjat", 3), ("framehop", 0)))]
    print("| " + " | ".join(cells) + " |")
