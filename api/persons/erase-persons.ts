/** Erases everything of distinct ids, with or without a person, or events by a filter; the record names nobody. */
import { randomBytes } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { parseStoredJson } from '../../engines/body/parse-json.ts'
import { fieldsOf, isFields } from '../../engines/fields.ts'
import { chunksOf, type ClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { scanDeadLetters } from '../../platform/dead-letters/read-dead-letters.ts'
import { decodeContent } from '../../schema/wire/dead-letter-message.ts'
import { purgeDeadLetters } from '../../platform/dead-letters/replay-and-purge.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import type { Sql, TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { lockPersons } from '../../platform/postgres/lock-persons.ts'
import { type ErasableEvent, erasedConditions, type ErasedEvents, type ErasureRow, hashErased, matchesErased } from '../../schema/wire/erased-ids.ts'
import { personUuid } from '../../schema/wire/identity.ts'
import { askStream, type NatsOnDemand } from '../events/dead-letters/nats-on-demand.ts'
import { describeClickHouseError } from '../http/describe-clickhouse-error.ts'
import { anonymisePersons } from './anonymise-persons.ts'
import { type ErasedPersons, removePersons } from './delete-person.ts'

export interface Found { where: string, count: number }

/** What is asked for: everything of distinct ids, or the events of a filter. */
export interface Erasure {
  ids: readonly string[]
  filter?: ErasedEvents | null | undefined
  /** Present: the persons are anonymised, without the properties of these names. */
  removed?: readonly string[] | null | undefined
  /** The record of an erasure that a restored backup does not have. */
  again?: ErasureRow
}

/** How often it is counted at most; persons who keep getting ids must not prevent their erasure. */
const COUNTS = 3

export async function findErased (
  sql: Sql | TransactionSql, projectId: number, asked: readonly string[]
): Promise<ErasedPersons> {
  const persons = await sql<{ id: number, uuid: string }[]>`
    SELECT id, uuid FROM persons WHERE id IN (
      SELECT person_id FROM person_distinct_ids WHERE project_id = ${projectId} AND distinct_id = ANY (${[...asked]})) ORDER BY id`
  const known = await sql<{ id: string }[]>`
    SELECT distinct_id AS id FROM person_distinct_ids WHERE person_id = ANY (${persons.map(({ id }) => id)}::bigint[]) ORDER BY id`
  const ids = [...new Set([...asked, ...known.map(({ id }) => id)])]
  const uuids = [...new Set([...persons.map(({ uuid }) => uuid), ...ids.map((id) => personUuid(projectId, id))])]
  return { projectId, ids, persons, uuids }
}

/** Counts what changes under the persons lock. */
async function countKnown (
  sql: Sql | TransactionSql, { projectId, ids, persons, uuids }: ErasedPersons
): Promise<Found[]> {
  const rowIds = persons.map(({ id }) => id)
  const [counts] = await sql<[Record<string, number>]>`
    SELECT ${persons.length}::int AS persons,
      (SELECT count(*)::int FROM person_distinct_ids WHERE person_id = ANY (${rowIds}::bigint[])) AS distinct_ids,
      (SELECT count(*)::int FROM cohort_members WHERE person_id = ANY (${rowIds}::bigint[]))
        + (SELECT count(*)::int FROM cohort_people WHERE cohort_id IN (SELECT id FROM cohorts WHERE project_id = ${projectId})
          AND person = ANY (${uuids}::uuid[])) AS cohort_memberships,
      (SELECT count(*)::int FROM flag_hash_keys WHERE project_id = ${projectId} AND distinct_id = ANY (${ids})) AS flag_hash_keys,
      (SELECT count(*)::int FROM person_repairs WHERE project_id = ${projectId} AND distinct_ids && ${ids}) AS person_repairs,
      (SELECT count(*)::int FROM groups WHERE project_id = ${projectId} AND group_key = ANY (${ids})) AS groups`
  return toFound(counts)
}

/** Counts what the pipeline will delete: in ClickHouse, and in the queue of notifications. Takes long. */
async function countLater (
  { sql, clickhouse }: { sql: Sql, clickhouse: ClickHouse },
  { projectId, ids, uuids }: ErasedPersons, filter?: ErasedEvents | null
): Promise<Found[]> {
  let events = 0
  for (const { where, params } of erasedConditions(filter ?? { salt: '', persons: uuids }, projectId)) {
    const [row] = await queryRows<{ count: string }>(clickhouse, `SELECT count() AS count FROM events WHERE ${where} SETTINGS final = 1`, params)
    events += Number(row?.count)
  }
  if (filter != null) return toFound({ events })
  const later = { events, warning_samples: 0, notifications: await countQueued(sql, projectId, ids) }
  for (const some of chunksOf(ids)) {
    const [row] = await queryRows<{ count: string }>(clickhouse, `
      SELECT count() AS count FROM ingestion_warnings_by_source WHERE project_id = {project: UInt32}
        AND (hasAny(samples.distinct_id, {some: Array(String)}) OR hasAny(samples.value, {some: Array(String)}))`, { project: projectId, some })
    later.warning_samples += Number(row?.count)
  }
  return toFound(later)
}

/**
 * The distinct id of an event that waits to be sent, which comes before its properties, or of each sample; and within
 * which characters it stands. Each is looked at once, for any number of ids.
 */
const NAMED = '"distinct_id":("(?:[^"\\\\]|\\\\.)*")'
const NAMED_WITHIN = 20_000

/** The number of notifications that name a distinct id as that of an event. */
export async function countQueued (sql: Sql, projectId: number, ids: readonly string[]): Promise<number> {
  const [row] = await sql<[{ count: number }]>`
    SELECT count(*)::int AS count FROM notifications JOIN targets AS t ON t.id = target_id WHERE t.project_id = ${projectId} AND type IN ('event', 'events')
      AND EXISTS (SELECT FROM regexp_matches(left(data, ${NAMED_WITHIN}), ${NAMED}, CASE type WHEN 'events' THEN 'g' ELSE '' END) AS named
        WHERE named[1] = ANY (${ids.map((id) => JSON.stringify(id))}::text[]))`
  return row.count
}

function toFound (counts: Readonly<Record<string, number>>): Found[] {
  return Object.entries(counts).map(([where, count]) => ({ where, count }))
}

interface RecordedErasure { id: number, deletion: number, ids: string[], found: Found[] }

/**
 * Counts what an erasure concerns, and erases it unless this is a dry run. The persons lock is not held while
 * ClickHouse counts, so it counts again when the persons have other ids by then. Dead letters come first: later, nobody
 * could find the other ids of a person. Without NATS nothing is erased, and the same request can be repeated.
 *
 * @returns also the dead letters that have events of others; null when the project does not exist.
 */
export async function erasePersons (
  { sql, clickhouse, nats }: { sql: Sql, clickhouse: ClickHouse, nats: NatsOnDemand },
  projectId: number, erasure: Erasure, dryRun: boolean
): Promise<{ id?: number, deletion?: number, ids: string[], found: Found[], shared: number[] } | null> {
  let erased = await findErased(sql, projectId, erasure.ids)
  for (let attempt = 1, letters = 0; ; attempt++) {
    const before = erased
    const later = await countLater({ sql, clickhouse }, before, erasure.filter)
      .catch((error: unknown) => { throw describeClickHouseError(error, 'which has the events') })
    const { count, shared } = await askStream(nats, { count: 0, shared: [] }, async (connection) =>
      await eraseLetters(connection, projectId, { ...erasure, ids: before.ids }, dryRun))
    letters += count
    const countAll = async (erased: ErasedPersons, sql: Sql | TransactionSql): Promise<Found[]> =>
      [...later, ...erasure.filter == null ? await countKnown(sql, erased) : [], { where: 'dead_letters', count: letters }]
    if (dryRun) return { ids: before.ids, found: await countAll(before, sql), shared }
    const record = await recordErasure(sql, projectId, erasure, async (now, transaction) => {
      erased = now
      return attempt === COUNTS || isDeepStrictEqual(now, before) ? await countAll(now, transaction) : null
    })
    if (record !== null || erased === before) return record && { ...record, shared }
  }
}

/**
 * Deletes them in Postgres and records the erasure; the pipeline deletes the rest. What was on its way is left out by
 * the record.
 *
 * @param count  What the record has as found; under the lock, as another erasure may have come before. With null
 *   nothing is erased.
 * @returns the record, with all distinct ids that it concerns; null when nothing is erased, or the project is gone.
 */
export async function recordErasure (
  sql: Sql, projectId: number, { ids: asked, filter = null, removed = null, again }: Erasure,
  count: (erased: ErasedPersons, transaction: TransactionSql) => Promise<Found[] | null> = async () => []
): Promise<RecordedErasure | null> {
  return await sql.begin(async (transaction) => {
    const version = (await lockPersons(transaction, [projectId])).get(projectId)
    if (version === undefined) return null
    const erased = await findErased(transaction, projectId, asked)
    const { ids, uuids } = erased
    const found = await count(erased, transaction)
    if (found === null) return null
    if (removed === null) {
      await removePersons(transaction, erased, version)
      await transaction`DELETE FROM groups WHERE project_id = ${projectId} AND group_key = ANY (${ids})`
    }
    const by = removed && await anonymisePersons(transaction, erased, { sql, version, removed })
    const requestedAt = again?.requested_at ?? null
    const [{ salt }] = await transaction<[{ salt: string }]>`
      SELECT coalesce((SELECT salt FROM erasures LIMIT 1), ${again?.salt ?? randomBytes(16).toString('hex')}) AS salt`
    const matching = filter && sql.json({ ...filter })
    const [deletion] = await transaction<[{ id: number }]>`
      INSERT INTO person_deletions (project_id, person_uuid, person_uuids, with_events, is_erasure, requested_at, version, outbox_id, filter, anonymised)
      VALUES (${projectId}, ${uuids[0] ?? personUuid(projectId, '')}, ${uuids}::uuid[], true, true, coalesce(${requestedAt}, now()), ${version},
        (SELECT coalesce(max(id), 0) FROM persons_outbox), ${matching}::jsonb, ${by && sql.json({ ...by, removed: [...by.removed] })}::jsonb)
      RETURNING id`
    const hashes = [...new Set([...again?.hashes ?? [], ...ids.map((id) => hashErased(salt, projectId, id))])]
    const [erasure] = await transaction<[{ id: number }]>`
      INSERT INTO erasures (project_id, salt, hashes, requested_at, deletion_id, found, filter, removed_properties)
      VALUES (${projectId}, ${salt}, ${hashes}, coalesce(${requestedAt}, now()), ${deletion.id},
        ${sql.json(found)}::jsonb, ${matching}::jsonb, ${removed && [...removed]}::text[]) RETURNING id`
    await transaction`
      UPDATE persons_projects SET erased_at = greatest(erased_at, coalesce(${requestedAt}, now())) WHERE project_id = ${projectId}`
    return { id: erasure.id, deletion: deletion.id, ids, found }
  })
}

/**
 * Removes the dead letters that have nothing of anybody else.
 *
 * @returns how many there were, and the ids of those that also have events of others.
 */
export async function eraseLetters (
  connection: NatsConnection, projectId: number, { ids, filter }: Erasure, dryRun: boolean
): Promise<{ count: number, shared: number[] }> {
  const texts = ids.map((id) => JSON.stringify(id))
  const isOwn = (item: unknown): boolean => isFields(item) && (filter == null
    ? ids.includes(String(item.distinct_id ?? item.distinctId))
    : item.event !== undefined && matchesErased(filter, projectId, toErasable(item)))
  const own: number[] = []
  const shared: number[] = []
  for await (const { letter, body } of scanDeadLetters(connection, { project: projectId, withBodies: true })) {
    const content = await decodeContent(body, letter.rows)
    // The data of a notification is JSON within a text.
    const data = isFields(content) && typeof content.data === 'string' ? content.data : ''
    const text = content === null ? Buffer.from(body).toString('latin1') : JSON.stringify(content) + data
    const items = Array.isArray(content) ? content : [content]
    const named = content === null ? ids : texts
    const isConcerned = filter == null ? named.some((each) => text.includes(each)) : items.some(isOwn)
    if (!isConcerned) continue
    const list = Array.isArray(content) && !content.every(isOwn) ? shared : own
    list.push(letter.id)
  }
  if (!dryRun) for (const id of own) await purgeDeadLetters(connection, { id })
  return { count: own.length, shared }
}

/** An event of a letter, as its columns. */
function toErasable (item: Readonly<Record<string, unknown>>): ErasableEvent {
  return {
    event: String(item.event), distinctId: String(item.distinct_id), timestamp: Date.parse(String(item.timestamp)),
    properties: fieldsOf(typeof item.properties === 'string' ? parseStoredJson(item.properties) : item.properties),
    groups: Object.entries(fieldsOf(item.groups)).flat().map(String)
  }
}
