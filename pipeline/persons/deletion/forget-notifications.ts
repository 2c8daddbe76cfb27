import { parseStoredJson } from '../../../engines/body/parse-json.ts'
import { fieldsOf } from '../../../engines/fields.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { type ErasedEvents, matchesErased } from '../../../schema/wire/erased-ids.ts'
import { personUuid } from '../../../schema/wire/identity.ts'
import type { PersonDeletion } from './finish-person-deletion.ts'

/** Deleted persons, with the uuids computed from each of their distinct ids, or events that were erased by a filter. */
type Deleted = Pick<PersonDeletion, 'projectId' | 'personUuids' | 'withEvents' | 'requestedAt' | 'filter'>

/** Of one event, or the number of some with samples (`pipeline/windows/notify/queue-events.ts`). */
interface Content {
  event?: string
  distinct_id?: string
  timestamp?: string
  received_at?: string
  from?: string
  /** As JSON text in a sample; null where they were too long to be queued. */
  properties?: unknown
  samples?: Content[]
}

const NEVER = new Date(-1)

/** Each may have 128 KiB of properties. */
const READ_AT_ONCE = 20

interface Waiting { target: number, sequence: string, type: string, data: string, text: string }

/**
 * Removes deleted events from what waits for targets: a notification of one goes, a number loses its samples. Pictures
 * of the project's boards go, because they may have names of anybody.
 */
export async function forgetNotifications (sql: Sql, deletions: readonly Deleted[]): Promise<void> {
  const projects = [...new Set(deletions.map(({ projectId }) => projectId))]
  await sql`DELETE FROM report_pictures WHERE alert_id IN (SELECT id FROM alerts WHERE project_id = ANY (${projects}::integer[]))`
  const deleted = deletions.filter(({ withEvents }) => withEvents)
  for (const [project, gone] of Map.groupBy(deleted, ({ projectId }) => projectId)) {
    const inOrder = gone.toSorted((one, other) => one.requestedAt.getTime() - other.requestedAt.getTime())
    const deletedAt = inOrder.flatMap(({ personUuids, requestedAt }) =>
      personUuids.map((uuid): [string, Date] => [uuid, requestedAt]))
    await forgetEvents(sql, project, { deletedAt: new Map(deletedAt), gone })
  }
}

/** @param deletedAt  By person; events that were received later stay. */
async function forgetEvents (
  sql: Sql, projectId: number, { deletedAt, gone }: { deletedAt: ReadonlyMap<string, Date>, gone: readonly Deleted[] }
): Promise<void> {
  const isGone = (named: Content, receivedAt: Date): boolean =>
    (deletedAt.get(personUuid(projectId, String(named.distinct_id))) ?? NEVER) >= receivedAt ||
    gone.some(({ filter, requestedAt }) =>
      filter !== null && requestedAt >= receivedAt && mayMatch(filter, projectId, named))
  for (let last: Pick<Waiting, 'target' | 'sequence'> | undefined = { target: 0, sequence: '0' }; last !== undefined;) {
    const rows: Waiting[] = await sql<Waiting[]>`
      SELECT target_id AS target, n.sequence::text, type, data, text FROM notifications AS n JOIN targets ON targets.id = target_id
      WHERE project_id = ${projectId} AND type IN ('event', 'events') AND (target_id, n.sequence) > (${last.target}, ${last.sequence}::bigint)
      ORDER BY target_id, n.sequence LIMIT ${READ_AT_ONCE}`
    for (const waiting of rows) await forget(sql, waiting, isGone)
    last = rows.at(-1)
  }
}

/** An event that was queued without its properties may have those of the filter. */
function mayMatch (filter: ErasedEvents, projectId: number, named: Content): boolean {
  const { property: _property, groupType: _groupType, ...rest } = filter
  const properties = typeof named.properties === 'string' ? parseStoredJson(named.properties) : named.properties
  return matchesErased(properties == null ? rest : filter, projectId, {
    event: String(named.event), distinctId: String(named.distinct_id), timestamp: Date.parse(String(named.timestamp)),
    properties: fieldsOf(properties), groups: Object.entries(fieldsOf(fieldsOf(properties)['$groups'])).flat().map(String)
  })
}

async function forget (
  sql: Sql, { target, sequence, type, data, text }: Waiting, isGone: (named: Content, receivedAt: Date) => boolean
): Promise<void> {
  const content: Content = { ...JSON.parse(data), properties: fieldsOf(parseStoredJson(data))['properties'] }
  const receivedAt = new Date(content.received_at ?? content.from ?? 0)
  const where = sql`WHERE target_id = ${target} AND sequence = ${sequence}`
  if (type === 'event' && isGone(content, receivedAt)) await sql`DELETE FROM notifications ${where}`
  const goes = (content.samples ?? []).map((sample) => isGone({ ...content, ...sample }, receivedAt))
  if (!goes.includes(true)) return
  const kept = JSON.stringify({ ...content, samples: content.samples?.filter((_, index) => goes[index] === false) })
  // The first line has the number; then comes one for each sample.
  const lines = text.split('\n').filter((_, line) => goes[line - 1] !== true)
  await sql`UPDATE notifications SET data = ${kept}, text = ${lines.join('\n')} ${where}`
}
