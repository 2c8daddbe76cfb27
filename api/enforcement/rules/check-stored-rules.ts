import { hasLongNumber, parseJson } from '../../../engines/body/parse-json.ts'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { type LookBackOptions, sdkKey, takeGroup, visitRows } from '../look-back.ts'
import { applyRules, ProjectRules, type RuleOutcome } from '../../../engines/rules/apply-rules.ts'
import type { CompiledRule } from '../../../engines/rules/compile-rule.ts'
import { createEventReader, type RuledRow } from './read-rule-events.ts'

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

const MAX_SAMPLES = 10

/**
 * Runs a rule over stored events, with the code that ingest runs: what it predicts is what enforcement does with events
 * that say the same.
 */
export async function checkStoredEventsByRule (
  clickhouse: ClickHouse, compiled: CompiledRule, { onProgress, signal, ...query }: RuleCheckQuery & LookBackOptions
): Promise<RulePrediction> {
  const rules = new ProjectRules([{ id: 0, name: '', version: 0, text: '', compiled }])
  const reader = createEventReader(clickhouse, query, { mayPass: (event) => rules.of(event).length > 0, signal })
  const stored = await reader.countEvents()
  const total = Math.min(stored.events, query.limit)
  const tally = new Tally()
  const showProgress = (): void => onProgress?.(tally.events, Math.max(total, tally.events))
  let isComplete = true
  showProgress()
  for (let day = 0; day < stored.days && isComplete; day++) {
    const left = query.limit - tally.events
    // One more than are looked into tells whether there are more.
    await visitRows(reader.readDay(day, left + 1), (row) => {
      if (tally.events < query.limit) tally.add(row, compiled, outcomeOf(row, rules))
      else isComplete = false
    }, showProgress)
  }
  showProgress()
  return tally.describe(isComplete)
}

/** Whether the condition holds, and what becomes of the event; null: nothing. */
function outcomeOf (row: RuledRow, rules: ProjectRules): { matched: boolean, outcome: RuleOutcome | null } {
  const { event, distinctId, ip, receivedAt, properties: text } = row
  const properties = parseJson(text, hasLongNumber(Buffer.from(text))) as Record<string, unknown>
  const ruled = { event, distinctId, properties, ip, receivedAt }
  const outcome = applyRules(rules, ruled, 'stored')
  return { matched: outcome !== null || rules.rules[0]!.compiled.matches(ruled), outcome }
}

/** Adds up what a rule would have done, in bounded memory. */
class Tally {
  events = 0
  readonly #counts = { matched: 0, dropped: 0, sampled: 0, changed: 0, withoutAddress: 0 }
  readonly #names = new Map<string, RulePrediction['names'][number]>()
  readonly #libs = new Map<string, RulePrediction['libs'][number]>()
  readonly #samples: RulePrediction['samples'] = []

  add (
    row: RuledRow, compiled: CompiledRule, { matched, outcome }: { matched: boolean, outcome: RuleOutcome | null }
  ): void {
    const { uuid, event, ip, lib, libVersion } = row
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
