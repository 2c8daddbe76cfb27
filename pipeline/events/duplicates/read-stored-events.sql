-- Which events were inserted since the given moment, with what their fingerprints are made of. The answer is RowBinary.
SELECT project_id, uuid, toInt64(toUnixTimestamp64Milli(timestamp)), toString(event), distinct_id
FROM events
WHERE inserted_at >= fromUnixTimestamp64Milli(toInt64({since:UInt64}))
