-- $1: what read-changed-properties.sql found, as JSON. $2: now by ClickHouse's clock, in epoch milliseconds.
-- $3: the day. $4: how many new properties a project may have on a day. Beyond is as in upsert-event-definitions.sql.
-- Skips rows whose project is deleted, and rows that would not change. A type that a user chose stays. A deletion and a
-- rename hold until an event with the property arrives after them, as in upsert-event-definitions.sql.
WITH found AS MATERIALIZED (
  SELECT found.*, known.id IS NULL AS is_new, row_number() OVER (
    PARTITION BY found.project_id, known.id IS NULL
    ORDER BY found.counted_events DESC, found.kind COLLATE "C", found.group_type COLLATE "C", found.name COLLATE "C"
  ) + CASE WHEN known.id IS NULL THEN coalesce(days.added, 0) ELSE 0 END AS place
  FROM jsonb_to_recordset($1::text::jsonb) AS found (
    project_id integer, kind text, group_type text, name text, property_type text,
    first_seen_ms bigint, last_seen_ms bigint, counted_events bigint, arrived_ms bigint
  )
  JOIN projects ON projects.id = found.project_id
  LEFT JOIN property_definitions AS known ON known.project_id = found.project_id AND known.type = found.kind
    AND known.group_type = found.group_type AND known.name = found.name
  LEFT JOIN definition_days AS days ON days.project_id = found.project_id AND days.what = 'property' AND days.day = $3::date
), counted AS (
  INSERT INTO definition_days AS days (project_id, what, day, added)
  SELECT project_id, 'property', $3::date, count(*) FROM found WHERE is_new AND place <= $4::bigint GROUP BY project_id
  ON CONFLICT (project_id, what, day) DO UPDATE SET added = days.added + excluded.added
), written AS (
INSERT INTO property_definitions AS known
  (project_id, type, group_type, name, property_type, created_at, last_seen_at, counted_events, last_arrived_at)
SELECT
  found.project_id, found.kind, found.group_type, found.name, nullif(found.property_type, ''),
  least(now(), to_timestamp(found.first_seen_ms / 1000.0)), to_timestamp(found.last_seen_ms / 1000.0),
  found.counted_events, to_timestamp(found.arrived_ms / 1000.0)
FROM found WHERE NOT is_new OR place <= $4::bigint
-- Always in the same order, which prevents deadlocks.
ORDER BY found.project_id, found.kind COLLATE "C", found.group_type COLLATE "C", found.name COLLATE "C"
ON CONFLICT (project_id, type, group_type, name) DO UPDATE SET
  (deleted_at, created_at, property_type, renamed_at, last_seen_at, counted_events, last_arrived_at) = (
    SELECT
      CASE WHEN holds.deletion THEN known.deleted_at END,
      CASE
        WHEN known.deleted_at IS NOT NULL AND NOT holds.deletion THEN excluded.created_at
        -- Older events may come later, by an import.
        WHEN arrived.since THEN least(known.created_at, excluded.created_at)
        ELSE known.created_at
      END,
      CASE
        WHEN known.property_type_is_manual OR holds.name THEN known.property_type
        ELSE coalesce(excluded.property_type, known.property_type)
      END,
      CASE WHEN holds.name THEN known.renamed_at END,
      CASE
        WHEN known.last_seen_at IS NULL OR known.last_seen_at > latest.possible THEN excluded.last_seen_at
        WHEN arrived.since THEN greatest(known.last_seen_at, excluded.last_seen_at)
        ELSE known.last_seen_at
      END,
      excluded.counted_events,
      excluded.last_arrived_at
    FROM
      (SELECT excluded.counted_events > known.counted_events AS since) AS arrived,
      (SELECT to_timestamp($2::bigint / 1000.0) + interval '1 minute' AS possible) AS latest,
      LATERAL (
        SELECT
          known.deleted_at IS NOT NULL
            AND NOT (arrived.since AND excluded.last_arrived_at >= date_trunc('milliseconds', known.deleted_at)) AS deletion,
          known.renamed_at IS NOT NULL
            AND NOT (arrived.since AND excluded.last_arrived_at >= date_trunc('milliseconds', known.renamed_at)) AS name
      ) AS holds
  )
WHERE known.counted_events <> excluded.counted_events
  OR (NOT known.property_type_is_manual AND known.renamed_at IS NULL
    AND coalesce(excluded.property_type, known.property_type) IS DISTINCT FROM known.property_type)
  OR known.last_seen_at IS NULL OR known.last_seen_at > to_timestamp($2::bigint / 1000.0) + interval '1 minute'
)
SELECT project_id, count(*)::integer AS beyond FROM found WHERE is_new AND place > $4::bigint GROUP BY project_id
