import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { personUuid } from '../../../schema/wire/identity.ts'
import type { PersonDeletion } from './finish-person-deletion.ts'

/** Deleted persons, with the uuids computed from each of their distinct ids. */
type Deleted = Pick<PersonDeletion, 'projectId' | 'personUuids' | 'withEvents' | 'requestedAt'>

/** Of one event, or the number of some with samples (`pipeline/windows/notify/queue-events.ts`). */
interface Content { distinct_id?: string, received_at?: string, from?: string, samples?: Content[] }

const NEVER = new Date(-1)

/** Each may have 128 KiB of properties. */
const READ_AT_ONCE = 20

interface Waiting { target: number, sequence: string, type: string, data: string, text: string }

/** Removes deleted events from what waits for targets: a notification of one goes, a number loses its samples. */
export async function forgetNotifications (sql: Sql, deletions: readonly Deleted[]): Promise<void> {
  const deleted = deletions.filter(({ withEvents }) => withEvents)
  for (const [project, gone] of Map.groupBy(deleted, ({ projectId }) => projectId)) {
    const inOrder = gone.toSorted((one, other) => one.requestedAt.getTime() - other.requestedAt.getTime())
    const deletedAt = inOrder.flatMap(({ personUuids, requestedAt }) =>
      personUuids.map((uuid): [string, Date] => [uuid, requestedAt]))
    await forgetPersons(sql, project, new Map(deletedAt))
  }
}

/** @param deletedAt  By person; events that were received later stay. */
async function forgetPersons (sql: Sql, projectId: number, deletedAt: ReadonlyMap<string, Date>): Promise<void> {
  const isGone = ({ distinct_id: id }: Content, receivedAt: Date): boolean =>
    (deletedAt.get(personUuid(projectId, String(id))) ?? NEVER) >= receivedAt
  for (let last: Pick<Waiting, 'target' | 'sequence'> | undefined = { target: 0, sequence: '0' }; last !== undefined;) {
    const rows: Waiting[] = await sql<Waiting[]>`
      SELECT target_id AS target, n.sequence::text, type, data, text FROM notifications AS n JOIN targets ON targets.id = target_id
      WHERE project_id = ${projectId} AND type IN ('event', 'events') AND (target_id, n.sequence) > (${last.target}, ${last.sequence}::bigint)
      ORDER BY target_id, n.sequence LIMIT ${READ_AT_ONCE}`
    for (const waiting of rows) await forget(sql, waiting, isGone)
    last = rows.at(-1)
  }
}

async function forget (
  sql: Sql, { target, sequence, type, data, text }: Waiting, isGone: (named: Content, receivedAt: Date) => boolean
): Promise<void> {
  const content: Content = JSON.parse(data)
  const receivedAt = new Date(content.received_at ?? content.from ?? 0)
  const where = sql`WHERE target_id = ${target} AND sequence = ${sequence}`
  if (type === 'event' && isGone(content, receivedAt)) await sql`DELETE FROM notifications ${where}`
  const goes = (content.samples ?? []).map((sample) => isGone(sample, receivedAt))
  if (!goes.includes(true)) return
  const kept = JSON.stringify({ ...content, samples: content.samples?.filter((_, index) => goes[index] === false) })
  // The first line has the number; then comes one for each sample.
  const lines = text.split('\n').filter((_, line) => goes[line - 1] !== true)
  await sql`UPDATE notifications SET data = ${kept}, text = ${lines.join('\n')} ${where}`
}
