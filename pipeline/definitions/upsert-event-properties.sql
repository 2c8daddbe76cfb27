-- $1: what read-changed-event-properties.sql found, as JSON. $2: now by ClickHouse's clock, in epoch milliseconds.
-- $3: the day. $4: how many new pairs a project may have on a day. Beyond is as in upsert-event-definitions.sql.
-- Skips rows whose project is deleted. A pair that was seen again is written once a minute at most: there are many
-- pairs, and it is their existence that matters. It is left out before the insert, which would lock its row. Deleting a
-- definition leaves its pairs, which the stored events still have.
WITH found AS MATERIALIZED (
  SELECT found.*, known.event IS NULL AS is_new, row_number() OVER (
    PARTITION BY found.project_id, known.event IS NULL ORDER BY found.event_name COLLATE "C", found.property COLLATE "C"
  ) + CASE WHEN known.event IS NULL THEN coalesce(days.added, 0) ELSE 0 END AS place,
    known.last_seen_at IS NULL OR known.last_seen_at < to_timestamp(found.last_seen_ms / 1000.0) - interval '1 minute'
      OR known.last_seen_at > to_timestamp($2::bigint / 1000.0) + interval '1 minute'
      OR coalesce(known.last_arrived_at, '-infinity') < to_timestamp(found.arrived_ms / 1000.0) - interval '1 day' AS is_due
  FROM (
    -- Two names may have become one, when NUL was replaced.
    SELECT project_id, event_name, property, max(last_seen_ms) AS last_seen_ms, max(arrived_ms) AS arrived_ms
    FROM jsonb_to_recordset($1::text::jsonb) AS sent
      (project_id integer, event_name text, property text, last_seen_ms bigint, arrived_ms bigint)
    GROUP BY project_id, event_name, property
  ) AS found
  JOIN projects ON projects.id = found.project_id
  LEFT JOIN event_properties AS known ON known.project_id = found.project_id AND known.event = found.event_name
    AND known.property = found.property
  LEFT JOIN definition_days AS days ON days.project_id = found.project_id AND days.what = 'pair' AND days.day = $3::date
), counted AS (
  INSERT INTO definition_days AS days (project_id, what, day, added)
  SELECT project_id, 'pair', $3::date, count(*) FROM found WHERE is_new AND place <= $4::bigint GROUP BY project_id
  ON CONFLICT (project_id, what, day) DO UPDATE SET added = days.added + excluded.added
), written AS (
INSERT INTO event_properties AS known (project_id, event, property, last_seen_at, last_arrived_at)
SELECT
  found.project_id, found.event_name, found.property, to_timestamp(found.last_seen_ms / 1000.0),
  to_timestamp(found.arrived_ms / 1000.0)
FROM found WHERE is_due AND (NOT is_new OR place <= $4::bigint)
-- Always in the same order, which prevents deadlocks.
ORDER BY found.project_id, found.event_name COLLATE "C", found.property COLLATE "C"
ON CONFLICT (project_id, event, property) DO UPDATE
  SET last_seen_at = excluded.last_seen_at, last_arrived_at = excluded.last_arrived_at
)
SELECT project_id, count(*)::integer AS beyond FROM found WHERE is_new AND place > $4::bigint GROUP BY project_id
