/** Carries out requested repairs of persons: merges that are undone, persons that are split (`replay-persons.ts`). */
import { parseStoredJson } from '../../engines/body/parse-json.ts'
import { fieldsOf } from '../../engines/fields.ts'
import { MillraceError } from '../../engines/errors.ts'
import { chunksOf, type ClickHouse, queryRows, readCompleteThrough } from '../../platform/clickhouse/connect-clickhouse.ts'
import { type IntervalLoop, pause, retryDelayMs, runAtIntervals } from '../../platform/intervals.ts'
import type { Logger } from '../../platform/logger.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { manageJetStream } from '../../platform/nats/prepare-jetstream.ts'
import { lockPersons } from '../../platform/postgres/lock-persons.ts'
import { personUuid } from '../../schema/wire/identity.ts'
import type { Sql, SqlTemplates } from '../../platform/postgres/connect-postgres.ts'
import { derivePersonUpdate } from '../../schema/wire/derive-person-update.ts'
import { PERSONS_PARTITIONS, PERSONS_STREAM, personsSubject } from '../../schema/wire/streams.ts'
import type { RunAnnounced } from '../announced-work.ts'
import { isIllegalDistinctId } from './merge-persons.ts'
import { copiesHaveLeft } from './persons-outbox.ts'
import { LATE_MS } from './property-times.ts'
import { type Repair, RepairRefused, type ReplayedUpdate, replayPersons } from './replay-persons.ts'
import { type StoredWhole, writeRepaired } from './write-repaired.ts'

interface RepairDeps {
  sql: Sql
  clickhouse: ClickHouse
  connection: NatsConnection
  /** Default: looks every time. */
  run?: RunAnnounced
  logger: Logger
  /** Called after a repair, which wrote copies to the outbox. */
  onCopies: () => void
}

interface Request {
  id: number
  project: number
  person: string
  kind: Repair['kind']
  event: string | null
  parts: string[][] | null
  ids: string[]
  /** Epoch milliseconds. */
  requestedAt: number
  doneAt: number | null
}

/** Interval of looking at open requests, in milliseconds: somebody waits for the answer. */
const POLL_INTERVAL_MS = 1000

/** Maximum wait, with persons of the project locked, until ClickHouse has the events of all applied updates. */
const MAX_LAG_MS = 10_000

/** The lock is taken only when ClickHouse lags less. */
const MAX_LAG_BEFORE_MS = 5000

/** Maximum time of a query: one that takes longer fails before the lock. */
const MAX_QUERY_S = 10

/** Maximum distinct ids that merges relate, and updates of these: they are computed in memory. */
const MAX_IDS = 1000
const MAX_UPDATES = 200_000

const MERGES = "event IN ('$identify', '$create_alias', '$merge_dangerously')"
const OTHER_ID = "JSONExtractString(properties, if(event = '$identify', '$anon_distinct_id', 'alias'))"

/** State of an open request. */
interface Attempt {
  /** The last update of its partition when the request was first seen. */
  sequence: number | null
  failures: number
  /** Epoch milliseconds. */
  notBefore: number
}

/** Carries out open repairs until stopped, in the order of their requests; one that fails rests, the others go on. */
export function startRepairs (deps: RepairDeps, pollIntervalMs = POLL_INTERVAL_MS): IntervalLoop {
  const { sql, run = runAtIntervals, logger } = deps
  const attempts = new Map<number, Attempt>()
  return run({
    everyMs: pollIntervalMs,
    async run (signal) {
      const resting = [...attempts].flatMap(([id, { notBefore }]) => notBefore > Date.now() ? [id] : [])
      const open = await sql<Request[]>`
        SELECT ${columns(sql)} FROM person_repairs WHERE done_at IS NULL AND error IS NULL AND id <> ALL (${resting}::bigint[]) ORDER BY id LIMIT 20`
      for (const request of open) {
        if (signal.aborted) break
        const attempt = attempts.get(request.id) ?? { sequence: null, failures: 0, notBefore: 0 }
        attempts.set(request.id, attempt)
        try {
          if (await repair(request, attempt, deps, signal)) attempts.delete(request.id)
        } catch (err) {
          if (signal.aborted) break
          attempt.notBefore = Date.now() + 10 * retryDelayMs(attempt.failures++)
          logger.warn({ err, repair: request.id, failures: attempt.failures }, 'could not repair a person; retrying')
        }
      }
      return open.length > 0 || resting.length > 0
    },
    logger,
    failure: 'could not read repairs of persons; retrying',
    stopWithinMs: MAX_LAG_MS
  })
}

