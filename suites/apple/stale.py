#!/usr/bin/env python3
"""stale.py STATED < ROWS: fails unless each row on standard input is in the file STATED with the same
percentages: wedjat's to two decimals. The number of stops depends on the paths that a machine builds under.
framehop's may differ by as many stops as there are more or fewer."""

import sys


def rows(lines):
    table = {}
    for line in lines:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 11 and cells[0] in ("arm64", "x86_64"):
            table[tuple(cells[:3])] = int(cells[3]), [float(cell.rstrip(" %")) for cell in cells[4:8]]
    return table


stated = rows(open(sys.argv[1]))
found = rows(sys.stdin)
if len(found) != 32:
    sys.exit(f"expected 32 rows, found {len(found)}")
for key, (stops, now) in found.items():
    before_stops, before = stated.get(key, (stops, None))
    slack = 0.01 + (100 * abs(stops - before_stops) / stops if key[2] != "wedjat" else 0)
    if before is None or any(abs(a - b) > slack for a, b in zip(now, before)):
        sys.exit(f"suites/apple/exactness.rows is stale: {key} is {now}, not {before}; run suites/apple/exactness")
