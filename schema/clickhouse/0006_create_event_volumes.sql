-- Volume and last_seen by event over all time, exact at any moment: what an analyst reads.
CREATE VIEW IF NOT EXISTS event_volumes {{on_cluster}} AS
SELECT
    project_id,
    event,
    sum(volume) AS volume,
    max(last_seen) AS last_seen
FROM event_volumes_by_day
GROUP BY project_id, event
COMMENT 'Volume and last_seen by project and event'
