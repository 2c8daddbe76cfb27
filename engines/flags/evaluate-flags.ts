import type { FindCounter, Outcome } from './flag-outcome.ts'
import type { StoredFacts, Subject } from './subject.ts'
import { compileBrokenFlag, type CompiledFlag, compileFlag } from './compile-flag.ts'
import type { FilterContext } from './compile-filter.ts'
import { type FlagDefinition, MalformedFlagError, type ProjectDefinitions } from './flag-definition.ts'

/** All flags of a project, compiled together because they may depend on one another. Immutable. */
export interface FlagSet {
  definitions: ProjectDefinitions
  flags: readonly CompiledFlag[]
  /** Position of each flag by id and by key; a key wins over an equal id. */
  positions: ReadonlyMap<string, number>
  /** Group type index by name. */
  groupIndexes: ReadonlyMap<string, number>
  /** Static cohorts that any flag refers to. */
  staticCohorts: readonly number[]
  /** Keys of the flags whose stored filters cannot be evaluated, with the field at fault. */
  malformed: ReadonlyMap<string, string>
}

/** The outcomes of the requested flags, in the order of the set. */
export interface Evaluation {
  outcomes: Outcome[]
  /** At least one flag could not be computed. */
  hasErrors: boolean
}

/**
 * Evaluates flags for a subject. The filters of a flag were read (`parse-filters.ts`) and turned into functions
 * (`compile-flag.ts`, `compile-condition.ts`, `compile-filter.ts`) when it was loaded; here they are run: conditions
 * compare properties (`property-operators.ts`), and rollouts and variants place the subject on a line
 * (`rollout-hash.ts`).
 *
 * Stored properties, cohorts and hash keys are read only if an answer depends on them.
 *
 * @param positions   Flags to answer, as positions in the set.
 * @param readFacts   Reads them from Postgres. Called at most once. Resolves to null when they cannot be read; the
 *   flags that depend on them fail then.
 */
export async function evaluateFlags (
  set: FlagSet, subject: Subject, positions: readonly number[], readFacts: () => Promise<StoredFacts | null>
): Promise<Evaluation> {
  const first = tryFlags(set, subject, positions)
  if (first !== null) return first
  subject.stored = await readFacts()
  return finish(set, subject, positions)
}

/** Evaluates without stored facts; returns null when an answer depends on them. */
export function tryFlags (set: FlagSet, subject: Subject, positions: readonly number[]): Evaluation | null {
  const outcomes: Outcome[] = []
  let isSure = true
  let hasErrors = false
  for (const position of positions) {
    const outcome = evaluateFlag(set, position, subject)
    if (outcome === undefined) {
      isSure = false
    } else {
      hasErrors ||= outcome.failed
      outcomes.push(outcome)
    }
  }
  return isSure ? { outcomes, hasErrors } : null
}

/** Outcome of one flag, cached in the subject; undefined when it depends on stored facts that are not read. */
function evaluateFlag (set: Pick<FlagSet, 'flags'>, position: number, subject: Subject): Outcome | undefined {
  return (subject.outcomes[position] ??= set.flags[position]!.evaluate(subject))
}

function finish (set: FlagSet, subject: Subject, positions: readonly number[]): Evaluation {
  const outcomes = positions.map((position) =>
    evaluateFlag(set, position, subject) ?? set.flags[position]!.fail('database_error'))
  return { outcomes, hasErrors: outcomes.some(({ failed }) => failed) }
}

/** Compiles the flags of a project. A flag with malformed filters fails alone; the others are not affected. */
export function compileFlagSet (
  definitions: ProjectDefinitions, findCounter: FindCounter = () => ({ count: 0 })
): FlagSet {
  const flags: CompiledFlag[] = []
  const staticCohorts = new Set<number>()
  const malformed = new Map<string, string>()
  const positions = indexFlags(definitions.flags)
  const createContext = createContextFactory(definitions, { flags, positions, staticCohorts })

  for (const definition of definitions.flags) {
    try {
      flags.push(compileFlag(definition, createContext(), findCounter))
    } catch (error) {
      if (!(error instanceof MalformedFlagError)) throw error
      malformed.set(definition.key, error.attr)
      flags.push(compileBrokenFlag(definition, 'malformed_filters', findCounter))
    }
  }
  breakCycles(flags, findCounter)
  return {
    definitions,
    flags,
    positions,
    groupIndexes: new Map([...definitions.groupTypes].map(([index, name]) => [name, index])),
    staticCohorts: [...staticCohorts],
    malformed
  }
}

/** Creates one context for each flag, in which compiling records what the flag refers to. */
export function createContextFactory (
  { cohorts, timezone }: ProjectDefinitions,
  { flags, positions, staticCohorts, strict = false }: Pick<FlagSet, 'flags' | 'positions'> & {
    staticCohorts: Set<number>, strict?: boolean
  }
): () => FilterContext {
  const cohortsById = new Map(cohorts.map((cohort) => [cohort.id, cohort]))
  return () => ({
    timezone,
    findCohort: (id) => cohortsById.get(id),
    findFlag: (reference) => positions.get(reference) ?? -1,
    evaluateFlag: (position, subject) => evaluateFlag({ flags }, position, subject),
    dependencies: new Set(),
    missingFlags: [],
    staticCohorts,
    cohortSize: { conditions: 0 },
    strict
  })
}

function indexFlags (flags: readonly FlagDefinition[]): Map<string, number> {
  const positions = new Map(flags.map(({ id }, position) => [String(id), position]))
  flags.forEach(({ key }, position) => positions.set(key, position))
  return positions
}

/**
 * Replaces flags in dependency cycles by failed ones; then every flag that depends on a flag that can never be
 * computed, so that no request reads stored facts in vain.
 */
function breakCycles (flags: CompiledFlag[], findCounter: FindCounter): void {
  for (const position of findCycles(flags)) {
    flags[position] = compileBrokenFlag(flags[position]!.definition, 'dependency_cycle', findCounter)
  }
  let found = true
  while (found) {
    found = false
    flags.forEach((flag, position) => {
      if (flag.broken !== null || ![...flag.dependencies].some((other) => flags[other]!.broken !== null)) return
      flags[position] = compileBrokenFlag(flag.definition, 'dependency_failed', findCounter)
      found = true
    })
  }
}

/** Longest chain of flags that depend on each other. A longer one is an error, and could exhaust the stack. */
const MAX_CHAIN = 50

/**
 * Positions of the flags in a dependency cycle, and of those that depend on one. Sorts topologically: flags without
 * dependencies are resolved first, then those that depend on resolved ones only, and so on. The unresolved ones are
 * the answer.
 */
function findCycles (flags: ReadonlyArray<Pick<CompiledFlag, 'dependencies'>>): number[] {
  const resolved = new Set<number>()
  let open = flags.map((_, position) => position)
  for (let round = 0; round < MAX_CHAIN; round++) {
    const next = open.filter((position) => [...flags[position]!.dependencies].some((other) => !resolved.has(other)))
    if (next.length === open.length) break
    const unresolved = new Set(next)
    for (const position of open) {
      if (!unresolved.has(position)) resolved.add(position)
    }
    open = next
  }
  return open
}
