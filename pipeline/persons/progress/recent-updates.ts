import { type Sql } from '../../../platform/postgres/connect-postgres.ts'
import { decodeFingerprints, REMEMBERED_SECONDS } from './fingerprint-bytes.ts'
import { FingerprintSet } from './fingerprint-set.ts'
import { type Fingerprint } from './fingerprint-update.ts'
import { readProgress } from './persons-progress.ts'

/** Fingerprints of one of the two generations; 8 to 16 bytes each in memory. */
const GENERATION_SIZE = 500_000

/** Rows that are in memory at once while it is filled; one has the fingerprints of a transaction, up to some 100 KB. */
const ROWS_PER_READ = 50

/**
 * The updates of a partition that were applied lately: at least the last 500,000 that are not older than an hour.
 *
 * An SDK that got no answer sends its events again. The ingest tier recognises most of them; this memory recognises
 * those that came through another ingest process or after a restart, because a repeated `$set` must not undo a newer
 * one. It is filled from Postgres when a partition is taken over, where each transaction leaves its fingerprints.
 */
export class RecentUpdates {
  /** The last applied sequence up to which the memory is complete. */
  lastSequence: number
  #current = new FingerprintSet()
  #previous = new FingerprintSet()

  constructor (lastSequence: number) {
    this.lastSequence = lastSequence
  }

  has ({ high, low }: Fingerprint): boolean {
    return this.#current.has(high, low) || this.#previous.has(high, low)
  }

  /** Only for what is committed: an update of a transaction that failed must not be taken for a repetition. */
  add (fingerprints: readonly Fingerprint[]): void {
    for (const { high, low } of fingerprints) {
      this.#current.add(high, low)
      if (this.#current.size < GENERATION_SIZE) continue
      this.#previous = this.#current
      this.#current = new FingerprintSet()
    }
  }
}

/** Reads what former owners of the partition applied. */
export async function loadRecentUpdates (sql: Sql, partition: number): Promise<RecentUpdates> {
  // Read first: what is applied in between makes the memory look stale, never complete.
  const recent = new RecentUpdates((await readProgress(sql, partition)).lastSequence)
  let lastId = 0
  while (true) {
    const rows = await sql<{ id: number, fingerprints: Buffer }[]>`
      SELECT id, fingerprints FROM persons_recent_updates
      WHERE partition = ${partition} AND id > ${lastId} AND applied_at > now() - make_interval(secs => ${REMEMBERED_SECONDS})
      ORDER BY id LIMIT ${ROWS_PER_READ}`
    for (const { fingerprints } of rows) recent.add(decodeFingerprints(fingerprints))
    if (rows.length < ROWS_PER_READ) return recent
    lastId = rows.at(-1)!.id
  }
}
