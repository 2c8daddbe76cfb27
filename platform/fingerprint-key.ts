import { createFingerprintKey, type FingerprintKey } from '../schema/wire/frame-message.ts'
import { runAtIntervals, withTimeout } from './intervals.ts'
import type { Logger } from './logger.ts'
import type { Sql } from './postgres/connect-postgres.ts'

/** Between two readings while Postgres is unavailable, in milliseconds. */
const RETRY_MS = 5000

/** Longest reading, in milliseconds: events are stored without Postgres, so nobody may wait long for one that hangs. */
const READ_TIMEOUT_MS = 2000

export type FingerprintKeyReader = ReturnType<typeof openFingerprintKey>

/**
 * The deployment's secret for fingerprints, which every process needs once. Reads it now, and again every few seconds
 * until Postgres answered.
 */
export function openFingerprintKey (sql: Sql, logger: Logger) {
  let current: FingerprintKey | null = null
  const { promise: tried, resolve: onTried } = Promise.withResolvers<undefined>()
  const loop = runAtIntervals({
    everyMs: RETRY_MS,
    logger,
    failure: 'could not read the fingerprint key from Postgres; until then every event is checked in ClickHouse',
    async run () {
      try {
        current = await withTimeout(READ_TIMEOUT_MS, readKey(sql))
        void loop.stop()
      } finally {
        onTried(undefined)
      }
    }
  })
  return {
    /** Null until it could be read. */
    get current (): FingerprintKey | null { return current },
    /** The key after the first read; null if Postgres did not answer within two seconds. */
    async read (): Promise<FingerprintKey | null> {
      await tried
      return current
    },
    stop: loop.stop
  }
}

async function readKey (sql: Sql): Promise<FingerprintKey> {
  const [row] = await sql<{ secret: Uint8Array }[]>`SELECT secret FROM fingerprint_keys`
  if (row === undefined) throw new Error('the table fingerprint_keys is empty')
  return createFingerprintKey(row.secret)
}
