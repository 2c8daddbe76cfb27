import { Counter } from 'prom-client'
import type { Metrics } from '../../../platform/metrics.ts'
import { evaluateFlags, type Evaluation, type FlagSet } from '../../../engines/flags/evaluate-flags.ts'
import { groupKeysOf, NO_FACTS, type Properties, type StoredFacts, type Subject } from '../../../engines/flags/subject.ts'
import type { EvaluationCounter, FindCounter } from '../../../engines/flags/flag-outcome.ts'
import type { CircuitBreaker } from './circuit-breaker.ts'
import type { Runtime } from './detect-runtime.ts'
import type { FlagRequest } from './flag-request.ts'
import type { PersonQuery, PersonReader } from './person-reader.ts'

export interface ComputeFlagsDeps {
  persons: PersonReader
  /** Protects the calls of `persons`. */
  guard: CircuitBreaker
  now: () => number
}

export interface ComputeFlagsParams {
  set: FlagSet
  request: FlagRequest
  /** Ignore stored properties: only those of the request count. */
  onlyOverrides: boolean
}

/**
 * Computes the flags of a request. Reads stored facts once, if an answer depends on them; when they cannot be read, the
 * flags that depend on them are answered as failed. Never throws when Postgres is unavailable.
 */
export async function computeFlags (
  { set, request, onlyOverrides }: ComputeFlagsParams, deps: ComputeFlagsDeps
): Promise<Evaluation> {
  if (request.disableFlags) return { outcomes: [], hasErrors: false }
  const subject = buildSubject(set, request, deps.now())
  if (onlyOverrides) subject.stored = NO_FACTS
  const evaluation = await evaluateFlags(set, subject, selectFlags(set, request),
    async () => await readFacts(set, subject, deps))
  for (const { counter } of evaluation.outcomes) counter.count++
  return evaluation
}

/** The subject of a request, with nothing read from Postgres. */
export function buildSubject (set: FlagSet, request: FlagRequest, nowMs: number): Subject {
  return {
    distinctId: request.distinctId,
    anonDistinctId: request.anonDistinctId,
    deviceId: request.deviceId,
    nowMs,
    personOverrides: request.personProperties,
    groupKeys: byIndex(set, request.groups),
    groupOverrides: byIndex<Properties>(set, request.groupProperties),
    stored: null,
    outcomes: new Array(set.flags.length)
  }
}

/** Group types that the project does not know have no index, and no flag can refer to them. */
function byIndex<T> (set: FlagSet, byName: ReadonlyMap<string, T>): T[] {
  const values: T[] = []
  for (const [name, value] of byName) {
    const index = set.groupIndexes.get(name)
    if (index !== undefined) values[index] = value
  }
  return values
}

/** The positions of the flags for each runtime; computed once for each set. */
const positionsBySet = new WeakMap<FlagSet, Record<Runtime, readonly number[]>>()

/** Positions of the flags that a request asks for. */
export function selectFlags (set: FlagSet, { flagKeys, runtime }: FlagRequest): readonly number[] {
  let positions = positionsBySet.get(set)
  if (positions === undefined) {
    const select = (runtime: Runtime): number[] => set.flags.flatMap(({ definition }, position) => {
      const { evaluation_runtime: wanted } = definition
      return runtime === 'all' || wanted === 'all' || wanted === runtime ? [position] : []
    })
    positions = { all: select('all'), server: select('server'), client: select('client'), unknown: select('unknown') }
    positionsBySet.set(set, positions)
  }
  const selected = positions[runtime]
  return flagKeys === null ? selected : selected.filter((position) => flagKeys.has(set.flags[position]?.definition.key ?? ''))
}

/** Everything that any filter of the flags may ask for. */
export function queryFactsOf (set: FlagSet, subject: Subject): PersonQuery {
  return {
    projectId: set.definitions.projectId,
    distinctId: subject.distinctId,
    groups: groupKeysOf(subject),
    cohortIds: set.staticCohorts,
    needsHashKeys: set.flags.some(({ isSticky }) => isSticky)
  }
}

async function readFacts (
  set: FlagSet, subject: Subject, { persons, guard }: ComputeFlagsDeps
): Promise<StoredFacts | null> {
  const facts = await guard(() => persons.readForFlags(queryFactsOf(set, subject)))
  const { anonDistinctId: hashKey, distinctId } = subject
  if (facts === null || hashKey === null || distinctId === '') return facts
  const flagKeys = set.flags.filter(({ isSticky, definition: { key } }) => isSticky && !facts.hashKeyOverrides.has(key))
    .map(({ definition }) => definition.key)
  if (flagKeys.length === 0) return facts

  // The user was identified just now: the anonymous id is stored as hash key, so that no variant changes.
  const { projectId } = set.definitions
  const kept = await guard(() => persons.keepHashKeys({ projectId, distinctId, hashKey, flagKeys }))
  if (kept === null) return { ...facts, hashKeysUnknown: true }
  return { ...facts, hashKeyOverrides: new Map([...facts.hashKeyOverrides, ...kept]) }
}

/** Maximum number of series. Further ones are counted together, so that no client can exhaust the memory. */
const MAX_SERIES = 10_000

/**
 * Counts evaluations by project, flag and value. Requests add to plain numbers, which are read when the metrics are
 * scraped.
 *
 * @returns the counters of a project. They outlive the flags that are compiled with them.
 */
export function createEvaluationCounters (metrics: Metrics): (projectId: number) => FindCounter {
  const series = new Map<string, { labels: Record<string, string>, counter: EvaluationCounter }>()
  series.set('rest', { labels: { project: '', flag: 'rest', value: 'rest' }, counter: { count: 0 } })
  // Registers itself.
  void new Counter({
    registers: [metrics.registry],
    name: 'millrace_api_flag_evaluations_total',
    help: 'Feature flags answered, by project, flag and value.',
    labelNames: ['project', 'flag', 'value'],
    collect () {
      this.reset()
      // Zeros too: Prometheus sees no increase in a series that begins at 1.
      for (const { labels, counter } of series.values()) this.inc(labels, counter.count)
    }
  })

  return (projectId) => (flag, value) => {
    const name = JSON.stringify([projectId, flag, value])
    const found = series.get(name) ?? (series.size > MAX_SERIES ? series.get('rest') : undefined)
    if (found !== undefined) return found.counter
    const fresh = { labels: { project: String(projectId), flag, value }, counter: { count: 0 } }
    series.set(name, fresh)
    return fresh.counter
  }
}
