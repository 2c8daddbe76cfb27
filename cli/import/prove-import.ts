import { isDeepStrictEqual } from 'node:util'
import type { ImportedEvent } from '../../engines/import/imported-event.ts'
import { type Comparison, DAY_MS, type Digest, EventTable, formatDay, keyOf } from './event-digest.ts'
import type { StoredEvents } from './query-store.ts'

/** A day and name whose events are not stored as the files have them. */
export interface DifferingGroup {
  day: string
  event: string
  source: number
  stored: number
  /** Of the files, not stored. */
  missing: number
  /** Stored with another distinct id or time than in the files. */
  changed: number
  /** Stored with other properties, by a rule, enrichment, or another copy of the event. */
  otherProperties: number
}

/** An event of the files that is not stored, or not as the files have it. */
export interface Difference {
  uuid: string
  distinct_id: string
  day: string
  event: string
  what: Exclude<Comparison, 'equal' | 'seen'>
}

export interface Proof {
  /** Days and names in the files, and those that are stored exactly so, properties included. */
  groups: number
  equal: number
  differing: DifferingGroup[]
  differences: Difference[]
  /** Every file was read to its end, and every event is stored, with its ids and its time. */
  isComplete: boolean
}

/** Events that are compared one by one at a time: each takes about 200 bytes. */
const MAX_COMPARED = 500_000

const MAX_DIFFERENCES = 1000

/** Reads the files once more, and calls the function with each event: true, once, for each that is not stored. */
type ReadEvents = (isMissing: (event: ImportedEvent) => boolean) => Promise<void>

/** Compares the files with the store by day and name and, where these differ, event by event. */
export async function proveImport (
  source: readonly Digest[], store: StoredEvents, readEvents: ReadEvents, maxCompared = MAX_COMPARED
): Promise<Proof> {
  const [first, last] = [source[0]?.day ?? 0, source.at(-1)?.day ?? 0]
  const stored = new Map((await store.digests(first, last)).map((digest) => [keyOf(digest), digest]))
  const suspects = new Map<string, DifferingGroup>()
  for (const digest of source) {
    const found = stored.get(keyOf(digest))
    if (isDeepStrictEqual(digest, found)) continue
    const { day, event, count: source } = digest
    suspects.set(keyOf(digest), {
      day: formatDay(day), event, source, stored: found?.count ?? 0, missing: 0, changed: 0, otherProperties: 0
    })
  }
  const differences: Difference[] = []
  let compared = 0
  const parts = Map.groupBy(suspects, ([, group]) =>
    Math.floor((compared += group.source + group.stored) / maxCompared))
  for (const part of parts.values()) await compareEvents(new Map(part), store, readEvents, differences)
  // A day and name that has events of others beside those of the files, such as live ones, is no difference.
  const differing = [...suspects.values()].filter((group) =>
    group.missing + group.changed + group.otherProperties > 0)
  return {
    groups: source.length, equal: source.length - differing.length, differing, differences,
    isComplete: differing.every(({ missing, changed }) => missing + changed === 0)
  }
}

async function compareEvents (
  suspects: ReadonlyMap<string, DifferingGroup>, store: StoredEvents, readEvents: ReadEvents, differences: Difference[]
): Promise<void> {
  const groups = [...suspects.values()]
  const table = new EventTable()
  for (const [day, ofDay] of Map.groupBy(groups, ({ day }) => day)) {
    for await (const stored of store.events(day, new Set(ofDay.map(({ event }) => event)))) table.addStored(day, stored)
  }
  await readEvents((event) => {
    const group = suspects.get(keyOf({ day: Math.floor(event.timestamp / DAY_MS), event: event.event }))
    if (group === undefined) return false
    const what = table.compare(group.day, event)
    if (what === 'equal' || what === 'seen') return false
    group[what === 'properties' ? 'otherProperties' : what]++
    if (differences.length < MAX_DIFFERENCES) {
      differences.push({ uuid: event.uuid, distinct_id: event.distinct_id, day: group.day, event: event.event, what })
    }
    return what === 'missing'
  })
}
