/** Compares what the files of an import have with what is stored. */
import { isDeepStrictEqual } from 'node:util'
import type { ImportedEvent } from '../../engines/import/imported-event.ts'
import { DAY_MS, type Digest, formatDay, hashEvent } from './event-digest.ts'
import { eventKey, type StoredEvents } from './query-store.ts'

/** A day and name whose events are not stored as the files have them. */
export interface DifferingGroup {
  day: string
  event: string
  /** Events in the files, each once. */
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
  what: 'missing' | 'changed' | 'properties'
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

/** Events that are compared one by one at a time: their hashes take 200 bytes each. */
const MAX_COMPARED = 1_000_000

/** Differences that are listed one by one. */
const MAX_DIFFERENCES = 1000

/** Called for each event that is not stored, once, as soon as it is read. */
type OnMissing = (event: ImportedEvent) => Promise<void>

/** @param readEvents  Reads the files once more. */
export async function proveImport (
  source: readonly Digest[], store: StoredEvents, readEvents: () => AsyncIterable<ImportedEvent>, onMissing?: OnMissing,
  maxCompared = MAX_COMPARED
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
  for (const part of parts.values()) await compareEvents(new Map(part), store, readEvents(), differences, onMissing)
  // A day and name that has events of others beside those of the files, such as live ones, is no difference.
  const differing = [...suspects.values()].filter((group) =>
    group.missing + group.changed + group.otherProperties > 0)
  return {
    groups: source.length,
    equal: source.length - differing.length,
    differing,
    differences,
    isComplete: differing.every(({ missing, changed }) => missing + changed === 0)
  }
}

async function compareEvents (
  suspects: ReadonlyMap<string, DifferingGroup>, store: StoredEvents, events: AsyncIterable<ImportedEvent>,
  differences: Difference[], onMissing?: OnMissing
): Promise<void> {
  const byDay = new Map<string, Awaited<ReturnType<StoredEvents['events']>>>()
  for (const [day, groups] of Map.groupBy(suspects.values(), ({ day }) => day)) {
    byDay.set(day, await store.events(day, new Set(groups.map(({ event }) => event))))
  }
  const missing = new Set<string>()
  for await (const event of events) {
    const day = Math.floor(event.timestamp / DAY_MS)
    const key = keyOf({ day, event: event.event })
    const group = suspects.get(key)
    const there = byDay.get(group?.day ?? '')
    if (group === undefined || there === undefined) continue
    const id = eventKey(event)
    const found = there.get(id)
    if (found === undefined ? missing.has(`${day} ${id}`) : found.isSeen) continue
    if (found !== undefined) {
      found.isSeen = true
    } else {
      missing.add(`${day} ${id}`)
      await onMissing?.(event)
    }
    const { identity, properties } = hashEvent(event)
    if (found?.identity === identity && found.properties === properties) continue
    const what = found === undefined ? 'missing' : found.identity === identity ? 'properties' : 'changed'
    group[what === 'properties' ? 'otherProperties' : what]++
    if (differences.length < MAX_DIFFERENCES) {
      differences.push({ uuid: event.uuid, distinct_id: event.distinct_id, day: group.day, event: event.event, what })
    }
  }
}

export function keyOf ({ day, event }: Pick<Digest, 'day' | 'event'>): string {
  return `${day} ${event}`
}
