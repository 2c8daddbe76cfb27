-- What each tier may do in Postgres. Run it as the owner of the tables after every migration; it may be repeated.
-- A test runs the tiers under these roles (test/security/least-privilege.test.ts).
--
-- The roles cannot log in. `millrace logins create` runs this file and gives each tier a login of its own:
--   CREATE USER ingest PASSWORD '...' IN ROLE millrace_ingest;
--   CREATE USER pipeline PASSWORD '...' IN ROLE millrace_pipeline;
--   CREATE USER api PASSWORD '...' IN ROLE millrace_api;
-- Only the owner, under which `millrace migrate` runs, can change tables.
DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['millrace_ingest', 'millrace_pipeline', 'millrace_api'] LOOP
    BEGIN
      EXECUTE format('CREATE ROLE %I NOLOGIN', name);
    EXCEPTION WHEN duplicate_object OR unique_violation THEN
      -- From an earlier run, or one at the same time.
      NULL;
    END;
  END LOOP;
END $$;

REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO millrace_ingest, millrace_pipeline, millrace_api;

-- Which project a key belongs to and whether it may write there; nothing about persons.
GRANT SELECT (id, anonymize_ips) ON projects TO millrace_ingest;
GRANT SELECT (api_key, project_id, expires_at) ON project_api_keys TO millrace_ingest;
GRANT SELECT (secure_value, user_id, scopes, project_ids, expires_at, revoked_at, made_by_users) ON personal_api_keys TO millrace_ingest;
-- The roles that limit a key; no addresses, no names.
GRANT SELECT (id, has_roles) ON users TO millrace_ingest;
GRANT SELECT (user_id, project_id, role, sees_persons) ON memberships TO millrace_ingest;

-- Whether a newer version has migrated the database: asked at every start.
GRANT SELECT ON schema_versions TO millrace_ingest, millrace_pipeline, millrace_api;

-- The schemas that events are checked by.
GRANT SELECT ON event_schemas, event_schema_versions TO millrace_ingest;

-- The rules that are run over events, and the secret that they hash with.
GRANT SELECT ON event_rules, event_rule_versions, rule_keys TO millrace_ingest;

-- How many events a project may send, and has sent.
GRANT SELECT ON project_quotas, project_usage TO millrace_ingest;

-- Names that are defined, which a flood of new ones does not crowd out.
GRANT SELECT (project_id, name, volume_30_day, deleted_at) ON event_definitions TO millrace_ingest;
GRANT SELECT (project_id, type, group_type, name, counted_events, deleted_at) ON property_definitions TO millrace_ingest;
GRANT SELECT (project_id, event, property, last_seen_at) ON event_properties TO millrace_ingest;

-- The secret of the events' fingerprints.
GRANT SELECT ON fingerprint_keys TO millrace_ingest, millrace_pipeline;

-- Which ids were erased, as salted hashes.
GRANT SELECT ON erasures TO millrace_ingest;

-- The salts of visitors without cookies: ingest makes them and destroys them, and nobody else reads them.
GRANT SELECT, INSERT, DELETE ON cookieless_salts TO millrace_ingest;

-- Persons, definitions and its own progress; no keys, no flags.
GRANT SELECT ON projects, retention, cohorts, backups, project_quotas, exports, erasures TO millrace_pipeline;
-- A new type of group changes what flags may ask for: a trigger raises the revision.
GRANT SELECT, INSERT, UPDATE ON flag_revisions TO millrace_pipeline;
GRANT SELECT, INSERT, UPDATE, DELETE ON
  persons, person_distinct_ids, group_types, groups, cohort_members, flag_hash_keys,
  persons_progress, persons_projects, persons_recent_updates, persons_warning_minutes, persons_outbox,
  person_deletions, person_repairs, event_removals,
  event_definitions, property_definitions, event_properties, roll_up_state,
  definition_days, roll_up_behind,
  project_usage, window_tasks, export_state, export_windows, export_erasures,
  targets, notifications, notified_events, alerts, alert_windows, report_pictures, cohort_refreshes, cohort_people
  TO millrace_pipeline;
-- What alerts and reports are about.
GRANT SELECT ON questions, saved_queries, boards TO millrace_pipeline;
-- Whether those who saved an alert may still run SQL.
GRANT SELECT (id, has_roles, disabled_at) ON users TO millrace_pipeline;
GRANT SELECT (user_id, project_id, role, sees_persons) ON memberships TO millrace_pipeline;

-- Everything that management and decide work with; the progress of the pipeline stays its own.
GRANT SELECT, INSERT, UPDATE, DELETE ON
  projects, project_api_keys, users, personal_api_keys, retention,
  feature_flags, feature_flag_changes, flag_revisions, flag_hash_keys, cohorts, cohort_members, experiments, experiment_versions,
  event_definitions, property_definitions, event_properties,
  persons, person_distinct_ids, group_types, groups, person_deletions, person_repairs, erasures, persons_outbox, persons_projects,
  persons_warning_minutes, memberships, invitations, login_attempts, console_sessions, console_login_links,
  saved_queries, questions, boards, board_links, annotations,
  event_schemas, event_schema_versions, event_rules, event_rule_versions, project_quotas, imports, record,
  exports, export_windows, targets, alerts
  TO millrace_api;
GRANT SELECT, INSERT, UPDATE ON notifications TO millrace_api;
GRANT SELECT ON roll_up_state, roll_up_behind, persons_progress, project_usage, window_tasks, alert_windows, report_pictures, notified_events, cohort_refreshes TO millrace_api;
-- Who is deleted is no member any more.
GRANT SELECT, DELETE ON cohort_people TO millrace_api;

GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO millrace_pipeline, millrace_api;
