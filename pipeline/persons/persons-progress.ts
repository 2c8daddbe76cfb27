import type { Sql, SqlTemplates, Statement, TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { FingerprintTable } from '../events/duplicates/fingerprint-memory.ts'
import { decodeFingerprints, encodeFingerprints, type Fingerprint, REMEMBERED_SECONDS } from './fingerprints.ts'

/** The last message of a partition that was applied. */
export interface Progress {
  streamCreated: string
  lastSequence: number
  lastPublishedUs: number
}

interface MessagePosition {
  sequence: number
  publishedUs: number
}

/** Fingerprints in one of the two generations; 16 to 32 bytes each in memory. */
const GENERATION_SIZE = 500_000

/** The table takes events a day apart for equal; updates are all of one day. */
const ONE_DAY = 32

/** Rows read at once from Postgres; one has the fingerprints of a transaction, up to some 100 KB. */
const ROWS_PER_READ = 50

/** Makes sure that the partition has a row in `persons_progress`, so that it can be locked. */
export async function openProgress (sql: Sql, partition: number): Promise<void> {
  await sql`
    INSERT INTO persons_progress (partition, stream_created, last_sequence, last_published_us)
    VALUES (${partition}, '', 0, 0) ON CONFLICT DO NOTHING`
}

/**
 * Locks a partition until the transaction ends. This lock, not the assignment of partitions, is what keeps two
 * processes that both believe to own the partition from applying a message twice.
 */
export async function lockProgress (transaction: TransactionSql, partition: number): Promise<Progress> {
  return await readProgress(transaction, partition, transaction`FOR UPDATE`)
}

/**
 * Whether a message is still to be applied. A message at or below the recorded sequence but published later is a new
 * one: the stream was re-created, or lost its newest messages in a power failure.
 */
export function isUnapplied (message: MessagePosition, progress: Progress, streamCreated: string): boolean {
  return progress.streamCreated !== streamCreated ||
    message.sequence > progress.lastSequence || message.publishedUs > progress.lastPublishedUs
}

/** Records that the messages are applied, with the fingerprints that recognise their updates when repeated. */
export async function recordProgress (
  transaction: TransactionSql, { partition, streamCreated }: { partition: number, streamCreated: string },
  messages: readonly MessagePosition[], fingerprints: readonly Fingerprint[]
): Promise<void> {
  const last = messages.at(-1)
  if (last === undefined) return
  await transaction`
    UPDATE persons_progress SET stream_created = ${streamCreated}, last_sequence = ${last.sequence},
      last_published_us = ${last.publishedUs}
    WHERE partition = ${partition}`
  if (fingerprints.length === 0) return
  await transaction`
    WITH forgotten AS (
      DELETE FROM persons_recent_updates
      WHERE partition = ${partition} AND id IN (
        SELECT id FROM persons_recent_updates WHERE partition = ${partition} ORDER BY id LIMIT 4
      ) AND applied_at < now() - make_interval(secs => ${REMEMBERED_SECONDS})
    )
    INSERT INTO persons_recent_updates (partition, fingerprints)
    VALUES (${partition}, ${encodeFingerprints(fingerprints)})`
}

/**
 * The recently applied updates of a partition, by fingerprint: at least the last 500,000 of the last hour.
 *
 * An SDK that got no answer sends its events again. The ingest tier recognises most of them; this set recognises those
 * that came through another ingest process or after a restart, because a repeated `$set` must not undo a newer one.
 * Each transaction stores its fingerprints in Postgres, from where the next owner of the partition loads them.
 */
export class RecentUpdates {
  /** The set is complete up to this sequence. */
  lastSequence: number
  #current = new FingerprintTable()
  #previous = new FingerprintTable()

  constructor (lastSequence: number) {
    this.lastSequence = lastSequence
  }

  has ({ high, low }: Fingerprint): boolean {
    return this.#current.has(high, ONE_DAY, low) || this.#previous.has(high, ONE_DAY, low)
  }

  /** Only for committed updates: one whose transaction failed must not be taken for a duplicate. */
  add (fingerprints: readonly Fingerprint[]): void {
    for (const { high, low } of fingerprints) {
      this.#current.add(high, ONE_DAY, low)
      if (this.#current.size < GENERATION_SIZE) continue
      this.#previous = this.#current
      this.#current = new FingerprintTable()
    }
  }
}

/** Loads the fingerprints that former owners of the partition stored. */
export async function loadRecentUpdates (sql: Sql, partition: number): Promise<RecentUpdates> {
  // First, so that an update applied in between makes the set look stale, never complete.
  const recent = new RecentUpdates((await readProgress(sql, partition, sql``)).lastSequence)
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

async function readProgress (sql: SqlTemplates, partition: number, lock: Statement): Promise<Progress> {
  const [progress] = await sql<Progress[]>`
    SELECT stream_created AS "streamCreated", last_sequence AS "lastSequence", last_published_us AS "lastPublishedUs"
    FROM persons_progress WHERE partition = ${partition} ${lock}`
  if (progress === undefined) throw new Error(`persons_progress has no row for partition ${partition}`)
  return progress
}
