import { classifyClickHouseError } from '../../../platform/clickhouse/clickhouse-errors.ts'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { pause, retryDelayMs } from '../../../platform/intervals.ts'
import type { Logger } from '../../../platform/logger.ts'
import { EVENT_COLUMNS } from '../../../schema/wire/event-row.ts'
import type { PartitionLease } from '../../stream/partition-lease.ts'
import { INSERT_SETTINGS, InsertError, type InsertFrames } from './insert-frames.ts'

/** How often an insert is tried with an unknown error before the batch counts as refused. */
const UNKNOWN_TRIES = 5

/** Maximum number of requests that an insert names: a batch may hold thousands, and the comment is part of the URL. */
const NAMED_REQUESTS = 20

/**
 * The outcome of a recorded batch range: all rows are stored; ClickHouse refuses it as it is, and nothing is stored; or
 * the process stops while ClickHouse is unavailable, and the next owner of the partition repeats it.
 */
export type StoreOutcome =
  | { kind: 'stored' }
  /** `doubtful`: an earlier try ended without a clear answer, so its rows may be stored all the same. */
  | { kind: 'refused', error: InsertError, doubtful: boolean }
  | { kind: 'stopped' }

export interface StoreBatchRangeOptions {
  store: {
    insertFrames: InsertFrames
    /** The rows go to several shards: when one refuses its rows, others may have stored theirs. */
    isDistributed?: boolean
  }
  lease: PartitionLease
  insert: {
    frames: readonly Uint8Array[]
    token: string
    /** Ids of the requests that brought the messages, so that a request can be traced to its insert. */
    requests: readonly string[]
    settingsVersion: number
  }
  logger: Logger
  /** Ends the retries after the running insert. */
  stop: AbortSignal
  /** Ends the running insert, too. */
  abort: AbortSignal
  /** Called before each new try. */
  onRetry: (error: InsertError) => void
}

/**
 * Inserts a recorded batch range, trying again for as long as ClickHouse is unavailable or overloaded, be it for hours.
 *
 * Shards that refuse are believed the second time, and their refusal is doubtful: the others have stored their rows by
 * then, views included, under the token of this batch range.
 *
 * @throws {FencedError} when the partition went to another owner meanwhile. Nothing is inserted then.
 */
export async function storeBatchRange (options: StoreBatchRangeOptions): Promise<StoreOutcome> {
  const { store, lease, insert: { frames, token, requests, settingsVersion }, abort } = options
  const comment = describeInsert(token, requests)
  const settings = INSERT_SETTINGS[settingsVersion]
  if (settings === undefined) throw new Error(`the batch range was recorded with insert settings ${settingsVersion}, which this version does not know`)
  let unknownTries = 0
  let silences = 0
  for (let attempt = 0; ; attempt++) {
    await lease.renew()
    try {
      const insert = { frames, token, comment, settings, signal: abort, attempt, silences }
      if (frames.length > 0) await store.insertFrames(insert)
      return { kind: 'stored' }
    } catch (error) {
      if (!(error instanceof InsertError) || abort.aborted) throw error
      const { action, name } = classifyClickHouseError(error)
      if (error.isSilence) silences++
      const isRefused = action === 'refuse' || action === 'mismatch'
      const isFinal = isRefused && (attempt > 0 || store.isDistributed !== true)
      if (isFinal || (action === 'unknown' && ++unknownTries >= UNKNOWN_TRIES)) {
        return { kind: 'refused', error, doubtful: attempt > 0 }
      }
      if (options.stop.aborted) return { kind: 'stopped' }
      options.onRetry(error)
      const waitMs = retryDelayMs(attempt)
      options.logger.warn({ err: error, code: name, attempt, waitMs, comment }, 'insert failed, will try again')
      await pause(waitMs, options.stop)
    }
  }
}

/** Names an insert in the query log of ClickHouse and in our own: `<token> requests <id> <id> ...`. */
function describeInsert (token: string, requests: readonly string[]): string {
  const ids = [...new Set(requests)]
  const rest = ids.length > NAMED_REQUESTS ? ` and ${ids.length - NAMED_REQUESTS} more` : ''
  return `${token} requests ${ids.slice(0, NAMED_REQUESTS).join(' ')}${rest}`
}

/**
 * Tells whether the table has the columns that every frame brings. When a whole batch is refused, this separates bad
 * messages from a table that is being migrated: only with a sound table something may be dead-lettered.
 */
export function createProbeTable (clickhouse: ClickHouse): () => Promise<boolean> {
  const columns = EVENT_COLUMNS.map(({ name }) => name).join(', ')
  return async function probeTable () {
    try {
      await (await clickhouse.query({ query: `SELECT ${columns} FROM events LIMIT 0`, format: 'JSONEachRow' })).text()
      return true
    } catch {
      // Whatever is wrong, it is not the message.
      return false
    }
  }
}
