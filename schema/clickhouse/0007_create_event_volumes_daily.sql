-- Volume and last_seen by event and day, exact at any moment.
CREATE VIEW IF NOT EXISTS event_volumes_daily {{on_cluster}} AS
SELECT
    project_id,
    event,
    day,
    sum(volume) AS volume,
    max(last_seen) AS last_seen
FROM event_volumes_by_day
GROUP BY project_id, event, day
COMMENT 'Volume and last_seen by project, event and day (UTC)'
