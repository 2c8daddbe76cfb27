-- Volume and times of the events whose counts changed since the given moment: a page of the projects of a range, from
-- the key on that comes after the given one. Counts are absolute, so reading one twice is harmless. Reads one row per
-- project, event and day.
--
-- An event cannot have occurred after it arrived: times more than a minute later, from clocks that were ahead, become
-- the time of arrival. NUL, which Postgres cannot store, becomes U+FFFD before anything is counted, as in
-- engines/body/storable-text.ts.
WITH least(last_inserted, now64(3)) AS arrived
SELECT
    project_id,
    replaceAll(event, '\0', '\xEF\xBF\xBD') AS name,
    sumIf(volume, day > today() - 30) AS volume_30_day,
    sum(volume) AS counted_events,
    toUnixTimestamp64Milli(max(arrived)) - {clock_lead_ms:Int64} AS arrived_ms,
    toUnixTimestamp64Milli(max(if(last_seen <= arrived + toIntervalMinute(1), last_seen, arrived))) AS last_seen_ms,
    toUnixTimestamp64Milli(min(first_seen)) AS first_seen_ms
FROM event_volumes_by_day
WHERE project_id BETWEEN {first_project:UInt32} AND {last_project:UInt32}
  AND (project_id, replaceAll(event, '\0', '\xEF\xBF\xBD')) IN
(
    SELECT DISTINCT project_id, replaceAll(event, '\0', '\xEF\xBF\xBD') AS changed
    FROM event_volumes_by_day
    WHERE last_inserted >= fromUnixTimestamp64Milli({since:Int64})
      AND project_id BETWEEN {first_project:UInt32} AND {last_project:UInt32} AND project_id NOT IN {except:Array(UInt32)}
      AND (project_id, changed) > ({after_1:UInt32}, {after_2:String})
    ORDER BY project_id, changed
    LIMIT {limit:UInt32}
)
GROUP BY project_id, name
ORDER BY project_id, name