function columns (sql: SqlTemplates) {
  return sql`id, project_id AS project, person_uuid AS person, kind, event_uuid AS event, parts, distinct_ids AS ids,
    (extract(epoch FROM requested_at) * 1000)::float8 AS "requestedAt", (extract(epoch FROM done_at) * 1000)::float8 AS "doneAt"`
}

/** @returns whether the request needs nothing more. */
async function repair (seen: Request, attempt: Attempt, deps: RepairDeps, signal: AbortSignal): Promise<boolean> {
  const { sql, clickhouse, logger, onCopies } = deps
  const { id, project } = seen
  // Before the lock, as an ingest process or the pipeline may be behind for long.
  if (!await isComplete(clickhouse, Math.max(seen.requestedAt, Date.now() - MAX_LAG_BEFORE_MS))) return false
  if (!await isApplied(project, attempt, deps) || await isAnonymising(sql, project)) return false
  try {
    await readRelated(sql, clickhouse, seen)
    const left = await sql.begin(async (transaction) => {
      await transaction`SELECT set_config('idle_in_transaction_session_timeout', '60s', true)`
      const version = (await lockPersons(transaction, [project])).get(project)
      // Under the lock: it may be done, an erasure deletes it, and anonymising renames its ids.
      const [request] = await transaction<Request[]>`SELECT ${columns(transaction)} FROM person_repairs WHERE id = ${id} AND done_at IS NULL`
      if (request === undefined || version === undefined || await isAnonymising(transaction, project)) return null
      const at = version / 1000
      for (const deadline = Date.now() + MAX_LAG_MS; !await isComplete(clickhouse, at); await pause(100, signal)) {
        if (Date.now() > deadline || signal.aborted) throw new MillraceError('MILLRACE_REPAIR_WAITS', 'accepted events are not all stored yet', { action: 'retry' })
      }
      const { stored, updates } = await readRelated(transaction, clickhouse, request)
      if (request.kind === 'split') refuseParted(request, stored)
      const ids = stored.flatMap(({ distinctIds }) => distinctIds)
      const earlier = await transaction<Request[]>`
        SELECT ${columns(transaction)} FROM person_repairs WHERE project_id = ${project} AND done_at IS NOT NULL AND distinct_ids && ${ids} ORDER BY done_at, id`
      const done = earlier.map((each) => toRepair(each, each.doneAt ?? 0))
      const after = replayPersons(updates, stored, done, toRepair(request, at))
      await writeRepaired(transaction, { project, version, stored, after })
      const named = [...request.ids, ...stored.find(({ uuid }) => uuid === request.person)?.distinctIds ?? []]
      const concerned = after.filter(({ distinctIds }) => distinctIds.some((each) => named.includes(each)))
      await transaction`UPDATE persons_projects SET undone_at = now() WHERE project_id = ${project}`
      await transaction`
        UPDATE person_repairs SET done_at = to_timestamp(${at / 1000}), person_uuids = ${concerned.map(({ uuid }) => uuid)}::uuid[] WHERE id = ${id}`
      return concerned.length
    })
    if (left !== null) logger.info({ repair: id, kind: seen.kind, persons: left }, 'repaired a person')
    // Cohorts are due at once: nobody can say which of its cohorts a part of a person is in.
    const [{ last }] = await sql<[{ last: number }]>`SELECT coalesce(max(id), 0) AS last FROM persons_outbox`
    const deadline = performance.now() + MAX_LAG_MS
    await copiesHaveLeft({ sql, clickhouse }, last, () => signal.aborted || performance.now() > deadline)
    await sql`
      WITH due AS (UPDATE cohort_refreshes SET tried_at = '-infinity' WHERE cohort_id IN (SELECT id FROM cohorts WHERE project_id = ${project}) RETURNING 1)
      SELECT pg_notify('millrace_work', '') FROM due LIMIT 1`
    onCopies()
  } catch (error) {
    if (!(error instanceof RepairRefused)) throw error
    await sql`UPDATE person_repairs SET error = ${error.message} WHERE id = ${id}`
  }
  return true
}

