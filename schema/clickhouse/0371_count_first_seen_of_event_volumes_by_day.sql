-- The view of before, with the earliest time.
ALTER TABLE event_volumes_by_day_view {{on_cluster}} MODIFY QUERY
SELECT
    project_id,
    event,
    toDate(timestamp) AS day,
    count() AS volume,
    max(timestamp) AS last_seen,
    now64(3) AS last_inserted,
    min(timestamp) AS first_seen
FROM events
GROUP BY project_id, event, day
