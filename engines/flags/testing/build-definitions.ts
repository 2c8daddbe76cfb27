import type { CohortDefinition, FlagDefinition, ProjectDefinitions } from '../flag-definition.ts'
import type { Subject } from '../subject.ts'

/** A flag for tests, with default values for all other fields. */
export function buildFlag (key: string, filters: unknown, rest: Partial<FlagDefinition> = {}): FlagDefinition {
  return {
    id: 1,
    key,
    name: '',
    filters,
    active: true,
    ensure_experience_continuity: false,
    version: 1,
    evaluation_runtime: 'all',
    bucketing_identifier: 'distinct_id',
    has_experiment: false,
    ...rest
  }
}

/** The definitions of one project in UTC with group types company (0) and team (1). */
export function buildDefinitions (
  flags: readonly FlagDefinition[], cohorts: readonly CohortDefinition[] = []
): ProjectDefinitions {
  const groupTypes = new Map([[0, 'company'], [1, 'team']])
  return { projectId: 1, timezone: 'UTC', flags, cohorts, groupTypes }
}

/** A subject with a distinct id only, and nothing stored. */
export function buildSubject (distinctId: string, rest: Partial<Subject> = {}): Subject {
  return {
    distinctId,
    anonDistinctId: null,
    deviceId: null,
    nowMs: Date.UTC(2026, 5, 15, 12),
    personOverrides: null,
    groupKeys: [],
    groupOverrides: [],
    stored: null,
    outcomes: [],
    ...rest
  }
}
