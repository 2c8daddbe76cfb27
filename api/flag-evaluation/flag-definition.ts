import { MillraceError } from '../../platform/errors.ts'

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

/** A variant of a flag: who gets it is decided by the flag. */
export interface Variant {
  key: string
  name?: string
  /** Share of the people the flag is on for, 0 to 100. */
  rollout_percentage: number
}

/** The variants of a flag, from its filters as stored; empty for a flag without. */
export function variantsOfFlag (filters: unknown): Variant[] {
  const { multivariate } = Object(filters) as { multivariate?: { variants?: unknown } | null }
  const variants = multivariate?.variants
  if (!Array.isArray(variants)) return []
  return variants.flatMap((value) => {
    const { key, name, rollout_percentage: percentage } = Object(value) as Record<string, unknown>
    if (typeof key !== 'string') return []
    return [{
      key,
      ...(typeof name === 'string' ? { name } : {}),
      rollout_percentage: typeof percentage === 'number' ? percentage : 0
    }]
  })
}

/** True when two lists give the same people the same variants. */
export function sameVariants (some: readonly Variant[], others: readonly Variant[]): boolean {
  return some.length === others.length && some.every(({ key, rollout_percentage: percentage }, index) =>
    others[index]?.key === key && others[index].rollout_percentage === percentage)
}

/**
 * What can be wrong with one field of a flag. The code becomes the `code` of the API's answer, and the reason of a
 * flag whose stored filters are malformed.
 */
export type MalformedFlagCode = 'required' | 'invalid' | 'invalid_choice' | 'invalid_key' | 'invalid_regex' | 'unique'

/**
 * The filters of a flag (or of a cohort it asks for) cannot be evaluated.
 *
 * Thrown when a flag is compiled. On write it becomes the client's 400; for a stored flag it makes this one flag
 * fail and leaves the others alone.
 */
export class MalformedFlagError extends MillraceError {
  /** The field at fault, nested by `__`, as `filters__groups__0__rollout_percentage`. */
  readonly attr: string

  constructor (code: MalformedFlagCode, attr: string, message: string) {
    super(code, message, { action: 'dead-letter', details: { attr } })
    this.name = 'MalformedFlagError'
    this.attr = attr
  }
}
