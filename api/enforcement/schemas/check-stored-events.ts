import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { type LookBackOptions, visitRows } from '../look-back.ts'
import type { CompiledSchema } from '../../../engines/json-schema/compile-schema.ts'
import type { SchemaFailure } from '../../../engines/json-schema/evaluation.ts'
import { PredictionTally, type SchemaPrediction } from './prediction.ts'
import {
  createEventReader, type EventClasses, isGivenUp, type Line, type Round, type StoredEvents
} from './read-stored-events.ts'
import { storedValuesOf, WHOLE } from './stored-values.ts'
import { haveClasses, openProperties, type ValueClasses, valueClassesOf } from './value-classes.ts'
import { needsOf } from './value-needs.ts'

/** Which stored events are checked: those of the last days by their timestamp, newest hours first. */
export interface CheckQuery {
  projectId: number
  event: string
  /** Days before now, 1 to 365. */
  days: number
  /** Events at most. */
  limit: number
  /** Epoch milliseconds. */
  now: number
}

/**
 * Says what a schema would have done with stored events: what it predicts is what enforcement does.
 *
 * ClickHouse counts the events whose shape decides, shape by shape, and the others by what the schema tells apart
 * (`value-classes.ts`); the check of ingest judges one of each. Events that it cannot tell apart without their texts,
 * when these are many, are judged one by one, by the values that the schema asks for (`stored-values.ts`).
 */
export async function checkStoredEvents (
  clickhouse: ClickHouse, compiled: CompiledSchema, { onProgress, signal, ...query }: CheckQuery & LookBackOptions
): Promise<SchemaPrediction> {
  const reader = createEventReader(clickhouse, query, signal)
  const rounds = await reader.readRounds()
  const stored = rounds.reduce((sum, { events }) => sum + events, 0)
  const total = Math.min(stored, query.limit)
  const tally = new PredictionTally()
  const needs = needsOf(compiled.schema)
  const shapes = storedValuesOf(needs)
  const hasClasses = haveClasses(needs)
  // What varies so much in one round does so in the others.
  const varies = { shapes: false, values: false, most: false }
  for (const round of limitRounds(rounds, query.limit)) {
    onProgress?.(tally.events, total)
    await checkRound(round)
  }
  onProgress?.(tally.events, total)
  const sampled = await reader.readSampled(tally.sampledUuids())
  const failures = new Map(sampled.map(({ uuid, properties }) =>
    [uuid, compiled.failuresOf(JSON.parse(properties) as Record<string, unknown>, 'stored')]))
  return tally.describe(stored <= query.limit, failures)

  async function checkRound (round: Round): Promise<void> {
    let condition = ''
    if (shapes !== null && round.limit === undefined && !varies.shapes) {
      const undecided = await judgeGroups(reader.readShapes(round, shapes))
      varies.shapes = undecided === null
      if (undecided === 0) return
      if (undecided !== null) condition = `AND NOT (${shapes.isDecided})`
    }
    const classes = hasClasses && !varies.most
      ? valueClassesOf(needs, compiled.maxBytes, await reader.readOpen(round, openProperties(needs), condition))
      : null
    if (classes === null) return await judgeEach(round, { definitions: [], condition })
    if (!varies.values) {
      varies.values = await judgeGroups(reader.readClasses(round, { ...classes, condition })) === null
      if (!varies.values) return
    }
    // Of a part of the events each question would get another one.
    if (round.limit !== undefined) return await judgeEach(round, { definitions: [], condition })
    await checkVarying(round, classes, condition)
  }

  /** Events of which many are told apart by their texts only. */
  async function checkVarying (
    round: Round, { definitions, keys, isSure }: ValueClasses, condition: string
  ): Promise<void> {
    varies.most = await reader.readShare(round, { definitions, condition }, isSure) < WORTH_COUNTING
    if (varies.most) return await judgeEach(round, { definitions: [], condition })
    const sure = await judgeGroups(reader.readClasses(round, { definitions, keys, condition: `${condition} AND ${isSure}` }))
    await judgeEach(round, { definitions, condition: sure === null ? condition : `${condition} AND NOT (${isSure})` })
  }

  async function judgeEach (round: Round, which: Pick<EventClasses, 'definitions' | 'condition'>): Promise<void> {
    await judge(reader.readEvents(round, shapes?.ofValues ?? WHOLE, which))
  }

  /** @returns null when ClickHouse has given up, before any was judged. */
  async function judgeGroups (lines: AsyncIterable<Line[]>): Promise<number | null> {
    try {
      return await judge(lines)
    } catch (error) {
      if (isGivenUp(error)) return null
      throw error
    }
  }

  /** @returns the number of events that are still to be judged, because their shape does not decide. */
  async function judge (lines: AsyncIterable<Line[]>): Promise<number> {
    let undecided = 0
    await visitRows(lines, ({ text }) => {
      const [uuids, lib, libVersion, events, properties] = JSON.parse(text) as StoredEvents
      if (properties === null) undecided += events
      else tally.add({ lib, libVersion, events, uuids }, failuresOf(properties))
    })
    return undecided
  }

  function failuresOf (properties: Record<string, unknown>): readonly SchemaFailure[] {
    return compiled.check(properties, 'stored') === null ? NO_FAILURES : compiled.failuresOf(properties, 'stored')
  }
}

/** When fewer events than this share can be counted, counting them takes longer than judging each. */
const WORTH_COUNTING = 0.3

const NO_FAILURES: readonly SchemaFailure[] = []

/** The newest rounds, as many as the limit needs; of the last, only some events. */
function limitRounds (rounds: readonly Round[], limit: number): Round[] {
  const limited: Round[] = []
  let left = limit
  for (const round of rounds) {
    if (left <= 0) break
    limited.push(round.events > left ? { ...round, limit: left } : round)
    left -= round.events
  }
  return limited
}
