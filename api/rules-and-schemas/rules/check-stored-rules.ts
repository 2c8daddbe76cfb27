import { hasLongNumber, parseJson } from '../../../engines/body/parse-json.ts'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { createSdk, type LookBackOptions, takeGroup, visitStoredEvents } from '../look-back.ts'
import type { StoredEventsQuery } from '../read-stored-events.ts'
import { fieldsOf } from '../../../engines/fields.ts'
import { applyRules, ProjectRules } from '../../../engines/rules/apply-rules.ts'
import type { CompiledRule } from '../../../engines/rules/compile-rule.ts'
import type { RulePrediction } from './event-rule.ts'

const MAX_SAMPLES = 10

/** Columns of an event that rules see, beside its properties, and its SDK. */
const COLUMNS = ['event', 'distinct_id', 'ip', 'toString(toUnixTimestamp64Milli(received_at))', 'lib', 'lib_version']

type Columns = [event: string, distinctId: string, ip: string, receivedAt: string, lib: string, version: string]

/**
 * Runs a rule over stored events, with the code that ingest runs: what it predicts is what enforcement does with events
 * that say the same.
 */
export async function checkStoredEventsByRule (
  clickhouse: ClickHouse, compiled: CompiledRule, query: StoredEventsQuery & LookBackOptions
): Promise<RulePrediction> {
  const rules = new ProjectRules([{ id: 0, name: '', version: 0, text: '', compiled }])
  const counts = { events: 0, matched: 0, dropped: 0, sampled: 0, changed: 0, without_address: 0 }
  const names = new Map<string, RulePrediction['names'][number]>()
  const libs = new Map<string, RulePrediction['libs'][number]>()
  const samples: RulePrediction['samples'] = []
  const selection = { names: (event: string) => rules.of(event).length > 0, columns: COLUMNS }
  const complete = await visitStoredEvents(clickhouse, query, selection, ({ uuid, columns, properties: text }) => {
    const [event, distinctId, ip, receivedAt, ...sdk] = JSON.parse(columns) as Columns
    const properties = fieldsOf(parseJson(text, hasLongNumber(Buffer.from(text))))
    const ruled = { event, distinctId, ip, receivedAt: Number(receivedAt), properties }
    const outcome = applyRules(rules, ruled, 'stored')
    counts.events++
    if (compiled.usesAddress && ip === '') counts.without_address++
    if (outcome?.kind === 'dropped') counts.dropped++
    if (outcome?.kind === 'sampled') counts.sampled++
    if (outcome?.kind === 'stored' && outcome.changedBy.length > 0) counts.changed++
    const key = JSON.stringify(sdk)
    const groups = [
      takeGroup(names, event, () => ({ event, events: 0, matched: 0 })),
      takeGroup(libs, key, () => ({ ...createSdk(key), matched: 0 }))
    ].filter((group) => group !== undefined)
    for (const group of groups) group.events++
    if (outcome === null && !compiled.matches(ruled)) return
    counts.matched++
    for (const group of groups) group.matched++
    if (samples.length < MAX_SAMPLES) samples.push({ uuid, event })
  })
  return { ...counts, complete, names: sortGroups(names), libs: sortGroups(libs), samples }
}

function sortGroups<T extends { events: number, matched: number }> (groups: ReadonlyMap<string, T>): T[] {
  return [...groups.values()].sort((one, other) => other.matched - one.matched || other.events - one.events)
}
