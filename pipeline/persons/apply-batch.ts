import { MillraceError } from '../../engines/errors.ts'
import { postRows } from '../../platform/postgres/post-copies.ts'
import { toCopyTime } from '../../schema/wire/persons-copies.ts'
import type { Sql, TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { INGESTION_WARNINGS, MAX_SAMPLES, WARNINGS_TABLE } from '../../schema/wire/ingestion-warnings.ts'
import type { PersonsUpdate } from '../../schema/wire/persons-update.ts'
import { applyUpdates, classifyFailure, isolateUpdates } from './apply-updates.ts'
import { type Fingerprint, fingerprintUpdate } from './fingerprints.ts'
import type { PersonsBatch, PersonsMessage } from './persons-message.ts'
import { type PersonsOutcome, type PersonsWarning, type RefusedUpdate, warnOfRefused } from './persons-outcome.ts'
import { isUnapplied, lockProgress, type RecentUpdates, recordProgress } from './persons-progress.ts'

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
    // Postgres ends the transaction of a paused process, which would otherwise block everyone else on its locked rows.
    await transaction`SELECT set_config('idle_in_transaction_session_timeout', '30s', true)`
    const progress = await lockProgress(transaction, batch.partition)
    if (progress.lastSequence !== recent.lastSequence) {
      throw new MillraceError('MILLRACE_PERSONS_PROGRESS_STALE',
        `another process applied updates of persons partition ${batch.partition}: the recent updates must be loaded again`, { action: 'retry' })
    }
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

function deduplicateUpdates (
  messages: readonly PersonsMessage[], recent: RecentUpdates
): { updates: PersonsUpdate[], deduplicated: number } {
  const all = messages.flatMap((message) => message.updates)
  const seen = new Set<string>()
  const updates = all.filter((update) => {
    const fingerprint = fingerprintUpdate(update)
    const before = seen.size
    seen.add(`${fingerprint.high}:${fingerprint.low}`)
    return seen.size > before && !recent.has(fingerprint)
  })
  return { updates, deduplicated: all.length - updates.length }
}

/** A refused update is not remembered: its dead letter may be replayed in a minute, and is to be applied then. */
function fingerprintAccepted (updates: readonly PersonsUpdate[], refused: readonly RefusedUpdate[]): Fingerprint[] {
  const refusedUuids = new Set(refused.map(({ uuid }) => uuid))
  return updates.filter(({ uuid }) => !refusedUuids.has(uuid)).map(fingerprintUpdate)
}

function countKinds (updates: readonly PersonsUpdate[]): AppliedBatch['applied'] {
  const counts = { person: 0, merge: 0, group: 0, groupType: 0 }
  for (const { kind } of updates) counts[kind]++
  return counts
}

/**
 * Counts warnings by minute in the transaction that refuses, so each counts exactly once; the totals go to ClickHouse
 * with the copies.
 */
async function recordWarnings (
  transaction: TransactionSql, partition: number, warnings: readonly PersonsWarning[]
): Promise<void> {
  if (warnings.length === 0) return
  const groups = [...Map.groupBy(warnings, ({ projectId, reason }) => `${projectId}:${reason}`).values()]
    .sort(([a], [b]) => a!.projectId - b!.projectId)
  // The highest total of a minute counts, whatever their order.
  await postRows(transaction, WARNINGS_TABLE, await countByMinute(transaction, partition, groups))
}

/** A minute of Postgres: `effect` is left to be added. */
interface MinuteRow {
  project_id: number
  minute: number
  reason: PersonsWarning['reason']
  source: string
  count: number
  samples: object[]
}

/** @returns the rows of ClickHouse that changed. */
async function countByMinute (
  transaction: TransactionSql, partition: number, groups: readonly PersonsWarning[][]
): Promise<Record<string, unknown>[]> {
  const rows = groups.map((alike) => ({
    ...alike[0], occurrences: alike.length, samples: alike.slice(0, MAX_SAMPLES).map(toSample)
  }))
  await transaction`
    DELETE FROM persons_warning_minutes WHERE partition = ${partition} AND minute < now() - interval '1 day'`
  const changed = await transaction<MinuteRow[]>`
    INSERT INTO persons_warning_minutes AS known (project_id, partition, minute, reason, occurrences, samples)
    SELECT "projectId", ${partition}, date_trunc('minute', now()), reason, occurrences, samples
    FROM json_to_recordset(${JSON.stringify(rows)}::text::json) AS new
      ("projectId" integer, reason text, occurrences bigint, samples jsonb)
    ON CONFLICT (partition, project_id, minute, reason) DO UPDATE SET
      occurrences = known.occurrences + excluded.occurrences,
      samples = CASE WHEN jsonb_array_length(known.samples) < ${MAX_SAMPLES}
        THEN jsonb_path_query_array(known.samples || excluded.samples, '$[0 to 2]') ELSE known.samples END
    RETURNING project_id, extract(epoch FROM minute)::bigint AS minute, reason, occurrences AS count, samples`
  return changed.map((row) => ({ ...row, source: `persons-${partition}`, effect: INGESTION_WARNINGS[row.reason] }))
}

/** The examples have ids of events and persons, and names of groups. */
function toSample ({ example }: PersonsWarning): object {
  const { uuid = '', distinctId = '', otherDistinctId, groupType, groupKey, detail } = example
  return {
    received_at: toCopyTime(Date.now()),
    event: '',
    distinct_id: distinctId,
    uuid,
    lib: '',
    lib_version: '',
    value: otherDistinctId ?? detail ?? [groupType, groupKey].filter((part) => part !== undefined).join(': ')
  }
}
