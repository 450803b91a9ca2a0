"""Runs examples/sql: ask.py FOLDER_OF_SQL FOLDER ENGINE,FORMAT... Each must return the answers that Python counts (answers.py)."""
import os
import re
import sys
from pathlib import Path

from answers import answers, shown

folder_of_sql, folder, *asked = sys.argv[1:]
sql = Path(folder_of_sql).resolve()


def statements(name):
    text = re.sub(r"(?m)^--.*\n", "", (sql / f"{name}.sql").read_text())
    return [statement.strip() for statement in text.split(";\n") if statement.strip()]


questions = statements("questions")
assert len(questions) == 7, f"{len(questions)} questions"
os.chdir(folder)


def duckdb(format):
    import duckdb
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for statement in statements(f"duckdb-{format}"):
        connection.execute(statement)
    [(largest,)] = connection.execute("SELECT max(strlen(CAST(to_json(reports) AS VARCHAR))) FROM reports").fetchall()
    assert largest <= 20 << 10, f"{format}: a report's row of {largest} bytes"
    return [connection.execute(question).fetchall() for question in questions]


def spark(format):
    import duckdb
    from pyspark.sql import SparkSession
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config(
        "spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "1").getOrCreate()
    # The same columns without compression: Spark's native Snappy ends a JVM on a machine that has musl, too.
    for table in ["reports", "frames"]:
        duckdb.execute(f"COPY (FROM '{table}.parquet') TO 'plain-{table}.parquet' (COMPRESSION uncompressed)")
    for view in ["raw", "named", "reports", "frames"]:
        session.catalog.dropTempView(view)
    for statement in statements(f"spark-{format}"):
        session.sql(statement.replace("parquet.`", "parquet.`plain-"))
    return [session.sql(question).collect() for question in questions]


def with_copy(table):
    """Puts the rows of the cut copy before the others."""
    import duckdb
    duckdb.execute(f"COPY (FROM read_parquet(['cut-{table}.parquet', '{table}.parquet'])) TO 'both.parquet'")
    os.replace("both.parquet", f"{table}.parquet")


with_copy("reports")
with_copy("frames")
wanted = shown(answers("reports.json"))
assert all(answer.strip() for answer in wanted.split("\n\n")) and wanted.count("\n\n") == 6, "a question without an answer"
for engine, format in (each.split(",") for each in asked):
    answer = shown({"duckdb": duckdb, "spark": spark}[engine](format))
    assert answer == wanted, f"{engine}, {format}:\n{answer}\nexpected:\n{wanted}"
    print(f"{engine}, {format}: {len(questions)} questions, {answer.count(chr(10))} lines as counted")
