-- Spark: the views of docs/data.md over Parquet.
CREATE TEMPORARY VIEW reports AS
SELECT * EXCEPT (ended), ended AND row_number() OVER (PARTITION BY launch ORDER BY ended DESC, at_least, duration DESC NULLS LAST, bug) = 1 AS ended
FROM (SELECT *, `group` AS bug,
             row_number() OVER (PARTITION BY report_id, launch, time, CASE WHEN size(damage) = 0 THEN `group` END ORDER BY samples DESC, size(stack) DESC, report) AS copy,
             rank() OVER (PARTITION BY report_id, launch, time ORDER BY size(damage) > 0) AS damaged
      FROM parquet.`reports.parquet`) AS numbered
WHERE copy = 1 AND damaged = 1;
CREATE TEMPORARY VIEW frames AS SELECT * FROM parquet.`frames.parquet` WHERE awaits IS NULL;
