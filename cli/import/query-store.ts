/** Questions to the stored events of a project, asked of the management API. */
import { setTimeout as sleep } from 'node:timers/promises'
import { HttpError, MillraceError } from '../../engines/errors.ts'
import { retryDelayMs } from '../../platform/intervals.ts'
import type { ManagementClient } from '../management-client.ts'
import { DAY_MS, type Digest, type EventHashes, type EventKey, formatDay } from './event-digest.ts'

export interface StoredEvents {
  /** Digests by day and name, of the days from `first` to `last`: of all events, or those received since a moment. */
  digests: (first: number, last: number, receivedFrom?: number) => Promise<Digest[]>
  /** The events of a day that have one of the names. */
  events: (day: string, names: ReadonlySet<string>) => AsyncIterable<EventKey & EventHashes>
  /** The moment of receipt before which everything is stored, epoch milliseconds; 0 while it is unknown. */
  completeThrough: () => Promise<number>
}

/** The API may be away for so long, in milliseconds. */
const PATIENCE_MS = 120_000

/** Longest wait for the checksums of a period, in milliseconds: more than the API gives ClickHouse. */
const ANSWER_MS = 90_000

/** @throws from each: {MillraceError} `MILLRACE_IMPORT_UNVERIFIED` when the API does not answer the question. */
export function queryStoredEvents (api: ManagementClient, projectId: number): StoredEvents {
  const shared = { params: { project_id: projectId }, timeoutMs: ANSWER_MS }

  async function digests (first: number, last: number, receivedFrom?: number): Promise<Digest[]> {
    const since = receivedFrom !== undefined && { received_from: new Date(receivedFrom).toISOString() }
    const query = { from: formatDay(first), to: formatDay(last), ...since }
    const { results, is_cut: isCut } = await askPatiently(async () =>
      await api.get('/api/projects/{project_id}/events/digests', { ...shared, query }).catch((error: unknown) => {
        const isTimeout = error instanceof HttpError && error.code === 'clickhouse_timeout'
        if (first === last || !isTimeout) throw error
        // Half of the days take half the time.
        return { results: [], is_cut: true }
      }))
    if (isCut && first < last) {
      const middle = Math.floor((first + last) / 2)
      return [...await digests(first, middle, receivedFrom), ...await digests(middle + 1, last, receivedFrom)]
    }
    return results.map(({ day, xor, sum, with_properties: properties, ...group }) => ({
      ...group, day: Date.parse(day) / DAY_MS, xor: BigInt(xor), sum: BigInt(sum), withProperties: BigInt(properties)
    }))
  }

  return {
    digests,
    async * events (day, names) {
      const [only = '', ...others] = names
      // A question for each of several names would read the same rows each time.
      for (let after = {}; ;) {
        const query = { day, event: others.length === 0 ? only : '', ...after }
        const { results, is_cut: isCut } = await askPatiently(async () =>
          await api.get('/api/projects/{project_id}/events/hashes', { ...shared, query }))
        for (const { identity, properties, ...event } of results) {
          if (names.has(event.event)) yield { ...event, identity: BigInt(identity), properties: BigInt(properties) }
        }
        const last = results.at(-1)
        if (last === undefined || !isCut) return
        after = { after_uuid: last.uuid, after_distinct_id: last.distinct_id, after_event: last.event }
      }
    },
    async completeThrough () {
      const { complete_through: through } = await askPatiently(async () =>
        await api.get('/api/projects/{project_id}/events', { ...shared, query: { limit: 1 } }))
      return through === null ? 0 : Date.parse(through)
    }
  }
}

/** Asks again while the API or ClickHouse is away, as when it is started anew. */
async function askPatiently<T> (ask: () => Promise<T>): Promise<T> {
  const givesUpAt = performance.now() + PATIENCE_MS
  for (let attempt = 0; ; attempt++) {
    try {
      return await ask()
    } catch (error) {
      const isFinal = error instanceof HttpError && error.status < 500 && error.status !== 429
      if (isFinal || performance.now() > givesUpAt) {
        const { message } = error instanceof Error ? error : { message: String(error) }
        throw new MillraceError('MILLRACE_IMPORT_UNVERIFIED', message, { cause: error })
      }
    }
    await sleep(retryDelayMs(attempt))
  }
}
