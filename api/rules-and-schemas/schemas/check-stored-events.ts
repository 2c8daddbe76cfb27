import { cutText } from '../../../engines/body/storable-text.ts'
import type { CompiledSchema } from '../../../engines/json-schema/compile-schema.ts'
import { describeValue, generalise } from '../../../engines/json-schema/describe-failure.ts'
import type { SchemaFailure } from '../../../engines/json-schema/evaluation.ts'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { type LookBackOptions, sdkKey, takeGroup, visitStoredEvents } from '../look-back.ts'
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
  const sdks = new SdkReader()
  const selection = { names: event, columns: ['lib', 'lib_version'] }
  const isComplete = await visitStoredEvents(clickhouse, query, selection, ({ uuid, columns, properties: text }) => {
    const properties = JSON.parse(text) as Record<string, unknown>
    const failures = compiled.check(properties, 'stored') === null ? NONE : compiled.failuresOf(properties, 'stored')
    tally.add({ uuid, sdk: sdks.read(columns) }, failures)
  })
  return tally.describe(isComplete)
}

const NONE: readonly SchemaFailure[] = []

/** Most events are of a few SDKs, so reading each once saves a tenth of the time of a check. */
class SdkReader {
  readonly #known = new Map<string, Sdk>()

  /** @param columns  JSON of name and version. */
  read (columns: string): Sdk {
    const known = this.#known.get(columns)
    if (known !== undefined) return known
    const [lib, version] = JSON.parse(columns) as [string, string]
    // SDKs are anybody's choice.
    if (this.#known.size === MAX_KNOWN_SDKS) this.#known.clear()
    const sdk = { lib, version }
    this.#known.set(columns, sdk)
    return sdk
  }
}

const MAX_KNOWN_SDKS = 1000

/** Number of events by failure; an event with several failures counts under each. */
type PredictedFailure = SchemaPrediction['failures'][number]

interface Sdk {
  lib: string
  version: string
}

const MAX_SAMPLES = 3

/** Adds up what a schema would have done with stored events, in bounded memory. */
export class PredictionTally {
  #events = 0
  #failed = 0
  readonly #failures = new Map<string, PredictedFailure>()
  readonly #libs = new Map<string, SchemaPrediction['libs'][number]>()

  add ({ uuid, sdk: { lib, version } }: { uuid: string, sdk: Sdk }, failures: readonly SchemaFailure[]): void {
    this.#events++
    const sdk = takeGroup(this.#libs, sdkKey(lib, version), () => ({ lib, lib_version: version, events: 0, failed: 0 }))
    if (sdk !== undefined) sdk.events++
    // Nearly all meet it.
    if (failures.length === 0) return
    this.#failed++
    if (sdk !== undefined) sdk.failed++
    for (const [key, { value }] of firstOfKinds(failures)) {
      const group = takeGroup(this.#failures, key, () => createFailure(key))
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

function createFailure (key: string): PredictedFailure {
  const [path, keyword] = JSON.parse(key) as [string, string]
  return { path, keyword, events: 0, samples: [] }
}

/** An event counts once under each kind. */
function firstOfKinds (failures: readonly SchemaFailure[]): Map<string, SchemaFailure> {
  return new Map(failures.toReversed().map((failure) => [kindOf(failure), failure]))
}

/** Characters of a path that tell kinds apart: names that a schema does not list may be as long as an event. */
const MAX_PATH_LENGTH = 500

function kindOf ({ path, keyword }: SchemaFailure): string {
  return JSON.stringify([cutText(generalise(path), MAX_PATH_LENGTH), keyword])
}
