-- Properties by event with types and counts, exact at any moment.
CREATE VIEW IF NOT EXISTS event_properties {{on_cluster}} AS
SELECT
    project_id,
    event,
    kind,
    group_type,
    property,
    type,
    sum(count) AS count,
    max(last_seen) AS last_seen
FROM event_property_counts
GROUP BY project_id, event, kind, group_type, property, type
COMMENT 'Which properties occur on which events, with inferred types and counts'
