"""Runs the SQL of docs/data.md: ask.py PAGE FOLDER EXPECTED [spark]. Each engine and format must give the expected rows.

With WEDJAT_BLESS set, the rows of DuckDB over Parquet become the expected ones.
"""
import os
import re
import sys

page, folder, expected, *more = sys.argv[1:]
blocks = re.findall(r"^```sql,(\S+)\n(.*?)^```", open(page).read(), re.S | re.M)
questions = [text.strip().rstrip(";") for words, text in blocks if words == "question"]
assert len(questions) == 5, f"{len(questions)} questions"
expected = os.path.abspath(expected)
os.chdir(folder)


def setup(engine, format):
    [text] = [text for words, text in blocks if words == f"{engine},{format}"]
    return [statement for statement in text.split(";\n") if statement.strip()]


def duckdb(format):
    import duckdb
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for statement in setup("duckdb", format):
        connection.execute(statement)
    return [connection.execute(question).fetchall() for question in questions]


def spark(format):
    import duckdb
    from pyspark.sql import SparkSession
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config(
        "spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "1").getOrCreate()
    # The same columns without compression: Spark's native Snappy ends a JVM on a machine that has musl, too.
    duckdb.execute("COPY (FROM 'reports.parquet') TO 'plain.parquet' (COMPRESSION uncompressed)")
    for view in ["raw", "reports", "frames"]:
        session.catalog.dropTempView(view)
    for statement in setup("spark", format):
        session.sql(statement.rstrip(";\n").replace("'reports.parquet'", "'plain.parquet'"))
    return [session.sql(question).collect() for question in questions]


def shown(rows):
    def text(value):
        whole = not isinstance(value, (str, bool)) and hasattr(value, "__float__")
        return "-" if value is None else f"{float(value):g}" if whole else str(value)
    return "\n\n".join("\n".join(" | ".join(map(text, row)) for row in answer) for answer in rows) + "\n"


if os.environ.get("WEDJAT_BLESS"):
    open(expected, "w").write(shown(duckdb("parquet")))
wanted = open(expected).read()
assert all(answer.strip() for answer in wanted.split("\n\n")) and wanted.count("\n\n") == 4, "a question without an answer"
for ask in [duckdb] + [spark] * ("spark" in more):
    for format in ["parquet", "ndjson"]:
        answer = shown(ask(format))
        assert answer == wanted, f"{ask.__name__}, {format}:\n{answer}\nexpected:\n{wanted}"
        print(f"{ask.__name__}, {format}: {len(questions)} questions, {answer.count(chr(10))} lines as expected")
