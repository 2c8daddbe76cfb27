import { type ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { EVENT_COLUMNS } from '../../../schema/event-row.ts'

/**
 * Tells whether the table has the columns that every frame brings. When a whole batch is refused, this separates bad
 * messages from a table that is being migrated: only with a sound table something may be dead-lettered.
 */
export function createProbeTable (clickhouse: ClickHouse): () => Promise<boolean> {
  const columns = EVENT_COLUMNS.map(({ name }) => name).join(', ')
  return async function probeTable () {
    try {
      await (await clickhouse.query({ query: `SELECT ${columns} FROM events LIMIT 0`, format: 'JSONEachRow' })).text()
      return true
    } catch {
      // Whatever is wrong, it is not the message.
      return false
    }
  }
}
