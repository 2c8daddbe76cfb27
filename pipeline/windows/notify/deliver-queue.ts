/**
 * Delivers what is queued for targets. Each target that has something due is drained on its own, in order, one
 * notification at a time; so one that hangs delays nobody else, and memory holds one body of each.
 *
 * A drain ends when nothing is left, when an attempt fails, when the target is disabled, or when another process leads.
 * A failed attempt pauses the queue of the target, longer each time. After a day of failures a notification becomes a
 * dead letter, and the next one is tried. A process that dies after a delivery and before it is recorded delivers it
 * again, with the same id.
 */
import type { HasLetterRoom } from '../../../platform/dead-letters/letter-room.ts'
import { publishDeadLetter } from '../../../platform/dead-letters/publish-dead-letter.ts'
import { type IntervalLoop, runAtIntervals } from '../../../platform/intervals.ts'
import type { Logger } from '../../../platform/logger.ts'
import type { Metrics } from '../../../platform/metrics.ts'
import type { NatsConnection } from '../../../platform/nats/connect-nats.ts'
import type { NotificationLetter } from '../../../platform/notifications.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import type { RunAnnounced } from '../../announced-work.ts'
import type { Attempt, Failure, Send } from './send-notification.ts'

const ROUND_MS = 1000
/** Targets that are drained at a time. Those that work go first. */
const MAX_DRAINED = 500
const [FIRST_PAUSE_MS, LONGEST_PAUSE_MS, GIVE_UP_MS] = [1000, 300_000, 86_400_000]

export interface DeliveryDeps {
  sql: Sql
  connection: NatsConnection
  hasRoom: HasLetterRoom
  send: Send
  /** Whether this process is the one that delivers; null: unknown. */
  leads: () => boolean | null
  /** Epoch milliseconds. */
  now: () => number
  /** Default: reads the queues every time. */
  run?: RunAnnounced
  roundMs?: number
  metrics: Metrics
  logger: Logger
}

/** The first notification of a queue, with its target. */
interface Head extends Attempt {
  target: number
  project: number
  failingSince: Date | null
}

export function startDeliveries (deps: DeliveryDeps): IntervalLoop {
  const { sql, leads, now, metrics, logger, run = runAtIntervals, roundMs = ROUND_MS } = deps
  const outcomes = metrics.counter('notifications_total', 'Attempts to deliver a notification, by outcome.', { outcome: ['delivered', 'failed', 'dead_lettered'] })
  const counts = { failing: 0, waiting: 0 }
  metrics.gaugeFrom('targets_failing', 'Enabled targets whose last delivery failed; 0 in a process that does not deliver.', () => counts.failing)
  metrics.gaugeFrom('notifications_waiting', 'Notifications queued for enabled targets; 0 in a process that does not deliver.', () => counts.waiting)
  const drained = new Map<number, Promise<void>>()

  async function drain (head: Head | undefined, signal: AbortSignal): Promise<void> {
    while (head !== undefined && !signal.aborted && leads() === true) {
      const failure = await deps.send(head)
      // Ended by the stop of this process, which says nothing about the target.
      if (failure !== null && signal.aborted) return
      outcomes.inc({ outcome: failure === null ? 'delivered' : 'failed' })
      const isGivenUp = failure !== null && head.type !== 'test' && await giveUp(deps, head, failure)
      if (isGivenUp) outcomes.inc({ outcome: 'dead_lettered' })
      // A test is tried once.
      await record(deps, head, { failure, isDone: failure === null || isGivenUp || head.type === 'test' })
      const [next] = await readHeads(sql, now(), { only: head.target, limit: 1 })
      head = next
    }
  }

  return run({
    everyMs: roundMs,
    logger,
    failure: 'notifications cannot be read and wait',
    stopWithinMs: 2000,
    async run (signal) {
      if (leads() !== true) {
        Object.assign(counts, { failing: 0, waiting: 0 })
        return true
      }
      const heads = await readHeads(sql, now(), { except: [...drained.keys()], limit: MAX_DRAINED - drained.size })
      for (const head of heads) {
        drained.set(head.target, drain(head, signal)
          .catch((err: unknown) => { logger.warn({ err, target: head.target }, 'a delivery could not be recorded and will be repeated') })
          .finally(() => { drained.delete(head.target) }))
      }
      Object.assign(counts, await count(sql))
      return drained.size > 0 || counts.waiting > 0
    }
  })
}

