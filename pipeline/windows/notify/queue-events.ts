/**
 * Queues stored events for the targets that want them: those whose names a target has, and for Slack those whose
 * definition has `post_to_slack`. What is queued is read from ClickHouse up to the watermark, by time of receipt and
 * uuid, so no event is missed and none is read twice; the hot loop of events knows nothing of it.
 *
 * A target gets each event, or for each name at most one message a minute with their number and samples. While its
 * queue is full, or it is disabled, its events stay where they are, and are read later.
 */
import { type ClickHouse, queryRows, readCompleteThrough } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { type IntervalLoop, runAtIntervals } from '../../../platform/intervals.ts'
import type { Logger } from '../../../platform/logger.ts'
import { type NewNotification, queueNotifications } from '../../../platform/notifications.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { createSemaphore } from '../../../platform/semaphore.ts'
import type { RunAnnounced } from '../../announced-work.ts'
import { consoleUrl } from './write-message.ts'

const ROUND_MS = 2000
const COUNT_EVERY_MS = 60_000
/** Targets whose events are read at once. */
const MAX_READ = 4
/** Time of receipt that is read first, in milliseconds; then twice as much, until there are enough events. */
const FIRST_SPAN_MS = 600_000
/** Events that are read at once, and the longest properties that are sent, in bytes: 12 MB at most. */
const MAX_ROWS = 100
const MAX_PROPERTIES = 131_072
const SAMPLES = 3
const MAX_QUEUED = 1000
const MAX_QUEUED_BYTES = 16_777_216

export interface QueueEventsDeps {
  sql: Sql
  clickhouse: ClickHouse
  leads: () => boolean | null
  /** Base of links. */
  publicUrl: string
  /** Default: reads every time what targets want. */
  run?: RunAnnounced
  roundMs?: number
  logger: Logger
}

/** A name of events that a target wants, and up to which event they are queued. */
interface Chosen {
  target: number
  project: number
  eachEvent: boolean
  isFull: boolean
  event: string
  receivedAt: Date
  uuid: string
  countedAt: Date | null
}

export function startQueueingEvents (deps: QueueEventsDeps): IntervalLoop {
  const { sql, leads, logger, run = runAtIntervals, roundMs = ROUND_MS } = deps
  const places = createSemaphore({ limit: MAX_READ })
  const reading = new Set<number>()
  return run({
    everyMs: roundMs,
    logger,
    failure: 'events for targets cannot be read and wait',
    async run (signal) {
      if (leads() !== true) return true
      const busy = new Set(reading)
      const chosen = await readChosen(sql)
      const free = chosen.filter(({ isFull }) => !isFull)
      const through = free.length === 0 ? null : await readCompleteThrough(deps.clickhouse)
      if (through === null) return chosen.length > 0
      for (const [target, ofTarget] of Map.groupBy(free, ({ target }) => target)) {
        if (busy.has(target)) continue
        reading.add(target)
        void places.run(async () => { if (!signal.aborted) await queueFor(deps, ofTarget, through) })
          .catch((err: unknown) => {
            if (!signal.aborted) logger.warn({ err, target }, 'could not read events for a target; they stay queued')
          }).finally(() => { reading.delete(target) })
      }
      return true
    }
  })
}

/** What enabled targets want. A name that is new begins with the change that chose it; one that is left out ends. */
async function readChosen (sql: Sql): Promise<Chosen[]> {
  return await sql<Chosen[]>`
    WITH chosen AS (
      SELECT id, jsonb_array_elements_text(events) AS event, date_trunc('milliseconds', updated_at) AS since FROM targets
      WHERE enabled AND kind <> 'mail'
      UNION
      SELECT t.id, d.name, date_trunc('milliseconds', greatest(t.updated_at, d.last_updated_at))
      FROM targets AS t JOIN event_definitions AS d ON d.project_id = t.project_id AND d.post_to_slack AND d.deleted_at IS NULL
      WHERE t.enabled AND t.kind = 'slack' AND NOT t.events ? d.name
    ), ended AS (
      DELETE FROM notified_events AS n USING targets AS t
      WHERE t.id = n.target_id AND t.enabled AND NOT EXISTS (SELECT 1 FROM chosen AS c WHERE c.id = n.target_id AND c.event = n.event)
    ), begun AS (
      INSERT INTO notified_events (target_id, event, received_at) SELECT id, event, since FROM chosen ON CONFLICT DO NOTHING
    )
    SELECT t.id AS target, t.project_id AS project, t.each_event AS "eachEvent", n.event, n.received_at AS "receivedAt", n.uuid, n.counted_at AS "countedAt",
      (SELECT count(*) >= ${MAX_QUEUED} OR coalesce(sum(pg_column_size(data)), 0) >= ${MAX_QUEUED_BYTES} FROM notifications WHERE target_id = t.id) AS "isFull"
    FROM targets AS t JOIN notified_events AS n ON n.target_id = t.id WHERE t.enabled AND t.kind <> 'mail' ORDER BY t.id`
}

