-- Feeds event_volumes_by_day from each insert into events.
CREATE MATERIALIZED VIEW IF NOT EXISTS event_volumes_by_day_view {{on_cluster}} TO event_volumes_by_day AS
SELECT
    project_id,
    event,
    toDate(timestamp) AS day,
    count() AS volume,
    max(timestamp) AS last_seen,
    now64(3) AS last_inserted
FROM events
GROUP BY project_id, event, day
