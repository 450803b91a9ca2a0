-- The seven questions of docs/data.md, for DuckDB (1.4 or newer) and Spark (4), after one of the files of views.

-- Which bugs hurt users most, in the order of `--top`?
SELECT max(title) AS title, count(DISTINCT launch) AS launches, count(*) AS reports,
       count(DISTINCT CASE WHEN ended THEN launch END) AS ended_launches, sum(duration) / 1000000000 AS seconds
FROM reports GROUP BY bug
ORDER BY ended_launches DESC, seconds DESC NULLS LAST, reports DESC, bug LIMIT 10;

-- In which version did each bug first and last occur (by users' clocks)?
SELECT max(title) AS title, min_by(version, time) AS began, max_by(version, time) AS latest, CAST(min(time) AS DATE) AS first_seen
FROM reports WHERE time IS NOT NULL GROUP BY bug ORDER BY first_seen, title, bug;

-- Which devices does each bug hit?
SELECT max(title) AS title, device, count(*) AS reports FROM reports
GROUP BY bug, device ORDER BY reports DESC, title, device, bug LIMIT 10;

-- Which screen were users on? (The app sets the key `screen`; where a report lacks a key, its value is NULL.)
SELECT context['screen'] AS screen, count(*) AS reports FROM reports
WHERE context['screen'] IS NOT NULL GROUP BY context['screen'] ORDER BY reports DESC, screen;

-- Which of the app's files are on the stacks that ended launches?
SELECT file, count(DISTINCT report_id) AS reports, min(line) AS first_line
FROM frames JOIN reports USING (report_id)
WHERE owner = 'app' AND ended AND file IS NOT NULL GROUP BY file ORDER BY reports DESC, file;

-- Why did the app stall?
SELECT class, reason, count(*) AS reports FROM reports WHERE class IS NOT NULL
GROUP BY class, reason ORDER BY reports DESC, class, reason NULLS LAST LIMIT 10;

-- In what share of each version's launches that have any report does each bug occur (the `shares` of `--top`)?
SELECT version, max(title) AS title, count(DISTINCT launch) AS launches, count(DISTINCT launch) / CAST(max(reported) AS DOUBLE) AS share
FROM reports JOIN (SELECT version, count(DISTINCT launch) AS reported FROM reports GROUP BY version) USING (version)
WHERE version <> '' GROUP BY version, bug ORDER BY version DESC, launches DESC, title, bug LIMIT 10;
