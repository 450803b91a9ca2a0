-- DuckDB: the views of docs/data.md over `symbolicate --format ndjson` (from ndjson, `frames` lacks frames without a name).
CREATE VIEW raw AS
SELECT *, "group" AS bug, app.version AS version, coalesce(stall_end.class, event.class) AS class,
       CASE WHEN stall_end.class IS NULL THEN event.reason ELSE stall_end.reason END AS reason, CASE WHEN id <> '00000000-0000-0000-0000-000000000000' THEN id
       ELSE concat(report, ' ', row_number() OVER (PARTITION BY report ORDER BY time, "group")) END AS report_id
FROM read_json('reports.ndjson', format = 'newline_delimited', columns = {
  report: 'VARCHAR', id: 'VARCHAR', launch: 'VARCHAR', time: 'UBIGINT', app: 'STRUCT(name VARCHAR, version VARCHAR)', device: 'VARCHAR',
  title: 'VARCHAR', blame: 'VARCHAR', "group": 'VARCHAR', ended: 'BOOLEAN', at_least: 'BOOLEAN', duration: 'UBIGINT', thread: 'UINTEGER', damage: 'VARCHAR[]',
  event: 'STRUCT(class VARCHAR, reason VARCHAR)', stall_end: 'STRUCT(class VARCHAR, reason VARCHAR)',
  context: 'STRUCT(keys MAP(VARCHAR, VARCHAR))', threads: 'STRUCT(frames UINTEGER[])[]',
  frames: 'STRUCT("owner" VARCHAR, frames STRUCT("function" VARCHAR, file VARCHAR, line UINTEGER, "owner" VARCHAR)[])[]'});
CREATE VIEW reports AS
SELECT * REPLACE (ended AND row_number() OVER (PARTITION BY launch ORDER BY ended DESC, at_least, duration DESC NULLS LAST, bug) = 1 AS ended)
FROM (SELECT * EXCLUDE (threads, frames, event, stall_end) REPLACE (make_timestamp(CAST(nullif(time, 0) // 1000 AS BIGINT)) AS time, context.keys AS context,
                                                  coalesce(nullif(launch, '00000000-0000-0000-0000-000000000000'), report_id) AS launch)
      FROM raw QUALIFY row_number() OVER (PARTITION BY report_id, launch, time, CASE WHEN len(damage) = 0 THEN "group" END ORDER BY len(frames) DESC, report) = 1
         AND rank() OVER (PARTITION BY report_id, launch, time ORDER BY len(damage) > 0) = 1);
CREATE VIEW frames AS
SELECT report_id, unnest(flatten(list_transform(threads[thread + 1].frames, lambda i: frames[i + 1].frames)), recursive := true)
FROM raw;
