/** Deletes from ClickHouse what the API deleted in Postgres. */
import { jetstreamManager } from '@nats-io/jetstream'
import { onEachShard, queryRows, readCompleteThrough } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { type IntervalLoop, runAtIntervals } from '../../../platform/intervals.ts'
import type { Logger } from '../../../platform/logger.ts'
import type { NatsConnection } from '../../../platform/nats/connect-nats.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { readStreamInfo } from '../../../platform/nats/stream-info.ts'
import { erasedConditions } from '../../../schema/wire/erased-ids.ts'
import { EVENTS_STREAM } from '../../../schema/wire/streams.ts'
import type { RunAnnounced } from '../../announced-work.ts'
import type { RemovalDeps } from './event-removals.ts'
import { finishPersonDeletion, type PersonDeletion, selectDeletion } from './finish-person-deletion.ts'
import { forgetNotifications } from './forget-notifications.ts'
import { reviseExports } from './revise-exports.ts'

/** Interval of looking at open deletions, in milliseconds: whoever asked for one waits for the answer. */
const POLL_INTERVAL_MS = 1000

/** Maximum wait for one deletion in one round, in milliseconds; ClickHouse goes on, and the next round asks again. */
const WAIT_MS = 2000

/** Interval of looking for events that came back, in milliseconds, and how far back it looks, in seconds. */
const LOOK_INTERVAL_MS = 30_000
const LOOK_BACK_S = 600

/** Events that were stored much later than received. */
const RETURNED = `inserted_at > now64(3) - toIntervalSecond(${LOOK_BACK_S}) AND received_at < inserted_at - INTERVAL 5 SECOND`

interface DeletionDeps extends RemovalDeps {
  connection: NatsConnection
  /** Default: looks every time. */
  run?: RunAnnounced
  logger: Logger
}

/**
 * Finishes deletions of persons, and deletes once more when the events that were in flight at the time of the request
 * have been stored. Runs in every process: two that delete the same do no harm.
 */
export function startDeletions (deps: DeletionDeps, pollIntervalMs = POLL_INTERVAL_MS): IntervalLoop {
  const { run = runAtIntervals } = deps
  let lookedAt = -Infinity
  return run({
    everyMs: pollIntervalMs,
    async run (signal) {
      if (Date.now() - lookedAt > LOOK_INTERVAL_MS) {
        await reopenErasures(deps)
        await forgetOnceMore(deps.sql)
        lookedAt = Date.now()
      }
      return await finishOpenDeletions(deps, signal)
    },
    logger: deps.logger,
    failure: 'could not finish deletions of persons; retrying',
    stopWithinMs: 2 * WAIT_MS
  })
}

/**
 * Opens erasures again whose events came back with their old time of receipt: by a replay, or from a spool or stream
 * that was restored.
 */
async function reopenErasures ({ sql, clickhouse, cluster = '', logger }: DeletionDeps): Promise<void> {
  if ((await sql`SELECT 1 FROM person_deletions WHERE is_erasure LIMIT 1`).length === 0) return
  const late = await queryRows<{ project: number, person: string }>(clickhouse, `
    SELECT DISTINCT project_id AS project, toString(person_id) AS person FROM ${onEachShard(cluster, 'events')}
    WHERE ${RETURNED}
    LIMIT 100000 SETTINGS final = 0`)
  if (late.length === 0) return
  const filtered: number[] = []
  for (const { id, projectId, filter } of await sql<Pick<PersonDeletion, 'id' | 'projectId' | 'filter'>[]>`
    SELECT id, project_id AS "projectId", filter FROM person_deletions WHERE is_erasure AND swept_at IS NOT NULL AND filter IS NOT NULL`) {
    for (const { where, params } of erasedConditions(filter ?? { salt: '' }, projectId)) {
      const found = await queryRows(clickhouse, `
        SELECT 1 FROM ${onEachShard(cluster, 'events')} WHERE ${where} AND ${RETURNED} LIMIT 1 SETTINGS final = 0`, params)
      if (found.length > 0) filtered.push(id)
    }
  }
  const opened = await sql`
    UPDATE person_deletions AS deletion SET done_at = NULL, swept_at = NULL
    WHERE is_erasure AND swept_at IS NOT NULL AND (id = ANY (${filtered}::bigint[]) OR EXISTS (
      SELECT FROM json_to_recordset(${JSON.stringify(late)}::text::json) AS late (project integer, person uuid)
      WHERE project_id = project AND person_uuids @> ARRAY[person])) RETURNING deletion.id`
  if (opened.length > 0) logger.info({ erasures: opened.length }, 'erased events reappeared; deleting them again')
}

