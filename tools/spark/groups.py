#!/usr/bin/env python3
"""The groups of a folder of reports, by Apache Spark: `symbolicate` on each part of the folder, and one query over the
rows of all parts. The counts are those of one process over the whole folder, whatever part a launch's reports are in.

    spark-submit groups.py --symbolicate PATH --debug DIR [--top N] [--parts N] FOLDER

A part is a list of files. Where the workers are other machines, the folder and the program must be at the same path on each
of them.
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
ENDINGS = (".wedjat", ".partial", ".ips", ".crash", ".hang", ".spin")
NOBODY = "00000000-0000-0000-0000-000000000000"
ROW = "key STRING, title STRING, launch STRING, ended BOOLEAN, at_least BOOLEAN, duration BIGINT"
# The order of `symbolicate --top`. A launch ends once: not by a stall if there is another cause, else by the longest stall.
QUERY = """
SELECT key AS `group`, max(title) AS title, count(*) AS count, count(DISTINCT launch) AS launches,
       count_if(ended AND place = 1) AS ended, sum(duration) AS total
FROM (SELECT *, row_number() OVER (PARTITION BY launch ORDER BY ended DESC, at_least, duration DESC, key) AS place FROM rows)
GROUP BY key ORDER BY ended DESC, total DESC, count DESC, key
"""


def reports(folder):
    """Every report below the folder, in order of name."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            yield from reports(entry.path)
        elif entry.name.endswith(ENDINGS):
            yield entry.path


def rows_of(files, command):
    """A row for each report in some files."""
    files = list(files)
    for start in range(0, len(files), BATCH):
        run = subprocess.run(command + files[start:start + BATCH], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        # 1: some of them were damaged; what could be read of those is counted. 3: nothing could be.
        if run.returncode not in (0, 1, 3):
            raise RuntimeError(f"{command[0]} ended with {run.returncode}")
        for line in run.stdout.splitlines():
            report = json.loads(line)
            launch = next((known for known in (report["launch"], report["id"]) if known != NOBODY), report["report"])
            yield (report["group"], report["title"], launch, report["ended"], report["at_least"], report["duration"] or 0)


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("folder")
    args.add_argument("--symbolicate", default="symbolicate")
    args.add_argument("--debug", action="append", default=[])
    args.add_argument("--top", type=int, default=10)
    args.add_argument("--parts", type=int, default=0, help="into how many parts the folder is split")
    args = args.parse_args()
    command = [args.symbolicate, "--jobs", "1", "--format", "ndjson"]
    for path in args.debug:
        command += ["--debug", os.path.abspath(path)]
    spark = SparkSession.builder.appName("wedjat groups").getOrCreate()
    context = spark.sparkContext
    begun = time.monotonic()
    files = list(reports(os.path.abspath(args.folder)))
    parts = args.parts or max(context.defaultParallelism, len(files) // (4 * BATCH))
    found = context.parallelize(files, parts).mapPartitions(lambda part: rows_of(part, command))
    spark.createDataFrame(found, ROW).createOrReplaceTempView("rows")
    top = spark.sql(QUERY).take(args.top)
    took = time.monotonic() - begun
    for group in top:
        print(json.dumps(group.asDict(), ensure_ascii=False))
    print(f"{len(files)} files in {parts} parts: {took:.1f} s", file=sys.stderr)
    spark.stop()


if __name__ == "__main__":
    main()
