import { itemsOf } from '../../../engines/fields.ts'
import { onEachShard, queryRows } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { type Anonymised, anonymiseEvent } from '../../../schema/wire/anonymise.ts'
import { inChunks } from '../../../schema/wire/erased-ids.ts'
import { personUuid } from '../../../schema/wire/identity.ts'
import { conditionsOf, type EventRemoval, type RemovalDeps, sourceOf } from './event-removals.ts'

/**
 * Stores the events of a removal again under random ids. To be called before any of them is removed. Safe to repeat:
 * the tokens of the inserts are those of the first time, and once some are removed, all are copied.
 */
export async function copyAnonymised (
  { clickhouse, cluster = '' }: RemovalDeps, removal: EventRemoval, by: Anonymised
): Promise<void> {
  const events = onEachShard(cluster, 'events')
  for (const [index, { where, params }] of conditionsOf(removal).entries()) {
    const random = randomPersons(params, by)
    const rows = await queryRows<{ id: string }>(clickhouse, `
      SELECT DISTINCT toString(uuid) AS id FROM ${events} WHERE ${where} ORDER BY id SETTINGS final = 0`, params)
    for (const [chunk, copied] of inChunks(rows.map(({ id }) => id)).entries()) {
      // A token counts in each month by itself, and after a removal of some, others fall into a chunk.
      const [known] = await queryRows<{ count: string }>(clickhouse, `
        SELECT uniqExact(uuid) AS count FROM ${events}
        WHERE project_id = {project: UInt32} AND person_id IN {random: Array(UUID)} AND uuid IN {copied: Array(UUID)}
        SETTINGS final = 0`, { project: params.project, random, copied })
      if (Number(known?.count) === copied.length) continue
      const values = await queryRows<Record<string, unknown>>(clickhouse, `
        SELECT * EXCEPT (person_id, inserted_at) FROM ${events}
        WHERE ${where} AND uuid IN {copied: Array(UUID)} ORDER BY uuid, received_at SETTINGS final = 0`, { ...params, copied })
      // Another process may have copied them and removes them: none is removed here that was not read.
      if (values.length < copied.length) throw new Error(`read ${values.length} of ${copied.length} events that are to be anonymised`)
      await clickhouse.insert({
        table: 'events', format: 'JSONEachRow', values: values.map((row) => anonymiseEvent(row, by)),
        clickhouse_settings: { async_insert: 0, insert_deduplication_token: `${sourceOf(removal)}${index}:${chunk}` }
      })
    }
  }
}

/** What the persons of a condition become. */
function randomPersons ({ project, persons }: Record<string, unknown>, { ids }: Anonymised): string[] {
  const old = new Set(itemsOf(persons))
  return Object.entries(ids).flatMap(([id, random]) =>
    old.has(personUuid(Number(project), id)) ? [personUuid(Number(project), random)] : [])
}