async function queueFor (deps: QueueEventsDeps, chosen: readonly Chosen[], through: Date): Promise<void> {
  const isDue = ({ eachEvent, countedAt, receivedAt }: Chosen): boolean => through > receivedAt &&
    (eachEvent || countedAt === null || through.getTime() - countedAt.getTime() >= COUNT_EVERY_MS)
  const due = chosen.filter(isDue)
  const [first] = due
  if (first === undefined) return
  await (first.eachEvent ? queueEach : queueCounts)(deps, due, through)
}

/** Where rows of these names begin. `receivedAt` of one that was read to its end is the watermark of that time. */
const AFTER = `project_id = {project: UInt32} AND event IN {names: Array(String)}
  AND events.received_at >= fromUnixTimestamp64Milli({least: Int64}, 'UTC') AND events.received_at < fromUnixTimestamp64Milli({through: Int64}, 'UTC')
  AND (toUnixTimestamp64Milli(events.received_at), events.uuid) > (
    {times: Array(Int64)}[indexOf({names: Array(String)}, event)], {uuids: Array(UUID)}[indexOf({names: Array(String)}, event)])`

/** As ISO 8601. */
const TIME = "concat(replaceOne(toString(events.timestamp), ' ', 'T'), 'Z')"

const LIMITS = 'SETTINGS final = 0, max_threads = 1, max_execution_time = 30, max_memory_usage = 500000000'

function paramsOf (chosen: readonly Chosen[], through: Date) {
  const times = chosen.map(({ receivedAt }) => receivedAt.getTime())
  return {
    project: chosen[0]?.project, names: chosen.map(({ event }) => event), times, uuids: chosen.map(({ uuid }) => uuid),
    least: Math.min(...times), through: through.getTime()
  }
}

interface EventRow {
  event: string
  uuid: string
  distinctId: string
  timestamp: string
  receivedAt: number
  properties: string
  bytes: number
}

async function queueEach (deps: QueueEventsDeps, chosen: readonly Chosen[], through: Date): Promise<void> {
  const rows: EventRow[] = []
  const params = paramsOf(chosen, through)
  let { least } = params
  // Each time of receipt is read once: rows of days would be sorted anew for each hundred.
  for (let spanMs = FIRST_SPAN_MS; least < params.through && rows.length < MAX_ROWS; spanMs *= 2) {
    const to = Math.min(least + spanMs, params.through)
    const more = await queryRows<EventRow>(deps.clickhouse, `
      SELECT event, toString(events.uuid) AS uuid, distinct_id AS distinctId, ${TIME} AS timestamp,
        toFloat64(toUnixTimestamp64Milli(events.received_at)) AS receivedAt, toUInt32(length(events.properties)) AS bytes,
        if(length(events.properties) <= ${MAX_PROPERTIES}, events.properties, '') AS properties
      FROM events WHERE ${AFTER} ORDER BY events.received_at, events.uuid LIMIT 1 BY events.uuid LIMIT ${MAX_ROWS - rows.length} ${LIMITS}`,
    { ...params, least, through: to }).catch((error: unknown) => { if (rows.length === 0) throw error })
    // What was found before is queued; the rest is tried again from there.
    if (more === undefined) break
    rows.push(...more)
    least = to
  }
  const last = rows.length < MAX_ROWS ? undefined : rows.at(-1)
  await store(deps.sql, chosen, {
    receivedAt: new Date(last?.receivedAt ?? Math.min(least, params.through)),
    uuid: last?.uuid ?? NIL,
    notifications: rows.map((row) => describeEvent(chosen[0]?.project ?? 0, row))
  })
}