/** Another repair may have parted the ids since the request. @throws {RepairRefused} */
function refuseParted ({ person, parts }: Request, stored: readonly StoredWhole[]): void {
  const ids = (parts ?? []).flat()
  const whole = stored.find(({ uuid }) => uuid === person) ?? stored.find(({ distinctIds }) => distinctIds.includes(ids[0] ?? ''))
  const isOwn = ids.every((id) => whole?.distinctIds.includes(id))
  if (!isOwn || parts?.some((part) => part.length === whole?.distinctIds.length)) throw new RepairRefused('another repair has split these distinct ids off')
}

function toRepair ({ kind, event, parts }: Request, at: number): Repair {
  return kind === 'undo' ? { kind, uuid: event ?? '' } : { kind, parts: parts ?? [], at }
}

async function isComplete (clickhouse: ClickHouse, at: number): Promise<boolean> {
  const through = await readCompleteThrough(clickhouse)
  return through !== null && through.getTime() >= at
}

/**
 * Whether the updates are applied of all events that were stored at the request: a merge that is undone before it is
 * applied would come back.
 */
async function isApplied (project: number, attempt: Attempt, { sql, connection }: RepairDeps): Promise<boolean> {
  const partition = project % PERSONS_PARTITIONS
  if (attempt.sequence === null) {
    const { streams } = await manageJetStream(connection)
    attempt.sequence = (await streams.getMessage(PERSONS_STREAM, { last_by_subj: personsSubject(partition) }))?.seq ?? 0
  }
  const [progress] = await sql<{ last: number }[]>`
    SELECT last_sequence AS last FROM persons_progress WHERE partition = ${partition}`
  return (progress?.last ?? 0) >= attempt.sequence
}

/** Whether stored events have former ids of somebody: what these set would be missing. */
async function isAnonymising (sql: SqlTemplates, project: number): Promise<boolean> {
  return (await sql`SELECT 1 FROM person_deletions WHERE swept_at IS NULL AND anonymised IS NOT NULL AND project_id = ${project}`).length > 0
}

/** The person of a request, all that merges, also refused and undone ones, relate to it, and their updates. */
async function readRelated (
  sql: SqlTemplates, clickhouse: ClickHouse, request: Request
): Promise<{ stored: StoredWhole[], updates: ReplayedUpdate[] }> {
  const stored = await readPersons(sql, clickhouse, request)
  const ids = stored.flatMap(({ distinctIds }) => distinctIds)
  return { stored, updates: await readUpdates(sql, clickhouse, request.project, ids) }
}

async function readPersons (
  sql: SqlTemplates, clickhouse: ClickHouse, { project, person, ids: named }: Request
): Promise<StoredWhole[]> {
  const own = await readStored(sql, project, [], person)
  const legal = named.filter((id) => !isIllegalDistinctId(id))
  let ids = [...new Set([...legal, ...own.flatMap(({ distinctIds }) => distinctIds)])]
  for (;;) {
    const related = new Set(ids)
    for (const some of chunksOf(ids.filter((id) => !isIllegalDistinctId(id)))) {
      const links = await queryRows<{ id: string, other: string }>(clickhouse, `
        SELECT DISTINCT distinct_id AS id, substringUTF8(${OTHER_ID}, 1, 200) AS other FROM events
        WHERE project_id = {project: UInt32} AND NOT without_person AND ${MERGES} AND (distinct_id IN {some: Array(String)} OR other IN {some: Array(String)})
          AND other NOT IN ('', distinct_id)
        SETTINGS final = 0, max_execution_time = ${MAX_QUERY_S}`, { project, some })
      // A merge with such an id never did anything.
      for (const { id, other } of links) if (![id, other].some(isIllegalDistinctId)) related.add(id).add(other)
      if (related.size > MAX_IDS) throw new RepairRefused(`merges relate the person to more than ${MAX_IDS} distinct ids`)
    }
    const stored = await readStored(sql, project, [...related])
    for (const { distinctIds } of stored) for (const id of distinctIds) related.add(id)
    if (related.size === ids.length) return stored
    ids = [...related]
    if (ids.length > MAX_IDS) throw new RepairRefused(`merges relate the person to more than ${MAX_IDS} distinct ids`)
  }
}

