-- What each launched experiment measures, as it was at the launch and after every change until the end: the key, variants,
-- shares and conditions of its flag, its parameters and its metrics. Results are computed from the newest version, so that
-- what becomes of the flag after the end changes nothing. Written in the transaction of the change, which also deletes the
-- oldest ones but the first: 500 an experiment at most, and 10 MB. Read by experiment, newest first.
CREATE TABLE experiment_versions (
  experiment_id integer NOT NULL REFERENCES experiments ON DELETE CASCADE,
  version integer NOT NULL,
  -- { key, active, filters }
  flag jsonb NOT NULL,
  parameters jsonb NOT NULL,
  filters jsonb NOT NULL,
  secondary_metrics jsonb NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (experiment_id, version)
);

-- Experiments that were launched before have what the history of their flag says: its state at the launch, then each change
-- until the end. What began before the history begins with the first state in it; without any, with the flag of today.
INSERT INTO experiment_versions (experiment_id, version, flag, parameters, filters, secondary_metrics, created_at)
SELECT e.id, row_number() OVER (PARTITION BY e.id ORDER BY state.at, state.flag_version),
  jsonb_build_object('key', state.flag -> 'key', 'active', state.flag -> 'active', 'filters', state.flag -> 'filters'),
  e.parameters, e.filters, e.secondary_metrics, state.at
FROM experiments e
JOIN feature_flags f ON f.id = e.feature_flag_id
CROSS JOIN LATERAL (
  SELECT least(e.start_date, now()) AS at, 0 AS flag_version, coalesce(
    (SELECT c.after FROM feature_flag_changes c
     WHERE c.flag_id = f.id AND c.created_at <= e.start_date ORDER BY c.version DESC LIMIT 1),
    (SELECT coalesce(c.before, c.after) FROM feature_flag_changes c
     WHERE c.flag_id = f.id AND c.created_at > e.start_date ORDER BY c.version LIMIT 1),
    jsonb_build_object('key', f.key, 'active', f.active, 'filters', f.filters)) AS flag
  UNION ALL
  SELECT c.created_at, c.version, c.after FROM feature_flag_changes c
  WHERE c.flag_id = f.id AND c.created_at > e.start_date
    -- An experiment may have been entered after its end.
    AND c.created_at <= greatest(coalesce(e.end_date, now()), e.created_at)
) AS state
WHERE e.start_date IS NOT NULL AND NOT e.deleted;
