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
    ("signals", lambda name: name.startswith("signals")),
]
COLUMNS = ["arch", "program", "stops", "exact", "early", "certain", "guess", "framehop: exact", "early", "wrong"]

programs = {}
for line in sys.stdin:
    arch, name, unwinder, stops, *shares = [cell.strip() for cell in line.strip().strip("|").split("|")]
    shares = [float(share.rstrip(" %")) for share in shares[:4]]
    programs.setdefault((arch, name), {"stops": int(stops)})[unwinder.split()[0]] = shares

print("| " + " | ".join(COLUMNS) + " |")
print("| --- | --- " + "| --: " * (len(COLUMNS) - 2) + "|")
for arch in ("arm64", "x86_64"):
    for kind, holds in KINDS:
        rows = [row for (of, name), row in programs.items() if of == arch and holds(name)]
        stops = sum(row["stops"] for row in rows)
        if not stops:
            sys.exit(f"summary.py: no program of {kind} on {arch}")
        ours, theirs = ([sum(row["stops"] * row[unwinder][at] for row in rows) / stops for at in range(4)]
                        for unwinder in ("wedjat", "framehop"))
        cells = ours + [theirs[0], theirs[1], theirs[2] + theirs[3]]
        print(f"| {arch} | {kind} | {stops} | " + " | ".join(f"{cell:.3f}" for cell in cells) + " |")