/** A reader that had begun before events were deleted may have queued them for targets afterwards. */
async function forgetOnceMore (sql: Sql): Promise<void> {
  await forgetNotifications(sql, await sql<PersonDeletion[]>`
    SELECT ${selectDeletion(sql)} FROM person_deletions WHERE swept_at > now() - ${LOOK_BACK_S}::integer * interval '1 second'`)
}

/** @returns whether there were any. */
async function finishOpenDeletions (deps: DeletionDeps, signal: AbortSignal): Promise<boolean> {
  const { sql, connection, logger } = deps
  // What was to be deleted before must not come back under a random id, nor what got one after it is deleted.
  const open = await sql<(PersonDeletion & { isEarliest: boolean })[]>`
    SELECT ${selectDeletion(sql)}, earlier.count = 0 AS "isEarliest" FROM person_deletions AS deletion CROSS JOIN LATERAL (
      SELECT count(*) AS count, count(*) FILTER (WHERE earlier.done_at IS NULL) AS not_done
      FROM person_deletions AS earlier WHERE earlier.swept_at IS NULL AND earlier.id < deletion.id AND earlier.with_events
        AND earlier.project_id = deletion.project_id AND num_nonnulls(earlier.anonymised, deletion.anonymised) > 0
        AND (num_nonnulls(earlier.filter, deletion.filter) > 0 OR deletion.person_uuids && (earlier.person_uuids
          || ARRAY(SELECT value::uuid FROM jsonb_each_text(earlier.anonymised->'persons'))))) AS earlier
    WHERE swept_at IS NULL AND CASE WHEN anonymised IS NULL THEN not_done ELSE earlier.count END = 0
    ORDER BY id LIMIT 100`
  if (open.length === 0) return false
  // Without NATS the rows are deleted all the same; the last pass comes later.
  const arrivedUntil = await findArrivedUntil(connection).catch(() => 0)
  const finished: PersonDeletion[] = []
  const failures: unknown[] = []
  for (const deletion of open) {
    if (signal.aborted) break
    const requestedAt = deletion.requestedAt.getTime()
    // Spools hold the watermark back.
    const isComplete = !deletion.isErasure ||
      ((await readCompleteThrough(deps.clickhouse))?.getTime() ?? 0) > requestedAt
    const isLast = deletion.isEarliest && (!deletion.withEvents || (requestedAt < arrivedUntil && isComplete))
    // Deleted already; the last pass waits for the events in flight.
    if (deletion.doneAt !== null && !isLast) continue
    const isDone = await finishPersonDeletion(deletion, { ...deps, waitMs: WAIT_MS }).catch((error: unknown) => {
      // It holds up no other.
      failures.push(error)
      return false
    })
    if (!isDone) continue
    logger.info({ deletion: deletion.id, isLast }, 'deleted a person')
    if (isLast) await recordSwept(sql, deletion)
    finished.push(deletion)
  }
  await forgetNotifications(sql, finished)
  if (failures.length > 0) throw failures[0]
  return true
}

async function recordSwept (sql: Sql, { id, projectId, personUuids }: PersonDeletion): Promise<void> {
  await sql.begin(async (transaction) => {
    const [swept] = await transaction<{ revised: string[] }[]>`
      UPDATE person_deletions SET swept_at = now(), anonymised = NULL WHERE id = ${id} AND swept_at IS NULL RETURNING revised_uuids AS revised`
    if (swept !== undefined) await reviseExports(transaction, projectId, [...personUuids, ...swept.revised])
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
