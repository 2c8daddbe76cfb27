import { hasLongNumber, parseJson } from '../../../engines/body/parse-json.ts'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { type LookBackOptions, sdkKey, takeGroup, visitStoredEvents } from '../look-back.ts'
import type { StoredEventsQuery } from '../read-stored-events.ts'
import { fieldsOf } from '../../../engines/fields.ts'
import { applyRules, ProjectRules, type RuleOutcome } from '../../../engines/rules/apply-rules.ts'
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
  const tally = new Tally()
  const selection = { names: (event: string) => rules.of(event).length > 0, columns: COLUMNS }
  const isComplete = await visitStoredEvents(clickhouse, query, selection, (stored) => {
    const [event, distinctId, ip, receivedAt, lib, version] = JSON.parse(stored.columns) as Columns
    const properties = fieldsOf(parseJson(stored.properties, hasLongNumber(Buffer.from(stored.properties))))
    const ruled = { event, distinctId, ip, receivedAt: Number(receivedAt), properties }
    const outcome = applyRules(rules, ruled, 'stored')
    tally.add({ uuid: stored.uuid, event, lib, version }, {
      outcome,
      matched: outcome !== null || compiled.matches(ruled),
      withoutAddress: compiled.usesAddress && ip === ''
    })
  })
  return tally.describe(isComplete)
}

interface Verdict {
  /** Whether the condition holds. */
  matched: boolean
  /** What becomes of the event; null: nothing. */
  outcome: RuleOutcome | null
  withoutAddress: boolean
}

/** Adds up what a rule would have done, in bounded memory. */
class Tally {
  events = 0
  readonly #counts = { matched: 0, dropped: 0, sampled: 0, changed: 0, without_address: 0 }
  readonly #names = new Map<string, RulePrediction['names'][number]>()
  readonly #libs = new Map<string, RulePrediction['libs'][number]>()
  readonly #samples: RulePrediction['samples'] = []

  add (
    { uuid, event, lib, version }: { uuid: string, event: string, lib: string, version: string },
    { matched, outcome, withoutAddress }: Verdict
  ): void {
    const counts = this.#counts
    this.events++
    if (withoutAddress) counts.without_address++
    if (outcome?.kind === 'dropped') counts.dropped++
    if (outcome?.kind === 'sampled') counts.sampled++
    if (outcome?.kind === 'stored' && outcome.changedBy.length > 0) counts.changed++
    const groups = [
      takeGroup(this.#names, event, () => ({ event, events: 0, matched: 0 })),
      takeGroup(this.#libs, sdkKey(lib, version), () => ({ lib, lib_version: version, events: 0, matched: 0 }))
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
