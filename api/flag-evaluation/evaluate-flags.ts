import { type FindTally, type Outcome } from './flag-outcome.ts'
import { type StoredFacts, type Subject } from './subject.ts'
import { compileBrokenFlag, type CompiledFlag, compileFlag } from './compile-flag.ts'
import { type FilterContext } from './compile-filter.ts'
import { type FlagDefinition, MalformedFlagError, type ProjectDefinitions } from './flag-definition.ts'

/** All flags of a project, compiled together because they may ask for one another. Immutable. */
export interface FlagSet {
  definitions: ProjectDefinitions
  flags: readonly CompiledFlag[]
  /** Positions of the flags by id and, which wins, by key. */
  positions: ReadonlyMap<string, number>
  /** Group type index by name. */
  groupIndexes: ReadonlyMap<string, number>
  /** Static cohorts that any flag asks for. */
  staticCohorts: readonly number[]
  /** Keys of the flags whose stored filters cannot be evaluated, with the field at fault. */
  malformed: ReadonlyMap<string, string>
}

/** The outcomes asked for, in the order of the set, and whether one of them failed. */
export interface Evaluation {
  outcomes: Outcome[]
  /** Some flag could not be computed. */
  hasErrors: boolean
}

/**
 * Evaluates flags for a subject. The filters of a flag were read (`parse-filters.ts`) and turned into functions
 * (`compile-flag.ts`, `compile-condition.ts`, `compile-filter.ts`) when it was loaded; here they are run: conditions
 * compare properties (`property-operators.ts`), and rollouts and variants place the subject on a line
 * (`rollout-hash.ts`).
 *
 * What Postgres knows is read only if an answer depends on it.
 *
 * @param positions   Flags to answer.
 * @param readFacts   Called at most once. Null: they cannot be read; flags that depend on them fail then.
 */
export async function evaluateFlags (
  set: FlagSet, subject: Subject, positions: readonly number[], readFacts: () => Promise<StoredFacts | null>
): Promise<Evaluation> {
  const first = tryFlags(set, subject, positions)
  if (first !== null) return first
  subject.stored = await readFacts()
  return finish(set, subject, positions)
}

/** Evaluates without stored facts; null when an answer depends on them. */
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

/** Outcome of the flag at a position, remembered in the subject; undefined when it depends on stored facts. */
function evaluateFlag (set: Pick<FlagSet, 'flags'>, position: number, subject: Subject): Outcome | undefined {
  return (subject.outcomes[position] ??= set.flags[position]!.evaluate(subject))
}

function finish (set: FlagSet, subject: Subject, positions: readonly number[]): Evaluation {
  const outcomes = positions.map((position) =>
    evaluateFlag(set, position, subject) ?? set.flags[position]!.fail('database_error'))
  return { outcomes, hasErrors: outcomes.some(({ failed }) => failed) }
}

/** Compiles the flags of a project. A flag with malformed filters fails by itself and takes no other along. */
export function compileFlagSet (definitions: ProjectDefinitions, findTally: FindTally = noTally): FlagSet {
  const flags: CompiledFlag[] = []
  const staticCohorts = new Set<number>()
  const malformed = new Map<string, string>()
  const positions = indexFlags(definitions.flags)
  const createContext = createContextFactory(definitions, { flags, positions, staticCohorts })

  for (const definition of definitions.flags) {
    try {
      flags.push(compileFlag(definition, createContext(), findTally))
    } catch (error) {
      if (!(error instanceof MalformedFlagError)) throw error
      malformed.set(definition.key, error.attr)
      flags.push(compileBrokenFlag(definition, 'malformed_filters', findTally))
    }
  }
  breakCycles(flags, findTally)
  return {
    definitions,
    flags,
    positions,
    groupIndexes: new Map([...definitions.groupTypes].map(([index, name]) => [name, index])),
    staticCohorts: [...staticCohorts],
    malformed
  }
}

/** Gives each flag a context of its own to note what it refers to. */
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
    strict
  })
}

function indexFlags (flags: readonly FlagDefinition[]): Map<string, number> {
  const positions = new Map(flags.map(({ id }, position) => [String(id), position]))
  flags.forEach(({ key }, position) => positions.set(key, position))
  return positions
}

/**
 * Replaces flags that ask for themselves, over however many others, by failed ones; then all that ask for a flag that
 * can never be computed, so that no request looks for stored facts in vain.
 */
function breakCycles (flags: CompiledFlag[], findTally: FindTally): void {
  for (const position of findCycles(flags)) {
    flags[position] = compileBrokenFlag(flags[position]!.definition, 'dependency_cycle', findTally)
  }
  let found = true
  while (found) {
    found = false
    flags.forEach((flag, position) => {
      if (flag.broken !== null || ![...flag.dependencies].some((other) => flags[other]!.broken !== null)) return
      flags[position] = compileBrokenFlag(flag.definition, 'dependency_failed', findTally)
      found = true
    })
  }
}

/** Flags that ask for flags that ask for flags: so long a chain is a mistake, and would exhaust the stack. */
const MAX_CHAIN = 50

/**
 * Positions of the flags that ask, directly or not, for themselves or for flags that do. Flags that ask for nothing
 * are settled first, then those that ask only for settled ones, and so on; what is never settled is the answer.
 */
function findCycles (flags: ReadonlyArray<Pick<CompiledFlag, 'dependencies'>>): number[] {
  const settled = new Set<number>()
  let open = flags.map((_, position) => position)
  for (let round = 0; round < MAX_CHAIN; round++) {
    const next = open.filter((position) => [...flags[position]!.dependencies].some((other) => !settled.has(other)))
    if (next.length === open.length) break
    const stillOpen = new Set(next)
    for (const position of open) {
      if (!stillOpen.has(position)) settled.add(position)
    }
    open = next
  }
  return open
}

function noTally (): { count: number } {
  return { count: 0 }
}
