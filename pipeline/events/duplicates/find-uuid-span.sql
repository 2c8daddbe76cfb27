-- How many rows were inserted in each hour of the last days, newest first: as many uuids are read as there is room for.
-- Reads one column of those days' granules (minmax index on inserted_at).
SELECT
    toUnixTimestamp(toStartOfHour(inserted_at)) AS second,
    count() AS rows
FROM events
WHERE inserted_at >= now64(3) - toIntervalDay({days:UInt32})
GROUP BY second
ORDER BY second DESC
