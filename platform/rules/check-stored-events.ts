import { parseJson, hasLongNumber } from '../../http-body/parse-json.ts'
import { type ClickHouse, queryRows } from '../clickhouse/connect-clickhouse.ts'
import { sdkKey, takeGroup, visitRows } from '../look-back.ts'
import { applyRules, ProjectRules, type RuleOutcome } from './apply-rules.ts'
import type { CompiledRule } from './compile-rule.ts'

/** Which stored events a rule is tried on: those of the last days by their timestamp, newest day first. */
export interface RuleCheckQuery {
  projectId: number
  /** Days before now, 1 to 365. */
  days: number
  /** Events at most that are looked into. */
  limit: number
  /** Epoch milliseconds. */
  now: number
}

/** What a rule would have done with stored events; exact for the events that were looked into. */
export interface RulePrediction {
  /** Events of names with which the rule may do something; the others are not looked into. */
  events: number
  /** Of them, those that pass the condition, and what becomes of these. */
  matched: number
  dropped: number
  /** Not stored, because their distinct id is not in the share. */
  sampled: number
  changed: number
  /** Events without a stored address, of which a rule that asks for it cannot be predicted. */
  withoutAddress: number
  /** False when there are more events than the limit: the older ones were not looked into. */
  complete: boolean
  /** By name, most matched events first. */
  names: { event: string, events: number, matched: number }[]
  /** By SDK, most matched events first. */
  libs: { lib: string, libVersion: string, events: number, matched: number }[]
  /** Some events that pass. */
  samples: { uuid: string, event: string }[]
}

const DAY_MS = 86_400_000
const MAX_SAMPLES = 10

/** Names of events that are asked for by name; with more, all events of the project are read. */
const MAX_NAMES = 10_000

type Row = [
  uuid: string, event: string, distinctId: string, ip: string, receivedAt: string, lib: string, libVersion: string,
  properties: string
]

/**
 * Runs a rule over stored events, with the code that ingest runs: what it predicts is what enforcement does with events
 * that say the same.
 *
 * @param onProgress  Called after each day with the events so far and the share of the days.
 */
export async function checkStoredEventsByRule (
  clickhouse: ClickHouse, compiled: CompiledRule,
  { onProgress, ...query }: RuleCheckQuery & { onProgress?: (events: number, share: number) => void }
): Promise<RulePrediction> {
  const rules = new ProjectRules([{ id: 0, name: '', version: 0, text: '', compiled }])
  const names = (await readNames(clickhouse, query)).filter((name) => compiled.boundsOf(name).mayPass)
  const tally = new Tally()
  for (let day = 0; day < query.days && names.length > 0 && tally.events <= query.limit; day++) {
    let left = query.limit - tally.events
    await visitRows(readDay(clickhouse, query, { day, names, limit: left + 1 }), (row) => {
      if (left-- > 0) tally.add(row, compiled, outcomeOf(row, rules))
    })
    if (left < 0) return tally.describe(false)
    onProgress?.(tally.events, (day + 1) / query.days)
  }
  return tally.describe(true)
}

/** Whether the condition holds, and what becomes of the event; null: nothing. */
function outcomeOf (row: Row, rules: ProjectRules): { matched: boolean, outcome: RuleOutcome | null } {
  const [, event, distinctId, ip, receivedAt, , , text] = row
  const properties = parseJson(text, hasLongNumber(Buffer.from(text))) as Record<string, unknown>
  const ruled = { event, distinctId, properties, ip, receivedAt: Number(receivedAt) }
  const outcome = applyRules(rules, ruled, 'stored')
  return { matched: outcome !== null || rules.rules[0]!.compiled.matches(ruled), outcome }
}

async function readNames (clickhouse: ClickHouse, { projectId, days, now }: RuleCheckQuery): Promise<string[]> {
  const rows = await queryRows<{ event: string }>(clickhouse, `
    SELECT DISTINCT event FROM events
    WHERE project_id = {project: UInt32}
      AND timestamp >= fromUnixTimestamp64Milli({from: Int64}) AND timestamp < fromUnixTimestamp64Milli({to: Int64})
    LIMIT ${MAX_NAMES}`, { project: projectId, from: now - days * DAY_MS, to: now + DAY_MS })
  return rows.map(({ event }) => event)
}

/** The events of one day; day 0 is the last 24 hours, with what came from clocks that are ahead. */
async function * readDay (
  clickhouse: ClickHouse, { projectId, now }: RuleCheckQuery,
  { day, names, limit }: { day: number, names: readonly string[], limit: number }
): AsyncGenerator<Row[]> {
  const result = await clickhouse.query({
    query: `SELECT toString(uuid), event, distinct_id, ip, toString(toUnixTimestamp64Milli(received_at)), lib, lib_version, properties
      FROM events
      WHERE project_id = {project: UInt32} AND event IN {names: Array(String)}
        AND timestamp >= fromUnixTimestamp64Milli({from: Int64}) AND timestamp < fromUnixTimestamp64Milli({to: Int64})
      LIMIT {limit: UInt32}`,
    query_params: {
      project: projectId,
      names,
      limit,
      from: now - (day + 1) * DAY_MS,
      to: day === 0 ? now + DAY_MS : now - day * DAY_MS
    },
    format: 'JSONCompactEachRow',
    clickhouse_settings: { wait_end_of_query: 0 }
  })
  for await (const rows of result.stream<Row>()) yield rows.map((row) => row.json<Row>())
}

/** Adds up what a rule would have done, in bounded memory. */
class Tally {
  events = 0
  readonly #counts = { matched: 0, dropped: 0, sampled: 0, changed: 0, withoutAddress: 0 }
  readonly #names = new Map<string, RulePrediction['names'][number]>()
  readonly #libs = new Map<string, RulePrediction['libs'][number]>()
  readonly #samples: RulePrediction['samples'] = []

  add (
    row: Row, compiled: CompiledRule, { matched, outcome }: { matched: boolean, outcome: RuleOutcome | null }
  ): void {
    const [uuid, event, , ip, , lib, libVersion] = row
    const counts = this.#counts
    this.events++
    if (compiled.usesAddress && ip === '') counts.withoutAddress++
    if (outcome?.kind === 'dropped') counts.dropped++
    if (outcome?.kind === 'sampled') counts.sampled++
    if (outcome?.kind === 'stored' && outcome.changedBy.length > 0) counts.changed++
    const groups = [
      takeGroup(this.#names, event, () => ({ event, events: 0, matched: 0 })),
      takeGroup(this.#libs, sdkKey(lib, libVersion), () => ({ lib, libVersion, events: 0, matched: 0 }))
    ]
    for (const group of groups) if (group !== undefined) group.events++
    if (!matched) return
    counts.matched++
    for (const group of groups) if (group !== undefined) group.matched++
    if (this.#samples.length < MAX_SAMPLES) this.#samples.push({ uuid, event })
  }

  describe (complete: boolean): RulePrediction {
    const sorted = <T extends { events: number, matched: number }>(groups: Map<string, T>): T[] =>
      [...groups.values()].sort((one, other) => other.matched - one.matched || other.events - one.events)
    return {
      events: this.events, ...this.#counts, complete, names: sorted(this.#names), libs: sorted(this.#libs),
      samples: this.#samples
    }
  }
}
