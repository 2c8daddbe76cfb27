/** What looks back over stored events have in common: they read very many, in a process that has other work to do. */
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { createEventReader, type EventSelection, type StoredEvent, type StoredEventsQuery } from './read-stored-events.ts'

/** Groups that are told apart: names of events, properties and SDKs are anybody's choice. */
const MAX_GROUPS = 200

/** Other work of the process goes on after so long, in milliseconds. */
const TURN_MS = 10

/** How far a look back is, is said so often at most, in milliseconds. */
const PROGRESS_MS = 200

/** How a look back is followed. */
export interface LookBackOptions {
  /** Called at its beginning, as it goes on and at its end, with the events that were read and those there are. */
  onProgress?: (events: number, total: number) => void
  /** Ends it: it throws. */
  signal?: AbortSignal
}

/** @returns the group of this key, a new one if need be; undefined when there are too many others. */
export function takeGroup<T> (groups: Map<string, T>, key: string, create: () => T): T | undefined {
  const known = groups.get(key)
  if (known !== undefined || groups.size >= MAX_GROUPS) return known
  const group = create()
  groups.set(key, group)
  return group
}

/** The key of an SDK among groups; no two have the same. */
export function sdkKey (lib: string, libVersion: string): string {
  return `${lib.length} ${lib}${libVersion}`
}

/**
 * Visits stored events, newest day first, as many as the limit of the query allows.
 *
 * @returns false when there are more events than the limit: the older ones are not visited.
 */
export async function visitStoredEvents (
  clickhouse: ClickHouse, { onProgress, signal, ...query }: StoredEventsQuery & LookBackOptions,
  selection: EventSelection, visit: (event: StoredEvent) => void
): Promise<boolean> {
  const reader = createEventReader(clickhouse, query, { ...selection, signal })
  const stored = await reader.countEvents()
  const total = Math.min(stored.events, query.limit)
  let visited = 0
  let isComplete = true
  const showProgress = (): void => onProgress?.(visited, Math.max(total, visited))
  showProgress()
  for (let day = 0; day < stored.days && isComplete; day++) {
    // One more than are visited tells whether there are more.
    await visitRows(reader.readDay(day, query.limit - visited + 1), (event) => {
      isComplete = visited < query.limit
      if (!isComplete) return
      visited++
      visit(event)
    }, showProgress)
  }
  showProgress()
  return isComplete
}

/**
 * Visits each row of a result that comes in pieces, and lets other work of the process go on in between.
 *
 * @param onProgress  Called now and then.
 */
export async function visitRows<T> (
  pieces: AsyncIterable<readonly T[]>, visit: (row: T) => void, onProgress?: () => void
): Promise<void> {
  let turn = performance.now()
  let shownAt = turn
  for await (const rows of pieces) {
    for (const row of rows) {
      visit(row)
      if (performance.now() - turn < TURN_MS) continue
      await new Promise((resolve) => setImmediate(resolve))
      turn = performance.now()
      if (turn - shownAt < PROGRESS_MS) continue
      onProgress?.()
      shownAt = turn
    }
  }
}
