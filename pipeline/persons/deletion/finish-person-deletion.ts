import { setTimeout as delay } from 'node:timers/promises'
import { onCluster, onEachReplica, onEachShard, PAST_USER_VIEWS, queryRows } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { fieldsOf, itemsOf } from '../../../engines/fields.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { WHOLE_TABLES } from '../../../schema/migrate/clickhouse-topology.ts'
import type { Anonymised } from '../../../schema/wire/anonymise.ts'
import { type ErasedEvents, inChunks } from '../../../schema/wire/erased-ids.ts'
import { personUuid } from '../../../schema/wire/identity.ts'
import { TRACES_TABLE } from '../../../schema/wire/event-traces.ts'
import { WARNINGS_TABLE } from '../../../schema/wire/ingestion-warnings.ts'
import {
  allOf, announceRemoval, beginRemoval, completeRemoval, conditionsOf, countRemaining, countRows, type EventRemoval,
  isRemovalOpen, type RemovalDeps, type RemovedEvents, startMutations, startRemoval
} from './event-removals.ts'
import { copyAnonymised } from './copy-anonymised.ts'
import { keepMemberships } from './keep-memberships.ts'
import { uncountEvents } from './uncount-events.ts'
import { copiesHaveLeft, removeRefusedCopies } from '../persons-outbox.ts'

/** A recorded deletion of a person: a row of `person_deletions`. */
export interface PersonDeletion {
  id: number
  projectId: number
  /** The person's uuid, and those computed from each of its distinct ids. */
  personUuids: string[]
  withEvents: boolean
  requestedAt: Date
  /** Copies of the person up to this version are deleted. */
  version: number
  /** Copies up to this id of the outbox must arrive in ClickHouse before the deletion. */
  outboxId: number
  doneAt: Date | null
  /** Also of groups with the name of a distinct id. */
  isErasure: boolean
  /** Only the events that match. */
  filter: ErasedEvents | null
  /** The events are stored again under other ids. */
  anonymised: Anonymised | null
}

export interface FinishDeletionDeps extends RemovalDeps {
  /** Maximum wait for ClickHouse, in milliseconds; it goes on deleting afterwards. */
  waitMs: number
}

/** Interval of polling ClickHouse and the outbox, in milliseconds. */
const POLL_INTERVAL_MS = 200

/** The columns of a `PersonDeletion`, for a query on `person_deletions`. */
export function selectDeletion (sql: Sql) {
  return sql`id, project_id AS "projectId", person_uuids AS "personUuids", with_events AS "withEvents",
    requested_at AS "requestedAt", version, outbox_id AS "outboxId", done_at AS "doneAt", is_erasure AS "isErasure",
    filter, anonymised`
}

/**
 * Deletes the rows of a deleted person from ClickHouse: its copies and, if requested, the events of all its distinct
 * ids received before the request.
 *
 * Safe to repeat, and to run in several processes at once.
 *
 * @returns whether it is done: a count found no row.
 * @throws when Postgres or ClickHouse is unavailable; the deletion stays recorded.
 */
export async function finishPersonDeletion (deletion: PersonDeletion, deps: FinishDeletionDeps): Promise<boolean> {
  const deadline = performance.now() + deps.waitMs
  const isLate = (): boolean => performance.now() > deadline
  if (!await copiesHaveLeft(deps, deletion.outboxId, isLate)) return false
  await removeRefusedCopies(deps.sql, { upTo: deletion.outboxId, isRemoved: (copy) => isCopyOf(deletion, copy) })
  await keepMemberships(deletion, deps)
  for (const work of listWork(deletion)) if (!await deleteRows(deletion, deps, work, isLate)) return false
  if (deletion.withEvents && !await removeEvents(deletion, deps, isLate)) return false
  // Last: as long as there were events, a refresh found the person in them.
  await keepMemberships(deletion, deps)
  if (!await deleteRows(deletion, deps, MEMBERSHIPS, isLate)) return false
  await deps.sql`
    DELETE FROM cohort_people WHERE cohort_id IN (SELECT id FROM cohorts WHERE project_id = ${deletion.projectId})
      AND person = ANY (${deletion.personUuids}::uuid[])`
  await deps.sql`UPDATE person_deletions SET done_at = coalesce(done_at, now()) WHERE id = ${deletion.id}`
  return true
}

