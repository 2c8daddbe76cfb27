-- $1: what read-event-volumes.sql found, as JSON. $2: now by ClickHouse's clock, in epoch milliseconds.
-- $3: the day. $4: how many new names a project may have on a day.
-- Skips rows whose project is deleted, new ones beyond the limit (those with the fewest events), and rows that would not
-- change. Answers how many are beyond, by project.
--
-- What a user did (deleted the definition, wrote a value) holds until events of the name have arrived after it: their
-- number is larger than in the last round, and the latest is newer. The number is compared as well because times of a
-- clock that was ahead stay in ClickHouse, and would look like a new event in every round.
WITH found AS MATERIALIZED (
  SELECT found.*, known.id IS NULL AS is_new, row_number() OVER (
    PARTITION BY found.project_id, known.id IS NULL ORDER BY found.counted_events DESC, found.name COLLATE "C"
  ) + CASE WHEN known.id IS NULL THEN coalesce(days.added, 0) ELSE 0 END AS place
  FROM jsonb_to_recordset($1::text::jsonb) AS found (
    project_id integer, name text, volume_30_day bigint, first_seen_ms bigint, last_seen_ms bigint,
    counted_events bigint, arrived_ms bigint
  )
  JOIN projects ON projects.id = found.project_id
  LEFT JOIN event_definitions AS known ON known.project_id = found.project_id AND known.name = found.name
  LEFT JOIN definition_days AS days ON days.project_id = found.project_id AND days.what = 'event' AND days.day = $3::date
), counted AS (
  INSERT INTO definition_days AS days (project_id, what, day, added)
  SELECT project_id, 'event', $3::date, count(*) FROM found WHERE is_new AND place <= $4::bigint GROUP BY project_id
  ON CONFLICT (project_id, what, day) DO UPDATE SET added = days.added + excluded.added
), written AS (
INSERT INTO event_definitions AS known
  (project_id, name, volume_30_day, created_at, last_seen_at, last_calculated_at, counted_events, last_arrived_at)
SELECT
  found.project_id, found.name, found.volume_30_day,
  least(now(), to_timestamp(found.first_seen_ms / 1000.0)), to_timestamp(found.last_seen_ms / 1000.0), now(),
  found.counted_events, to_timestamp(found.arrived_ms / 1000.0)
FROM found WHERE NOT is_new OR place <= $4::bigint
-- Always in the same order, which prevents deadlocks.
ORDER BY found.project_id, found.name COLLATE "C"
ON CONFLICT (project_id, name) DO UPDATE SET
  (
    deleted_at, created_at, volume_30_day, volume_written_at, last_calculated_at, last_seen_at, last_seen_written_at,
    counted_events, last_arrived_at
  ) = (
    SELECT
      CASE WHEN holds.deletion THEN known.deleted_at END,
      CASE
        WHEN known.deleted_at IS NOT NULL AND NOT holds.deletion THEN excluded.created_at
        -- Older events may come later, by an import.
        WHEN arrived.since THEN least(known.created_at, excluded.created_at)
        ELSE known.created_at
      END,
      CASE WHEN holds.volume THEN known.volume_30_day ELSE excluded.volume_30_day END,
      CASE WHEN holds.volume THEN known.volume_written_at END,
      CASE WHEN holds.volume THEN known.last_calculated_at ELSE excluded.last_calculated_at END,
      CASE
        WHEN holds.last_seen THEN known.last_seen_at
        WHEN known.last_seen_written_at IS NOT NULL OR known.last_seen_at IS NULL OR known.last_seen_at > latest.possible
          THEN excluded.last_seen_at
        -- Without a new event, a time from the future would become the current time in each round.
        WHEN arrived.since THEN greatest(known.last_seen_at, excluded.last_seen_at)
        ELSE known.last_seen_at
      END,
      CASE WHEN holds.last_seen THEN known.last_seen_written_at END,
      excluded.counted_events,
      excluded.last_arrived_at
    FROM
      (SELECT excluded.counted_events > known.counted_events AS since) AS arrived,
      (SELECT to_timestamp($2::bigint / 1000.0) + interval '1 minute' AS possible) AS latest,
      LATERAL (
        SELECT
          known.deleted_at IS NOT NULL
            AND NOT (arrived.since AND excluded.last_arrived_at >= date_trunc('milliseconds', known.deleted_at)) AS deletion,
          known.volume_written_at IS NOT NULL
            AND NOT (arrived.since AND excluded.last_arrived_at >= date_trunc('milliseconds', known.volume_written_at)) AS volume,
          known.last_seen_written_at IS NOT NULL
            AND NOT (arrived.since AND excluded.last_arrived_at >= date_trunc('milliseconds', known.last_seen_written_at)) AS last_seen
      ) AS holds
  )
WHERE known.counted_events <> excluded.counted_events
  OR (known.volume_written_at IS NULL AND known.volume_30_day <> excluded.volume_30_day)
  OR (known.last_seen_written_at IS NULL
    AND (known.last_seen_at IS NULL OR known.last_seen_at > to_timestamp($2::bigint / 1000.0) + interval '1 minute'))
)
SELECT project_id, count(*)::integer AS beyond FROM found WHERE is_new AND place > $4::bigint GROUP BY project_id
