import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { type LookBackOptions, visitStoredEvents } from '../look-back.ts'
import type { StoredEventsQuery } from '../read-stored-events.ts'
import type { CompiledSchema } from '../../../engines/json-schema/compile-schema.ts'
import type { SchemaFailure } from '../../../engines/json-schema/evaluation.ts'
import { PredictionTally, type Sdk } from './prediction.ts'
import type { SchemaPrediction } from './event-schema.ts'

/** Which stored events are checked. */
export interface CheckQuery extends StoredEventsQuery {
  event: string
}

/**
 * Runs a schema over stored events, with the code that ingest runs: what it predicts is what enforcement does with
 * events that say the same.
 */
export async function checkStoredEvents (
  clickhouse: ClickHouse, compiled: CompiledSchema, { event, ...query }: CheckQuery & LookBackOptions
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
