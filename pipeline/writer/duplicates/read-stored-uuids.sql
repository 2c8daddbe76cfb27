-- Which events were inserted since the given moment; the answer is RowBinary, 20 bytes an event.
SELECT project_id, uuid
FROM events
WHERE inserted_at >= fromUnixTimestamp64Milli(toInt64({since:UInt64}))