/** Has ClickHouse rewrite the parts with such rows in the background. @returns whether none is left. */
async function deleteRows (
  deletion: PersonDeletion, deps: FinishDeletionDeps, { table, where, change = 'DELETE' }: Work, isLate: () => boolean
): Promise<boolean> {
  const { id, projectId: project, version, requestedAt } = deletion
  const requested = requestedAt.getTime()
  const conditions = inChunks(deletion.personUuids)
    .map((uuids) => ({ where, params: { project, version, requested, uuids } }))
  const count = async (): Promise<number> => await countRows(deps, onEachReplica, table, conditions)
  let left = await count()
  if (left > 0) {
    // Every node has these tables in full and shares one log of mutations, so one mutation reaches all of them.
    const nodes = WHOLE_TABLES.includes(table) ? '' : onCluster(deps.cluster ?? '')
    const statement = `ALTER TABLE ${table} ${nodes} ${change}`
    await startMutations(deps, { table, name: `deletion:${id}:${requested}:`, statement }, conditions)
  }
  for (; left > 0 && !isLate(); left = await count()) await delay(POLL_INTERVAL_MS)
  return left === 0
}

/** Whether a row of the outbox names the person: what `listWork` finds in ClickHouse. */
function isCopyOf ({ projectId, personUuids, isErasure }: PersonDeletion, copy: ReturnType<typeof fieldsOf>): boolean {
  const texts = itemsOf(copy['samples']).map(fieldsOf).flatMap((sample) => [sample['distinct_id'], sample['value']])
  if (isErasure) texts.push(copy['group_key'])
  const uuids = texts.filter((text) => typeof text === 'string').map((text) => personUuid(projectId, text))
  return copy['project_id'] === projectId &&
    [...uuids, copy['person_id'], copy['old_person_id']].some((uuid) => personUuids.includes(String(uuid)))
}

function toRemoved (
  { projectId: project, personUuids, requestedAt, filter, anonymised }: PersonDeletion
): RemovedEvents {
  const requested = requestedAt.getTime()
  if (filter !== null) return { kind: 'filter', params: { project, filter, requested } }
  // Only of those that get another id.
  const uuids = anonymised === null ? personUuids : Object.keys(anonymised.ids).map((id) => personUuid(project, id))
  return { kind: 'person', params: { project, uuids, requested } }
}

/** Removes the events, through the books: in more than one removal when some are being inserted at the moment. */
async function removeEvents (
  deletion: PersonDeletion, deps: FinishDeletionDeps, isLate: () => boolean
): Promise<boolean> {
  const subject = `person:${deletion.id}`
  const events = toRemoved(deletion)
  const isLeft = async (): Promise<boolean> => await countRemaining(deps, allOf(events), onEachReplica) > 0
  for (;;) {
    if (!await isLeft() && !await isRemovalOpen(deps.sql, subject)) return true
    const removal = await beginRemoval(deps, subject, events)
    if (removal !== null) {
      const count = await announceRemoval(deps, removal, deletion.anonymised !== null)
      if (count > 0) await startRemoving(deletion, deps, removal)
      while (!await completeRemoval(deps, removal)) {
        if (isLate()) return false
        await delay(POLL_INTERVAL_MS)
      }
    }
    if (isLate()) return !await isLeft()
    if (removal === null) await delay(POLL_INTERVAL_MS)
  }
}

async function startRemoving (
  deletion: PersonDeletion, deps: FinishDeletionDeps, removal: EventRemoval
): Promise<void> {
  if (deletion.anonymised === null) await rememberEvents(deletion, deps, removal)
  else await copyAnonymised(deps, removal, deletion.anonymised)
  if (deletion.filter !== null) await rememberPersons(deletion, deps, removal)
  await uncountEvents(deps, removal)
  await startRemoval(deps, removal, { marks: false })
}

