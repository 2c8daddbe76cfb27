import type { ClickHouseAddress } from '../../platform/clickhouse/connect-clickhouse.ts'
import { askClickHouse } from './ask-clickhouse.ts'

/** A table that analysts may read, as the data dictionary describes it. */
export interface TableDescription {
  name: string
  comment: string
  columns: { name: string, type: string, comment: string }[]
}

const COLUMNS = `
  SELECT table, name, type, comment FROM system.columns
  WHERE database = currentDatabase() AND table NOT LIKE '.%' ORDER BY table, position LIMIT 5000`

const TABLES = `
  SELECT name, comment FROM system.tables WHERE database = currentDatabase() AND name NOT LIKE '.%' ORDER BY name LIMIT 500`

interface Asking { logComment: string, signal: AbortSignal }

/** The tables of the login for analysts with their columns and comments. @throws {QueryFailedError} */
export async function readTables (clickhouse: ClickHouseAddress, asking: Asking): Promise<TableDescription[]> {
  const tables = await readRows<{ name: string, comment: string }>(clickhouse, TABLES, asking)
  const columns = await readRows<TableDescription['columns'][number] & { table: string }>(clickhouse, COLUMNS, asking)
  return tables.map(({ name, comment }) => ({
    name, comment, columns: columns.filter(({ table }) => table === name).map(({ table: _, ...column }) => column)
  }))
}

async function readRows<T> (
  clickhouse: ClickHouseAddress, query: string, { logComment, signal }: Asking
): Promise<T[]> {
  const answer = await askClickHouse(clickhouse, {
    query, queryId: '', format: 'JSONEachRow', parameters: {}, logComment, settings: { wait_end_of_query: '1' }
  }, { signal, onProgress: () => {} })
  let text = ''
  for await (const chunk of answer.setEncoding('utf8')) text += String(chunk)
  return text.split('\n').filter((line) => line !== '').map((line) => JSON.parse(line) as T)
}
