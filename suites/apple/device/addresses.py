"""addresses.py REPORTS: of each report in symbolicate's text, where the app lies and what is to be looked
up in it: `BASE ADDRESS...`, a line a report."""

import re
import sys

frames = []
for line in open(sys.argv[1]):
    if match := re.match(r"(\d+) +demo +\t0x([0-9a-f]+) ", line):
        address = int(match[2], 16) - (match[1] != "0")
        if address not in frames:
            frames.append(address)
    elif match := re.match(r" +0x([0-9a-f]+) - +0x[0-9a-f]+ demo ", line):
        print(f"0x{match[1]}", *(f"{address:#x}" for address in frames))
        frames = []
