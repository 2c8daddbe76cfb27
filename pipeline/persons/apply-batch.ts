import { MillraceError } from '../../engines/errors.ts'
import type { Sql, TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import type { PersonsUpdate } from '../../schema/wire/persons-update.ts'
import { applyUpdates, classifyFailure, isolateUpdates } from './apply-updates.ts'
import { type Fingerprint, fingerprintUpdate } from './fingerprints.ts'
import type { PersonsBatch, PersonsMessage } from './persons-message.ts'
import { type PersonsOutcome, type RefusedUpdate, warnOfRefused } from './persons-outcome.ts'
import { isUnapplied, lockProgress, type RecentUpdates, recordProgress } from './persons-progress.ts'
import { recordWarnings } from './persons-warnings.ts'

/** What became of a batch. */
export interface AppliedBatch extends PersonsOutcome {
  /** Updates applied now, by kind. */
  applied: Record<PersonsUpdate['kind'], number>
  /** Updates that were not applied because the same ones were applied before. */
  deduplicated: number
  /** Those of `refused` for which no dead letter could be kept. */
  leftOut: readonly RefusedUpdate[]
  /** Bytes of properties read from Postgres. */
  propertiesBytes: number
}

export interface ApplyBatchDeps {
  sql: Sql
  recent: RecentUpdates
  /** Maximum group types of a project. Default: no limit. */
  maxGroupTypes?: number
  /**
   * Stores refused updates as dead letters; resolves once they are durable, with those for which there is no room. May
   * be called again for the same ones.
   */
  deadLetterUpdates: (batch: PersonsBatch, refused: readonly RefusedUpdate[]) => Promise<readonly RefusedUpdate[]>
}

/**
 * Applies a batch exactly once: the changes, the copies for ClickHouse and the position in the stream commit in one
 * transaction, so whatever part of the batch was applied before is skipped.
 *
 * Updates that can never be applied become dead letters; all others are applied.
 *
 * @throws when Postgres or the dead-letter stream is unavailable. Nothing has changed then.
 */
export async function applyBatch (batch: PersonsBatch, deps: ApplyBatchDeps): Promise<AppliedBatch> {
  try {
    return await applyOnce(batch, deps, applyUpdates)
  } catch (error) {
    if (classifyFailure(error) === 'retry') throw error
    return await applyOnce(batch, deps, isolateUpdates)
  }
}

async function applyOnce (
  batch: PersonsBatch, { sql, recent, maxGroupTypes = Infinity, deadLetterUpdates }: ApplyBatchDeps,
  apply: typeof applyUpdates
): Promise<AppliedBatch> {
  const { result, fingerprints, lastSequence } = await sql.begin(async (transaction) => {
    await boundTransaction(transaction)
    const progress = await lockProgress(transaction, batch.partition)
    if (progress.lastSequence !== recent.lastSequence) throw staleProgress(batch.partition)
    const messages = batch.messages.filter((message) => isUnapplied(message, progress, batch.streamCreated))
    const { updates, deduplicated } = deduplicateUpdates(messages, recent)

    const { propertiesBytes, ...outcome } = await apply(transaction, updates, maxGroupTypes)
    outcome.refused = [...messages.flatMap((message) => message.refused), ...outcome.refused]
    const leftOut = outcome.refused.length > 0 ? await deadLetterUpdates(batch, outcome.refused) : []
    outcome.warnings = [...outcome.warnings, ...warnOfRefused(outcome.refused)]
    await recordWarnings(transaction, batch.partition, outcome.warnings)
    const fingerprints = fingerprintAccepted(updates, outcome.refused)
    await recordProgress(transaction, batch, messages, fingerprints)
    const result: AppliedBatch = { ...outcome, applied: countKinds(updates), deduplicated, leftOut, propertiesBytes }
    return { result, fingerprints, lastSequence: messages.at(-1)?.sequence ?? progress.lastSequence }
  })
  recent.add(fingerprints)
  recent.lastSequence = lastSequence
  return result
}

/** Postgres ends the transaction of a paused process, which would otherwise block everyone else on its locked rows. */
async function boundTransaction (transaction: TransactionSql): Promise<void> {
  await transaction`SELECT set_config('idle_in_transaction_session_timeout', '30s', true)`
}

function staleProgress (partition: number): MillraceError {
  return new MillraceError('MILLRACE_PERSONS_PROGRESS_STALE',
    `another process applied updates of persons partition ${partition}: the recent updates must be loaded again`,
    { action: 'retry' })
}

function deduplicateUpdates (
  messages: readonly PersonsMessage[], recent: RecentUpdates
): { updates: PersonsUpdate[], deduplicated: number } {
  const updates: PersonsUpdate[] = []
  const seen = new Set<string>()
  let deduplicated = 0
  for (const update of messages.flatMap((message) => message.updates)) {
    const fingerprint = fingerprintUpdate(update)
    const key = `${fingerprint.high}:${fingerprint.low}`
    if (seen.has(key) || recent.has(fingerprint)) {
      deduplicated++
      continue
    }
    seen.add(key)
    updates.push(update)
  }
  return { updates, deduplicated }
}

/** A refused update is not remembered: its dead letter may be replayed in a minute, and is to be applied then. */
function fingerprintAccepted (
  updates: readonly PersonsUpdate[], refused: readonly RefusedUpdate[]
): Fingerprint[] {
  const refusedUuids = new Set(refused.map(({ uuid }) => uuid))
  return updates.filter(({ uuid }) => !refusedUuids.has(uuid)).map(fingerprintUpdate)
}

function countKinds (updates: readonly PersonsUpdate[]): AppliedBatch['applied'] {
  const counts = { person: 0, merge: 0, group: 0, groupType: 0 }
  for (const { kind } of updates) counts[kind]++
  return counts
}
