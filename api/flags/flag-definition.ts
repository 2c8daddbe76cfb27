/**
 * Definitions of flags as Postgres holds them and the API carries them. `filters` is what a client once wrote: nothing
 * in it is trusted before it is compiled (see `compile-flag.ts`).
 */
export interface FlagDefinition {
  id: number
  key: string
  name: string
  filters: unknown
  active: boolean
  ensureExperienceContinuity: boolean
  version: number
  /** Which SDKs may ask: `server`, `client` or `all`. */
  evaluationRuntime: 'server' | 'client' | 'all'
  /** What persons are counted by. */
  bucketingIdentifier: 'distinct_id' | 'device_id'
  /** An experiment runs on this flag. */
  hasExperiment: boolean
}

/** A cohort that flags may ask for. */
export interface CohortDefinition {
  id: number
  /** Static cohorts are lists of persons in Postgres; dynamic ones are property groups. */
  isStatic: boolean
  /** `{ type: 'AND' | 'OR', values: [...] }`, nested; null for static ones. */
  filters: unknown
}

/** Everything needed to evaluate the flags of one project. */
export interface ProjectDefinitions {
  projectId: number
  /** IANA name; dates without an offset are read in it. */
  timezone: string
  flags: readonly FlagDefinition[]
  cohorts: readonly CohortDefinition[]
  /** Group type by its index. */
  groupTypes: ReadonlyMap<number, string>
}