interface Work {
  table: string
  /** On parameters `project`, `uuids`, `version` and `requested`. */
  where: string
  /** What the mutation does with these rows; default: deletes them. */
  change?: string
}

/** The person of a text, as `personUuid` computes it. */
function personOf (text: string): string {
  const hash = `hex(SHA1(concat(unhex('932979b465c3442484670b66ec27bc22'), toString(project_id), ':', ${text})))`
  return `toUUID(concat(substring(${hash}, 1, 12), '5', substring(${hash}, 14, 3),
    translate(substring(${hash}, 17, 1), '0123456789ABCDEF', '89AB89AB89AB89AB'), substring(${hash}, 18, 15)))`
}

/** The value at fault of a refused merge is a distinct id, too. */
const SAMPLES_OF_PERSON = ['distinct_id', 'value'].map((field) =>
  `arrayExists(text -> has({uuids: Array(UUID)}, ${personOf('text')}), samples.${field})`).join(' OR ')

const MEMBERSHIPS: Work = {
  table: 'cohort_members',
  where: 'project_id = {project: UInt32} AND person_id IN {uuids: Array(UUID)}',
  // Its version would be incomplete without the rows.
  change: "UPDATE person_id = toUUID('00000000-0000-0000-0000-000000000000')"
}

function listWork ({ isErasure }: PersonDeletion): Work[] {
  const copies = 'project_id = {project: UInt32} AND version <= {version: UInt64}'
  return [
    { table: 'persons', where: `${copies} AND person_id IN {uuids: Array(UUID)}` },
    { table: 'person_distinct_ids', where: `${copies} AND person_id IN {uuids: Array(UUID)}` },
    {
      table: 'person_overrides',
      where: `${copies} AND (person_id IN {uuids: Array(UUID)} OR old_person_id IN {uuids: Array(UUID)})`
    },
    {
      table: WARNINGS_TABLE,
      where: `project_id = {project: UInt32} AND (${SAMPLES_OF_PERSON})`,
      // The counts name nobody and stay.
      change: 'UPDATE samples = []'
    },
    ...isErasure ? [{ table: 'groups', where: `${copies} AND has({uuids: Array(UUID)}, ${personOf('group_key')})` }] : []
  ]
}

/** Writes a trace of each event that is to be deleted, for receipts: its uuid, and nothing of the person. */
async function rememberEvents (
  { requestedAt }: PersonDeletion, { clickhouse, cluster = '' }: FinishDeletionDeps, removal: EventRemoval
): Promise<void> {
  for (const { where, params } of conditionsOf(removal)) {
    await clickhouse.command({
      query: `INSERT INTO ${TRACES_TABLE} (project_id, uuid, kind, at)
        SELECT project_id, uuid, 'deleted', fromUnixTimestamp64Milli({at: Int64})
        FROM ${onEachShard(cluster, 'events')} WHERE ${where} SETTINGS final = 0`,
      query_params: { ...params, at: requestedAt.getTime() }, clickhouse_settings: PAST_USER_VIEWS
    })
  }
}

/** The persons of the events of a filter, for exports: once these are gone, nothing says whose they were. */
async function rememberPersons (
  { id, projectId }: PersonDeletion, { sql, clickhouse, cluster = '' }: FinishDeletionDeps, removal: EventRemoval
): Promise<void> {
  if ((await sql`SELECT 1 FROM exports WHERE project_id = ${projectId} LIMIT 1`).length === 0) return
  for (const { where, params } of conditionsOf(removal)) {
    const rows = await queryRows<{ person: string }>(clickhouse, `
      SELECT DISTINCT toString(person_id) AS person FROM ${onEachShard(cluster, 'events')} WHERE ${where} SETTINGS final = 0`, params)
    await sql`UPDATE person_deletions SET revised_uuids = ARRAY(
      SELECT DISTINCT unnest(revised_uuids || ${rows.map(({ person }) => person)}::uuid[])) WHERE id = ${id}`
  }
}
