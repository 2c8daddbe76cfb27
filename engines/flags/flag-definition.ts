import { fieldsOf } from '../fields.ts'
import { MillraceError } from '../errors.ts'

/**
 * A flag as Postgres stores it, by the names that SDKs know. `filters` is what a client once wrote: nothing in it is
 * trusted before `parse-filters.ts` has read it.
 */
export interface FlagDefinition {
  id: number
  key: string
  name: string
  filters: unknown
  active: boolean
  ensure_experience_continuity: boolean
  version: number
  /** Which SDKs get the flag. */
  evaluation_runtime: 'server' | 'client' | 'all'
  /** Which id of a person is hashed for rollouts and variants. */
  bucketing_identifier: 'distinct_id' | 'device_id'
  /** An experiment runs on this flag. */
  has_experiment: boolean
}

/** A cohort that flags may refer to. */
export interface CohortDefinition {
  id: number
  /** A list of persons in Postgres, also one of behavior, found every few minutes; others are property filters. */
  isStatic: boolean
  /** The members of such a list were never found: nobody is known to be in it, or not. */
  isPending?: boolean
  /** `{ type: 'AND' | 'OR', values: [...] }`, nested; null for lists. */
  filters: unknown
}

/** Everything needed to evaluate the flags of one project. */
export interface ProjectDefinitions {
  projectId: number
  /** IANA name; dates without an offset are in this time zone. */
  timezone: string
  flags: readonly FlagDefinition[]
  cohorts: readonly CohortDefinition[]
  groupTypes: ReadonlyMap<number, string>
}

/** A variant of a flag with several values. */
export interface Variant {
  key: string
  name?: string
  /** Share of those the flag is on for, in percent. */
  rollout_percentage: number
}

/** The variants of a flag, from its filters as stored; empty for a flag without variants. */
export function variantsOfFlag (filters: unknown): Variant[] {
  const { variants } = fieldsOf(fieldsOf(filters).multivariate)
  if (!Array.isArray(variants)) return []
  return variants.flatMap((value) => {
    const { key, name, rollout_percentage: percentage } = fieldsOf(value)
    if (typeof key !== 'string') return []
    return [{
      key,
      ...(typeof name === 'string' ? { name } : {}),
      rollout_percentage: typeof percentage === 'number' ? percentage : 0
    }]
  })
}

/** True when two lists assign the same variant to everyone. */
export function sameVariants (some: readonly Variant[], others: readonly Variant[]): boolean {
  return some.length === others.length && some.every(({ key, rollout_percentage: percentage }, index) =>
    others[index]?.key === key && others[index].rollout_percentage === percentage)
}

/**
 * What can be wrong with one field of a flag: the `code` of the API's 400.
 */
export type MalformedFlagCode = 'required' | 'invalid' | 'invalid_choice' | 'invalid_key' | 'invalid_regex' | 'unique'

/**
 * The filters of a flag, or of a cohort it refers to, cannot be evaluated.
 *
 * Thrown when a flag is compiled. On write it becomes a 400; a stored flag fails with `malformed_filters`, and the
 * others are not affected.
 */
export class MalformedFlagError extends MillraceError {
  /** The invalid field; levels are joined by `__`, as in `filters__groups__0__rollout_percentage`. */
  readonly attr: string

  constructor (code: MalformedFlagCode, attr: string, message: string) {
    super(code, message, { action: 'dead-letter', details: { attr } })
    this.name = 'MalformedFlagError'
    this.attr = attr
  }
}
