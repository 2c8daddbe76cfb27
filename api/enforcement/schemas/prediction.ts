/** What a schema would have done with stored events, added up in bounded memory. */
import { sdkKey, takeGroup } from '../look-back.ts'
import { describeValue, generalise } from '../../../engines/json-schema/describe-failure.ts'
import { cutText } from '../../../engines/body/storable-text.ts'
import type { SchemaFailure } from '../../../engines/json-schema/evaluation.ts'

/** Counts are exact for the events that were checked. */
export interface SchemaPrediction {
  /** Events that were checked, and how many of them meet the schema. */
  events: number
  met: number
  failed: number
  /** False when there are more events than the limit: the older ones were not checked. */
  complete: boolean
  /** Most events first. */
  failures: PredictedFailure[]
  /** By SDK, most failed events first. */
  libs: { lib: string, libVersion: string, events: number, failed: number }[]
}

/** What is wrong with how many events; an event with several failures counts under each. */
export interface PredictedFailure {
  /** JSON pointer into the properties, its first 500 characters, `*` for the places in arrays. */
  path: string
  keyword: string
  events: number
  samples: { uuid: string, value: string }[]
}

/** Events about which the schema says the same. */
export interface JudgedEvents {
  lib: string
  libVersion: string
  events: number
  /** Of some of them. */
  uuids: readonly string[]
}

/** Samples of each failure. */
export const MAX_SAMPLES = 3

/** A kind of failure, with the events that samples are taken from. */
interface FailureGroup extends Omit<PredictedFailure, 'samples'> {
  uuids: string[]
}

/** Adds up what is wrong, then asks for some events to show. */
export class PredictionTally {
  events = 0
  #failed = 0
  readonly #failures = new Map<string, FailureGroup>()
  readonly #libs = new Map<string, SchemaPrediction['libs'][number]>()

  add ({ lib, libVersion, events, uuids }: JudgedEvents, failures: readonly SchemaFailure[]): void {
    this.events += events
    const failed = failures.length > 0 ? events : 0
    this.#failed += failed
    const sdk = takeGroup(this.#libs, sdkKey(lib, libVersion), () => ({ lib, libVersion, events: 0, failed: 0 }))
    if (sdk !== undefined) {
      sdk.events += events
      sdk.failed += failed
    }
    // Nearly all meet it.
    if (failures.length === 0) return
    for (const key of kindsOf(failures)) {
      const group = takeGroup(this.#failures, key, () => createFailureGroup(key))
      if (group === undefined) continue
      group.events += events
      if (group.uuids.length < MAX_SAMPLES) group.uuids.push(...uuids.slice(0, MAX_SAMPLES - group.uuids.length))
    }
  }

  /** Of the events that are shown as samples. */
  sampledUuids (): string[] {
    return [...new Set([...this.#failures.values()].flatMap(({ uuids }) => uuids))]
  }

  /** @param failuresOf  The failures of a sampled event, by its uuid; without any that are wrong no more. */
  describe (complete: boolean, failuresOf: ReadonlyMap<string, readonly SchemaFailure[]>): SchemaPrediction {
    const failures = [...this.#failures].map(([key, { uuids, ...group }]) => ({
      ...group,
      samples: uuids.flatMap((uuid) => {
        const failure = failuresOf.get(uuid)?.find((each) => kindOf(each) === key)
        return failure === undefined ? [] : [{ uuid, value: describeValue(failure.value) }]
      })
    }))
    return {
      events: this.events,
      met: this.events - this.#failed,
      failed: this.#failed,
      complete,
      failures: failures.sort((one, other) => other.events - one.events),
      libs: [...this.#libs.values()].sort((one, other) => other.failed - one.failed || other.events - one.events)
    }
  }
}

function createFailureGroup (key: string): FailureGroup {
  const [path, keyword] = JSON.parse(key) as [string, string]
  return { path, keyword, events: 0, uuids: [] }
}

function kindsOf (failures: readonly SchemaFailure[]): Set<string> {
  return new Set(failures.map(kindOf))
}

/** Characters of a path that tell kinds apart: names that a schema does not list may be as long as an event. */
const MAX_PATH_LENGTH = 500

function kindOf ({ path, keyword }: SchemaFailure): string {
  return JSON.stringify([cutText(generalise(path), MAX_PATH_LENGTH), keyword])
}
