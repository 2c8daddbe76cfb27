import { cutText } from '../../../engines/body/storable-text.ts'
import type { CompiledSchema } from '../../../engines/json-schema/compile-schema.ts'
import { describeValue, generalise } from '../../../engines/json-schema/describe-failure.ts'
import type { SchemaFailure } from '../../../engines/json-schema/evaluation.ts'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { createSdk, type LookBackOptions, takeGroup, visitStoredEvents } from '../look-back.ts'
import type { StoredEventsQuery } from '../read-stored-events.ts'
import type { SchemaPrediction } from './event-schema.ts'

/**
 * Runs a schema over stored events, with the code that ingest runs: what it predicts is what enforcement does with
 * events that say the same.
 */
export async function checkStoredEvents (
  clickhouse: ClickHouse, compiled: CompiledSchema,
  { event, ...query }: StoredEventsQuery & LookBackOptions & { event: string }
): Promise<SchemaPrediction> {
  const tally = new PredictionTally()
  const selection = { names: event, columns: ['lib', 'lib_version'] }
  const isComplete = await visitStoredEvents(clickhouse, query, selection, ({ uuid, columns, properties: text }) => {
    const properties = JSON.parse(text) as Record<string, unknown>
    const failures = compiled.check(properties, 'stored') === null ? NONE : compiled.failuresOf(properties, 'stored')
    tally.add({ uuid, sdk: columns }, failures)
  })
  return tally.describe(isComplete)
}

const NONE: readonly SchemaFailure[] = []

const MAX_SAMPLES = 3

/** Characters of a path that tell failures apart: names that a schema does not list may be as long as an event. */
const MAX_PATH_LENGTH = 500

/** Adds up what a schema would have done with stored events, in bounded memory. */
export class PredictionTally {
  #events = 0
  #failed = 0
  readonly #failures = new Map<string, SchemaPrediction['failures'][number]>()
  readonly #libs = new Map<string, SchemaPrediction['libs'][number]>()

  /** @param event.sdk  JSON of its name and version. */
  add ({ uuid, sdk }: { uuid: string, sdk: string }, failures: readonly SchemaFailure[]): void {
    const ofSdk = takeGroup(this.#libs, sdk, () => ({ ...createSdk(sdk), failed: 0 }))
    this.#events++
    if (ofSdk !== undefined) ofSdk.events++
    // Nearly all meet it.
    if (failures.length === 0) return
    this.#failed++
    if (ofSdk !== undefined) ofSdk.failed++
    // An event counts once under each kind, by its first failure.
    const kinds = new Map(failures.toReversed().map(({ path, keyword, value }) => {
      const kind = { path: cutText(generalise(path), MAX_PATH_LENGTH), keyword }
      return [JSON.stringify(kind), { ...kind, value }]
    }))
    for (const [key, { path, keyword, value }] of kinds) {
      const group = takeGroup(this.#failures, key, () => ({ path, keyword, events: 0, samples: [] }))
      if (group === undefined) continue
      group.events++
      if (group.samples.length < MAX_SAMPLES) group.samples.push({ uuid, value: describeValue(value) })
    }
  }

  describe (complete: boolean): SchemaPrediction {
    return {
      events: this.#events,
      met: this.#events - this.#failed,
      failed: this.#failed,
      complete,
      failures: [...this.#failures.values()].sort((one, other) => other.events - one.events),
      libs: [...this.#libs.values()].sort((one, other) => other.failed - one.failed || other.events - one.events)
    }
  }
}