/** The heads that are due, and whose targets are enabled. */
async function readHeads (
  sql: Sql, now: number, { only = null, except = [], limit }: { only?: number | null, except?: number[], limit: number }
): Promise<Head[]> {
  return await sql<Head[]>`
    SELECT t.id AS target, t.project_id AS project, t.kind, t.url, t.secret, t.failing_since AS "failingSince",
      n.id, n.sequence::text, n.attempts + 1 AS attempt, n.type, n.data, n.text, n.created_at AS "createdAt"
    FROM targets AS t CROSS JOIN LATERAL (SELECT * FROM notifications WHERE target_id = t.id ORDER BY sequence LIMIT 1) AS n
    WHERE t.enabled AND n.next_attempt_at <= ${new Date(now)} AND t.id <> ALL (${except}::integer[])
      AND (${only}::integer IS NULL OR t.id = ${only}::integer)
    ORDER BY t.failing_since NULLS FIRST LIMIT ${limit}`
}

/** The pause after a number of failed attempts, in milliseconds; its upper half is random. */
export function pauseMs (attempts: number, random = Math.random): number {
  return Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(attempts - 1, 20)) * (0.5 + random() / 2)
}

/** After a day it becomes a dead letter. @returns whether it did. */
async function giveUp (
  { connection, hasRoom, now, logger }: DeliveryDeps, head: Head, { error }: NonNullable<Failure>
): Promise<boolean> {
  const { target, project, id, type, data, text, sequence } = head
  const isOld = (since: Date | null): boolean => since !== null && now() - since.getTime() >= GIVE_UP_MS
  if (!isOld(head.failingSince) || !isOld(head.createdAt)) return false
  const letter: Record<keyof NotificationLetter, unknown> = { target_id: target, id, type, data, text }
  const body = Buffer.from(JSON.stringify(letter))
  if (!await hasRoom(project, body.length)) {
    logger.warn({ target, project }, 'could not deliver a notification for a day, and the project has no room for dead letters; it stays queued')
    return false
  }
  await publishDeadLetter(connection, {
    stage: 'notify', reason: 'undelivered', error, subject: `notify.${target}`, project, headers: {}, body,
    id: `notify:${id}:${sequence}`
  })
  return true
}

async function record (
  { sql, now }: DeliveryDeps, { target, sequence, attempt }: Head,
  { failure, isDone }: { failure: Failure, isDone: boolean }
): Promise<void> {
  const at = new Date(now())
  const nextAt = new Date(now() + Math.max(failure?.retryAfterMs ?? 0, pauseMs(attempt)))
  await sql.begin(async (transaction) => {
    if (isDone) await transaction`DELETE FROM notifications WHERE target_id = ${target} AND sequence = ${sequence}`
    else await transaction`UPDATE notifications SET attempts = ${attempt}, next_attempt_at = ${nextAt} WHERE target_id = ${target} AND sequence = ${sequence}`
    if (failure === null) await transaction`UPDATE targets SET last_delivered_at = ${at}, failing_since = NULL, last_error = NULL WHERE id = ${target}`
    else await transaction`UPDATE targets SET failing_since = coalesce(failing_since, ${at}), last_error = ${failure.error} WHERE id = ${target}`
  })
}

/** A target that is disabled does not fail: a day counts from when it is enabled again. */
async function count (sql: Sql): Promise<{ failing: number, waiting: number }> {
  await sql`UPDATE targets SET failing_since = NULL WHERE NOT enabled AND failing_since IS NOT NULL`
  const [counted] = await sql<[{ failing: number, waiting: number }]>`
    SELECT count(*) FILTER (WHERE failing_since IS NOT NULL)::integer AS failing,
      (SELECT count(*)::integer FROM notifications JOIN targets ON targets.id = target_id WHERE enabled) AS waiting
    FROM targets WHERE enabled`
  return counted
}
