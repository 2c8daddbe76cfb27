import { randomBytes } from 'node:crypto'
import { runAtIntervals, withTimeout } from '../../platform/intervals.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'

/** Salts by day, counted from 1970-01-01. Plain data, so that it can be given to a thread. */
export type CookielessSalts = ReadonlyMap<number, Uint8Array>

/** The salts of visitors without cookies, the same in every ingest process. */
export interface CookielessSaltKeeper {
  /** Those that are known, and none that is older than 72 h. */
  readonly current: CookielessSalts
  /** Resolves after the first reading, whether or not it worked. */
  readonly tried: Promise<void>
  stop: () => Promise<void>
}

const DAY_MS = 86_400_000

/** Days before and after that of UTC: a salt lives 72 h, and the day of a visitor in Kiribati begins 14 h before. */
const DAYS_BEFORE = 2
const DAYS_AFTER = 1

/** Between two looks at the clock, in milliseconds. Postgres is asked once a day, or until it answered. */
const CHECK_MS = 30_000
const READ_TIMEOUT_MS = 5000

/**
 * Makes the salts of the next days ahead, so that an outage of Postgres of up to a day is not noticed, and destroys old
 * ones: here, whether or not Postgres answers, and there.
 *
 * @param now  Epoch milliseconds.
 */
export function openCookielessSalts (sql: Sql, logger: Logger, now: () => number): CookielessSaltKeeper {
  let current = new Map<number, Uint8Array>()
  let readOn: number | null = null
  const { promise: tried, resolve: onTried } = Promise.withResolvers<void>()
  const loop = runAtIntervals({
    everyMs: CHECK_MS,
    logger,
    failure: 'could not read the daily salts for visitors without cookies; on a day without a salt, all their events are stored under one distinct id',
    async run () {
      const today = Math.floor(now() / DAY_MS)
      current = withoutOld(current, today)
      if (readOn === today) return
      try {
        current = withoutOld(await withTimeout(READ_TIMEOUT_MS, readSalts(sql, today)), today)
        readOn = today
      } finally {
        onTried()
      }
    }
  })
  return {
    get current () { return current },
    tried,
    stop: loop.stop
  }
}

function withoutOld (salts: Map<number, Uint8Array>, today: number): Map<number, Uint8Array> {
  return new Map([...salts].filter(([day]) => day >= today - DAYS_BEFORE))
}

/** Several processes may do this at a time: the first salt of a day counts. */
async function readSalts (sql: Sql, today: number): Promise<Map<number, Uint8Array>> {
  await sql`DELETE FROM cookieless_salts WHERE day < date '1970-01-01' + ${today - DAYS_BEFORE}::integer`
  for (let day = today - DAYS_BEFORE; day <= today + DAYS_AFTER; day++) {
    await sql`
      INSERT INTO cookieless_salts (day, salt) VALUES (date '1970-01-01' + ${day}::integer, ${randomBytes(16)})
      ON CONFLICT (day) DO NOTHING`
  }
  const rows = await sql<{ day: number, salt: Uint8Array }[]>`
    SELECT day - date '1970-01-01' AS day, salt FROM cookieless_salts`
  return new Map(rows.map(({ day, salt }) => [day, new Uint8Array(salt)]))
}
