/** Deletes from ClickHouse what the API deleted in Postgres. */
import { jetstreamManager } from '@nats-io/jetstream'
import { type IntervalLoop, runAtIntervals } from '../../../platform/intervals.ts'
import type { Logger } from '../../../platform/logger.ts'
import type { NatsConnection } from '../../../platform/nats/connect-nats.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { readStreamInfo } from '../../../platform/nats/stream-info.ts'
import { EVENTS_STREAM } from '../../../schema/wire/streams.ts'
import { type FinishDeletionDeps, finishPersonDeletion, type PersonDeletion, selectDeletion } from './finish-person-deletion.ts'
import { reviseExports } from './revise-exports.ts'

/** Interval of looking for deletions, in milliseconds: whoever asked for one waits for the answer. */
const POLL_INTERVAL_MS = 500

/** Maximum wait for one deletion in one round, in milliseconds; ClickHouse goes on, and the next round asks again. */
const WAIT_MS = 2000

export interface DeletionDeps extends Omit<FinishDeletionDeps, 'waitMs'> {
  connection: NatsConnection
  logger: Logger
}

/**
 * Finishes deletions of persons, and deletes once more when the events that were in flight at the time of the request
 * have been stored. Runs in every process: two that delete the same do no harm.
 */
export function startDeletions (deps: DeletionDeps, pollIntervalMs = POLL_INTERVAL_MS): IntervalLoop {
  return runAtIntervals({
    everyMs: pollIntervalMs,
    run: async (signal) => await finishOpenDeletions(deps, signal),
    logger: deps.logger,
    failure: 'could not finish deletions of persons; retrying',
    stopWithinMs: 2 * WAIT_MS
  })
}

async function finishOpenDeletions (deps: DeletionDeps, signal: AbortSignal): Promise<void> {
  const { sql, connection, logger } = deps
  const open = await sql<PersonDeletion[]>`
    SELECT ${selectDeletion(sql)} FROM person_deletions WHERE swept_at IS NULL ORDER BY id LIMIT 100`
  if (open.length === 0) return
  // Without NATS the rows are deleted all the same; the last pass comes later.
  const arrivedUntil = await findArrivedUntil(connection).catch(() => 0)
  for (const deletion of open) {
    if (signal.aborted) return
    const isLast = !deletion.withEvents || deletion.requestedAt.getTime() < arrivedUntil
    // Deleted already; the last pass waits for the events in flight.
    if (deletion.doneAt !== null && !isLast) continue
    if (!await finishPersonDeletion(deletion, { ...deps, waitMs: WAIT_MS })) continue
    logger.info({ deletion: deletion.id, isLast }, 'deleted a person')
    if (isLast) await recordSwept(sql, deletion)
  }
}

async function recordSwept (sql: Sql, { id, projectId, personUuids }: PersonDeletion): Promise<void> {
  await sql.begin(async (transaction) => {
    const { count } = await transaction`UPDATE person_deletions SET swept_at = now() WHERE id = ${id} AND swept_at IS NULL`
    if (count === 1) await reviseExports(transaction, projectId, personUuids)
  })
}

/**
 * Events that reached the stream before this time, in epoch milliseconds, are stored or dead-lettered: messages leave
 * the stream when they are acknowledged.
 */
async function findArrivedUntil (connection: NatsConnection): Promise<number> {
  const askedAt = Date.now()
  const { state } = await readStreamInfo(await jetstreamManager(connection), EVENTS_STREAM)
  return state.messages === 0 ? askedAt : Date.parse(state.first_ts)
}
