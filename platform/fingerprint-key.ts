import { createFingerprintKey, type FingerprintKey } from '../schema/frame-message.ts'
import type { Logger } from './logger.ts'
import type { Sql } from './postgres/connect-postgres.ts'

/** Between two readings while Postgres is unavailable, in milliseconds. */
const RETRY_MS = 5000

/** The deployment's secret for fingerprints, which every process needs once. */
export interface FingerprintKeyReader {
  /** Null until it could be read. */
  readonly current: FingerprintKey | null
  /** Reads it unless it is known; null when Postgres does not answer. */
  read: () => Promise<FingerprintKey | null>
  stop: () => void
}

/** Reads the secret now, and again every few seconds until Postgres answered. */
export function openFingerprintKey (sql: Sql, logger: Logger): FingerprintKeyReader {
  let current: FingerprintKey | null = null
  let reading: Promise<FingerprintKey | null> | null = null
  const read = async (): Promise<FingerprintKey | null> => {
    if (current !== null) return current
    reading ??= readOnce().finally(() => { reading = null })
    return await reading
  }
  const timer = setInterval(() => { void read() }, RETRY_MS)
  void read()
  return { get current () { return current }, read, stop: () => clearInterval(timer) }

  async function readOnce (): Promise<FingerprintKey | null> {
    try {
      const [row] = await sql<{ secret: Uint8Array }[]>`SELECT secret FROM fingerprint_keys`
      if (row !== undefined) current = createFingerprintKey(row.secret)
      clearInterval(timer)
    } catch (err) {
      logger.warn({ err }, 'could not read the fingerprint key from Postgres; until then every event is checked in ClickHouse')
    }
    return current
  }
}
