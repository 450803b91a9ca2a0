-- Spark: the views of docs/data.md over `symbolicate --format ndjson` (from ndjson, `frames` lacks frames without a name).
CREATE TEMPORARY VIEW raw (
  report STRING, id STRING, launch STRING, time BIGINT, app STRUCT<name: STRING, version: STRING>, device STRING,
  title STRING, blame STRING, `group` STRING, ended BOOLEAN, at_least BOOLEAN, duration BIGINT, thread INT, damage ARRAY<STRING>,
  event STRUCT<class: STRING, reason: STRING>, stall_end STRUCT<class: STRING, reason: STRING>,
  context STRUCT<keys: MAP<STRING, STRING>>, threads ARRAY<STRUCT<frames: ARRAY<INT>>>,
  frames ARRAY<STRUCT<owner: STRING, frames: ARRAY<STRUCT<function: STRING, file: STRING, line: INT, owner: STRING>>>>
) USING json OPTIONS (path 'reports.ndjson');
CREATE TEMPORARY VIEW named AS
SELECT *, CASE WHEN id <> '00000000-0000-0000-0000-000000000000' THEN id
          ELSE concat(report, ' ', row_number() OVER (PARTITION BY report ORDER BY time, `group`)) END AS report_id
FROM raw;
CREATE TEMPORARY VIEW reports AS
SELECT * EXCEPT (ended), ended AND row_number() OVER (PARTITION BY launch ORDER BY ended DESC, at_least, duration DESC NULLS LAST, bug) = 1 AS ended
FROM (SELECT report, report_id, title, blame, `group` AS bug, ended, at_least, duration, device, app.version AS version, damage,
             coalesce(stall_end.class, event.class) AS class, CASE WHEN stall_end.class IS NULL THEN event.reason ELSE stall_end.reason END AS reason,
             timestamp_micros(nullif(time, 0) div 1000) AS time, context.keys AS context,
             coalesce(nullif(launch, '00000000-0000-0000-0000-000000000000'), report_id) AS launch,
             row_number() OVER (PARTITION BY report_id, launch, time, CASE WHEN size(damage) = 0 THEN `group` END ORDER BY size(frames) DESC, report) AS copy,
             rank() OVER (PARTITION BY report_id, launch, time ORDER BY size(damage) > 0) AS damaged
      FROM named) AS numbered
WHERE copy = 1 AND damaged = 1;
CREATE TEMPORARY VIEW frames AS
SELECT report_id, inline(flatten(transform(threads[thread].frames, at -> named.frames[at].frames))) FROM named;