/** Persons of distinct ids, or of a uuid, with all their ids. */
async function readStored (
  sql: SqlTemplates, project: number, ids: readonly string[], uuid: string | null = null
): Promise<StoredWhole[]> {
  const rows = await sql<(Omit<StoredWhole, 'projectId' | 'properties' | 'times' | 'createdAt'> & {
    createdAt: Date, properties: string, times: Record<string, number> | null
  })[]>`
    SELECT id, uuid, is_identified AS "isIdentified", created_at AS "createdAt", properties::text AS properties, property_times AS times,
      ARRAY(SELECT distinct_id FROM person_distinct_ids WHERE person_id = persons.id ORDER BY distinct_id) AS "distinctIds"
    FROM persons WHERE project_id = ${project} AND (uuid = ${uuid} OR id IN (
      SELECT person_id FROM person_distinct_ids WHERE project_id = ${project} AND distinct_id = ANY (${[...ids]})))`
  return rows.map(({ properties, times, createdAt, ...row }) => ({
    ...row, projectId: project, createdAt: createdAt.getTime(),
    properties: { ...fieldsOf(parseStoredJson(properties)) },
    ...times !== null && { times: new Map(Object.entries(times)) }
  }))
}

interface StoredEvent {
  uuid: string
  event: string
  distinctId: string
  person: string
  timestamp: number
  receivedAt: number
  properties: string
}

/**
 * What the stored events of distinct ids changed about persons since the last deletion of each, in order of receipt.
 */
async function readUpdates (
  sql: SqlTemplates, clickhouse: ClickHouse, project: number, ids: readonly string[]
): Promise<ReplayedUpdate[]> {
  const events: StoredEvent[] = []
  for (const some of chunksOf(ids)) {
    const read = await queryRows<StoredEvent>(clickhouse, `
      SELECT toString(uuid) AS uuid, event, distinct_id AS distinctId, toString(person_id) AS person,
        toFloat64(toUnixTimestamp64Milli(timestamp)) AS timestamp, toFloat64(toUnixTimestamp64Milli(received_at)) AS receivedAt, properties
      FROM events AS stored WHERE project_id = {project: UInt32} AND NOT without_person AND distinct_id IN {some: Array(String)}
        AND (${MERGES} OR position(properties, '"$set') > 0 OR position(properties, '"$unset"') > 0)
      ORDER BY stored.received_at, stored.timestamp, stored.uuid LIMIT ${MAX_UPDATES + 1}
      SETTINGS final = 1, max_execution_time = ${MAX_QUERY_S}`, { project, some })
    for (const event of read) events.push(event)
    if (events.length > MAX_UPDATES) throw new RepairRefused(`more than ${MAX_UPDATES} events changed the person and those that merges relate to it`)
  }
  events.sort((one, other) => one.receivedAt - other.receivedAt || one.timestamp - other.timestamp)
  const deletions = await sql<{ person: string, at: Date }[]>`
    SELECT person, max(requested_at) AS at FROM person_deletions, unnest(person_uuids) AS person
    WHERE project_id = ${project} AND person_uuids && ${ids.map((id) => personUuid(project, id))}::uuid[] GROUP BY person`
  const deletedAt = new Map(deletions.map(({ person, at }) => [person, at.getTime()]))
  return events.flatMap(({ properties, person, receivedAt, ...event }) => {
    if (receivedAt <= (deletedAt.get(person) ?? 0)) return []
    const update = derivePersonUpdate({ ...event, projectId: project }, { ...fieldsOf(parseStoredJson(properties)) })
    // Nothing says which events an import brought: an event that was so late goes by its time.
    const byTime = event.timestamp < receivedAt - LATE_MS && { byTime: true }
    return update === null ? [] : [{ ...update, receivedAt, ...byTime }]
  })
}
