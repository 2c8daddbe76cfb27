import { type Sql, type SqlTemplates, type Statement, type TransactionSql } from '../../../platform/postgres/connect-postgres.ts'
import { encodeFingerprints, REMEMBERED_SECONDS } from './fingerprint-bytes.ts'
import { type Fingerprint } from './fingerprint-update.ts'

interface MessagePosition {
  sequence: number
  publishedUs: number
}

/** Makes sure that the partition has a row, so that it can be locked. */
export async function openProgress (sql: Sql, partition: number): Promise<void> {
  await sql`
    INSERT INTO persons_progress (partition, stream_created, last_sequence, last_published_us)
    VALUES (${partition}, '', 0, 0) ON CONFLICT DO NOTHING`
}

/** How far a partition is applied. */
export interface Progress {
  streamCreated: string
  lastSequence: number
  lastPublishedUs: number
}

export async function readProgress (sql: Sql, partition: number): Promise<Progress> {
  return toProgress(partition, await sql<Progress[]>`${columns(sql)} WHERE partition = ${partition}`)
}

/**
 * Takes the turn of applying messages of a partition, until the transaction ends. This, not the ownership of the
 * partition, is what keeps two processes that both believe to own it from applying a message twice.
 */
export async function lockProgress (transaction: TransactionSql, partition: number): Promise<Progress> {
  return toProgress(partition, await transaction<Progress[]>`
    ${columns(transaction)} WHERE partition = ${partition} FOR UPDATE`)
}

/**
 * Whether a message is still to be applied. One at or below the recorded sequence that is younger is another one: the
 * stream was re-created, or lost its end in a power cut.
 */
export function isUnapplied (message: MessagePosition, progress: Progress, streamCreated: string): boolean {
  return progress.streamCreated !== streamCreated ||
    message.sequence > progress.lastSequence || message.publishedUs > progress.lastPublishedUs
}

/** Records that the messages are applied, with what is needed to recognise their updates when they are sent again. */
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

function columns (sql: SqlTemplates): Statement {
  return sql`
    SELECT stream_created AS "streamCreated", last_sequence AS "lastSequence", last_published_us AS "lastPublishedUs"
    FROM persons_progress`
}

function toProgress (partition: number, rows: readonly Progress[]): Progress {
  const [progress] = rows
  if (progress === undefined) throw new Error(`persons_progress has no row for partition ${partition}`)
  return progress
}
