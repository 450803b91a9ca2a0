-- DuckDB: the views of docs/data.md over Parquet. Names of files may be globs, such as reports-*.parquet.
CREATE VIEW reports AS
SELECT * REPLACE (ended AND row_number() OVER (PARTITION BY launch ORDER BY ended DESC, at_least, duration DESC NULLS LAST, bug) = 1 AS ended)
FROM (SELECT *, "group" AS bug FROM 'reports.parquet'
      QUALIFY row_number() OVER (PARTITION BY report_id, launch, time, CASE WHEN len(damage) = 0 THEN "group" END ORDER BY samples DESC, len(stack) DESC, report) = 1
         AND rank() OVER (PARTITION BY report_id, launch, time ORDER BY len(damage) > 0) = 1);
CREATE VIEW frames AS SELECT * FROM 'frames.parquet' WHERE awaits IS NULL;
