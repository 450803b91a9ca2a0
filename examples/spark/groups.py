#!/usr/bin/env python3
"""The groups of a folder of reports, by Apache Spark: `symbolicate --top` on each part of the folder,
and the parts' groups added up. The result is that of one process over the whole folder.

    spark-submit groups.py --symbolicate PATH --debug DIR [--top N] [--parts N] FOLDER

A part is a list of files, so that one worker's memory never holds more than one part's groups. Where
the workers are other machines, the folder and the program must be at the same path on each of them.
"""
import argparse
import json
import os
import subprocess
import sys
import time

from pyspark.sql import SparkSession

# Files that one process is started for: its arguments must fit into the system's limit.
BATCH = 2000
ENDINGS = (".wedjat", ".partial", ".ips", ".crash", ".hang", ".spin", ".plcrash")
# More than `symbolicate` keeps at a time, so all of them.
ALL = "4294967295"


def reports(folder):
    """Every report below the folder, in order of name."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            yield from reports(entry.path)
        elif entry.name.endswith(ENDINGS):
            yield entry.path


def groups_of(files, command):
    """The groups of some files, each with its key."""
    files = list(files)
    for start in range(0, len(files), BATCH):
        run = subprocess.run(command + files[start:start + BATCH], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        # 1: some of them were damaged; what could be read of those is counted. 3: nothing could be.
        if run.returncode not in (0, 1, 3):
            raise RuntimeError(f"{command[0]} ended with {run.returncode}")
        for line in run.stdout.splitlines():
            group = json.loads(line)
            yield group["group"], group


def added(a, b):
    """Two parts' groups of one key as one."""
    def together(key):
        counts = dict(a[key])
        for what, count in b[key].items():
            counts[what] = counts.get(what, 0) + count
        return counts
    # The example is that of the worst; among equals the first by name.
    worst = min(a, b, key=lambda group: (-group["worst"], group["example"]))
    return {**worst, "count": a["count"] + b["count"], "total": a["total"] + b["total"],
            "versions": together("versions"), "devices": together("devices")}


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("folder")
    args.add_argument("--symbolicate", default="symbolicate")
    args.add_argument("--debug", action="append", default=[])
    args.add_argument("--top", type=int, default=10)
    args.add_argument("--parts", type=int, default=0, help="into how many parts the folder is split")
    args = args.parse_args()
    command = [args.symbolicate, "--jobs", "1", "--format", "ndjson", f"--top={ALL}"]
    for path in args.debug:
        command += ["--debug", os.path.abspath(path)]
    spark = SparkSession.builder.appName("wedjat groups").getOrCreate()
    context = spark.sparkContext
    begun = time.monotonic()
    files = list(reports(os.path.abspath(args.folder)))
    parts = args.parts or max(context.defaultParallelism, len(files) // (4 * BATCH))
    found = (context.parallelize(files, parts)
             .mapPartitions(lambda part: groups_of(part, command))
             .reduceByKey(added)
             .values())
    # The order of `symbolicate --top`: by total, then count, then key.
    order = lambda group: (-group["total"], -group["count"], group["group"])
    top = found.takeOrdered(args.top, key=order)
    took = time.monotonic() - begun
    for group in top:
        print(json.dumps(group, ensure_ascii=False))
    print(f"{len(files)} files in {parts} parts: {took:.1f} s", file=sys.stderr)
    spark.stop()


if __name__ == "__main__":
    main()
