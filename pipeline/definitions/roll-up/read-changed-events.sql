-- Volume and times of the events whose counts changed since the given moment; since 1970 for all. Volumes are absolute,
-- so reading one twice is harmless. Reads one row per project, event and day.
SELECT
    project_id,
    event AS name,
    sumIf(volume, day > today() - 30) AS volume_30_day,
    toUnixTimestamp64Milli(max(last_seen)) AS last_seen_ms,
    toUnixTimestamp64Milli(min(last_seen)) AS first_seen_ms
FROM event_volumes_by_day
WHERE (project_id, event) IN
(
    SELECT project_id, event
    FROM event_volumes_by_day
    WHERE last_inserted >= fromUnixTimestamp64Milli({since:Int64})
)
GROUP BY project_id, event
