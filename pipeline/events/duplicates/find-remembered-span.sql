-- How many rows were inserted in each ten seconds of the last day, newest first: the writer remembers as many as its
-- memory holds. Reads one column of the last day's granules (minmax index on inserted_at).
SELECT
    toUnixTimestamp(toStartOfInterval(inserted_at, toIntervalSecond(10))) AS second,
    count() AS rows
FROM events
WHERE inserted_at >= now64(3) - toIntervalHour({hours:UInt32})
GROUP BY second
ORDER BY second DESC