const NIL = '00000000-0000-0000-0000-000000000000'

/** The properties stay text, because parsed numbers would lose digits. */
function describeEvent (project: number, row: EventRow): NewNotification {
  const { event, uuid, distinctId, timestamp, receivedAt, properties, bytes } = row
  const fields = JSON.stringify({
    project_id: project, uuid, event, distinct_id: distinctId, timestamp,
    received_at: new Date(receivedAt).toISOString(), properties_bytes: bytes
  })
  return {
    type: 'event',
    data: `${fields.slice(0, -1)},"properties":${properties === '' ? 'null' : properties}}`,
    text: toLine(`${event}: ${distinctId} ${properties.slice(0, 500)}`)
  }
}

interface CountRow {
  event: string
  count: number
  samples: [distinctId: string, timestamp: string, properties: string][]
}

async function queueCounts (deps: QueueEventsDeps, chosen: readonly Chosen[], through: Date): Promise<void> {
  const { sql, clickhouse, publicUrl } = deps
  const rows = await queryRows<CountRow>(clickhouse, `
    SELECT event, toFloat64(count()) AS count,
      groupArray(${SAMPLES})((distinct_id, ${TIME}, if(length(properties) <= 300, properties, ''))) AS samples
    FROM events WHERE ${AFTER} GROUP BY event ${LIMITS}`, paramsOf(chosen, through))
  const to = through.toISOString()
  const notifications = rows.map(({ event, count, samples }): NewNotification => {
    const { project, receivedAt = through } = chosen.find((each) => each.event === event) ?? { project: 0 }
    const from = receivedAt.toISOString()
    const url = consoleUrl(publicUrl, project, `stored?event=${encodeURIComponent(event)}`)
    const shown = samples.map(([distinctId, timestamp, properties]) =>
      ({ distinct_id: distinctId, timestamp, properties: properties === '' ? null : properties }))
    const lines = shown.map((each) => toLine(`- ${each.distinct_id} ${each.properties ?? ''}`))
    return {
      type: 'events',
      data: JSON.stringify({ project_id: project, event, count, from, to, samples: shown, url }),
      text: [toLine(`${event}: ${count} received from ${from} to ${to}`), ...lines, url].join('\n')
    }
  })
  await store(sql, chosen, { receivedAt: through, uuid: NIL, notifications, counted: rows.map(({ event }) => event) })
}

/** Names and ids are what anybody sent. */
const toLine = (text: string): string => text.replaceAll(/\s+/g, ' ').trim()

interface Reached { receivedAt: Date, uuid: string, notifications: NewNotification[], counted?: string[] }

/** Together, so that what was queued is not read again; nothing when another process was faster. */
async function store (
  sql: Sql, chosen: readonly Chosen[], { receivedAt, uuid, notifications, counted = [] }: Reached
): Promise<void> {
  const [{ target } = { target: 0 }] = chosen
  const names = chosen.map(({ event }) => event)
  await sql.begin(async (transaction) => {
    const unchanged = await transaction`
      SELECT 1 FROM notified_events AS n
      JOIN unnest(${names}::text[], ${chosen.map((each) => each.receivedAt)}::timestamptz[], ${chosen.map((each) => each.uuid)}::uuid[]) AS was (event, received_at, uuid)
        USING (event, received_at, uuid)
      WHERE n.target_id = ${target} FOR UPDATE OF n`
    if (unchanged.length < chosen.length) return
    if (notifications.length > 0) await queueNotifications(transaction, target, notifications)
    await transaction`
      UPDATE notified_events SET received_at = ${receivedAt}, uuid = ${uuid}, counted_at = CASE WHEN event = ANY (${counted}::text[]) THEN ${receivedAt} ELSE counted_at END
      WHERE target_id = ${target} AND event = ANY (${names}::text[]) AND received_at <= ${receivedAt}`
  })
}
