-- The view of before, with the earliest time.
ALTER TABLE event_property_counts_view {{on_cluster}} MODIFY QUERY
SELECT
    project_id,
    event,
    CAST(transform(substring(entry, 1, 1), ['e', 'p', 'g'], ['event', 'person', 'group'], 'event'), 'Enum8(\'event\' = 1, \'person\' = 2, \'group\' = 3)') AS kind,
    if(substring(entry, 1, 1) = 'g', splitByChar('\x01', substring(entry, 3))[1], '') AS group_type,
    if(substring(entry, 1, 1) = 'g', splitByChar('\x01', substring(entry, 3))[2], substring(entry, 3)) AS property,
    CAST(transform(substring(entry, 2, 1), ['S', 'N', 'B', 'D'], ['String', 'Numeric', 'Boolean', 'DateTime'], 'none'), 'Enum8(\'none\' = 0, \'String\' = 1, \'Numeric\' = 2, \'Boolean\' = 3, \'DateTime\' = 4)') AS type,
    sum(rows) AS count,
    max(latest) AS last_seen,
    now64(3) AS last_inserted,
    min(earliest) AS first_seen
FROM
(
    SELECT project_id, event, property_types, count() AS rows, max(timestamp) AS latest, min(timestamp) AS earliest
    FROM events
    WHERE property_types != ''
    GROUP BY project_id, event, property_types
)
ARRAY JOIN splitByChar('\0', toString(property_types)) AS entry
GROUP BY project_id, event, kind, group_type, property, type
