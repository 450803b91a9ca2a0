"""The answers to the seven questions of examples/sql, counted in plain Python from the document of `--format json`.

It shares no SQL and no table with what it is compared to; `shown` is how both are printed.
"""
import collections
import datetime
import json

NOBODY = "00000000-0000-0000-0000-000000000000"


def answers(path):
    reports = unique(json.load(open(path)))
    groups = collections.defaultdict(list)
    for report in reports:
        groups[report["group"]].append(report)
    return [hurt(groups), began(groups), devices(groups), screens(reports), files(reports), causes(reports), shares(groups)]


def unique(reports):
    """Each id once for its launch, time and group; a damaged one only if none is whole. A report without an id is no copy of
    another. `who` is the launch, or else the report."""
    seen, kept = set(), []
    for at, report in sorted(enumerate(reports), key=lambda numbered: len(numbered[1]["damage"]) > 0):
        copies = at if report["id"] == NOBODY else tuple(report[key] for key in ("id", "launch", "time"))
        own = (copies, report["group"])
        if own not in seen and not (report["damage"] and copies in seen):
            seen |= {own, copies}
            kept.append({**report, "own": own, "who": own if report["launch"] == NOBODY else report["launch"]})
    ends = {}
    for report in kept:
        if report["ended"]:
            ends.setdefault(report["who"], []).append(report)
    for reports in ends.values():
        # A launch ends once: not by a stall if there is another cause, else by the longest stall.
        reports.sort(key=lambda report: (report["at_least"], -(report["duration"] or 0), report["group"]))
        for other in reports[1:]:
            other["ended"] = False
    return kept


def title(group):
    return max(report["title"] for report in group)


def hurt(groups):
    rows = []
    for bug, group in groups.items():
        times = [report["duration"] for report in group if report["duration"] is not None]
        seconds = sum(times) / 1e9 if times else None
        launches, ended = {report["who"] for report in group}, {report["who"] for report in group if report["ended"]}
        rows.append((-len(ended), -(seconds or -1), -len(group), bug, (title(group), len(launches), len(group), len(ended), seconds)))
    return [row[-1] for row in sorted(rows, key=lambda row: row[:-1])][:10]


def began(groups):
    rows = []
    for bug, group in groups.items():
        timed = sorted((report for report in group if report["time"]), key=lambda report: report["time"])
        if timed:
            day = datetime.datetime.fromtimestamp(timed[0]["time"] // 10**9, datetime.timezone.utc).date()
            rows.append((day, title(timed), bug, (title(timed), timed[0]["app"]["version"], timed[-1]["app"]["version"], day)))
    return [row[-1] for row in sorted(rows, key=lambda row: row[:-1])]


def devices(groups):
    rows = []
    for bug, group in groups.items():
        counts = collections.defaultdict(list)
        for report in group:
            counts[report["device"]].append(report)
        rows += [(-len(of), title(of), device or "~", bug, (title(of), device, len(of))) for device, of in counts.items()]
    return [row[-1] for row in sorted(rows, key=lambda row: row[:-1])][:10]


def screens(reports):
    keys = [((report["context"] or {}).get("keys") or {}).get("screen") for report in reports]
    counts = collections.Counter(key for key in keys if key is not None)
    return sorted(counts.items(), key=lambda row: (-row[1], row[0]))


def files(reports):
    owners, lines = collections.defaultdict(set), {}
    for report in (report for report in reports if report["ended"] and report["thread"] is not None):
        for at in report["threads"][report["thread"]]["frames"]:
            for frame in report["frames"][at]["frames"]:
                if frame["owner"] == "app" and frame["file"]:
                    owners[frame["file"]].add(report["own"])
                    lines.setdefault(frame["file"], []).append(frame["line"])
    rows = [(file, len(own), min((line for line in lines[file] if line is not None), default=None)) for file, own in owners.items()]
    return sorted(rows, key=lambda row: (-row[1], row[0]))


def causes(reports):
    counts = collections.Counter()
    for report in reports:
        event, end = report["event"] or {}, report["stall_end"] or {}
        of = end if end.get("class") else event
        if of.get("class"):
            counts[of["class"], of.get("reason")] += 1
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0][0], row[0][1] is None, row[0][1] or ""))
    return [(*cause, count) for cause, count in rows][:10]


def shares(groups):
    versions, rows = collections.defaultdict(set), []
    for bug, group in groups.items():
        counts = collections.defaultdict(list)
        for report in group:
            counts[report["app"]["version"]].append(report)
            versions[report["app"]["version"]].add(report["who"])
        rows += [(version, bug, of, len({report["who"] for report in of})) for version, of in counts.items() if version]
    rows.sort(key=lambda row: (-row[3], title(row[2]), row[1]))
    rows.sort(key=lambda row: row[0], reverse=True)
    return [(version, title(of), own, own / len(versions[version])) for version, _, of, own in rows][:10]


def shown(rows):
    def text(value):
        whole = not isinstance(value, (str, bool)) and hasattr(value, "__float__")
        return "-" if value is None else f"{float(value):g}" if whole else str(value)
    return "\n\n".join("\n".join(" | ".join(map(text, row)) for row in answer) for answer in rows) + "\n"
