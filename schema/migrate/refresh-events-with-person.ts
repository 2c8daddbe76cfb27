import type { ClickHouseSettings, createClient } from '@clickhouse/client'
import { quoteIdentifier, quoteString } from 'chdb-server/sql-lexer'
import { databaseOfAllShards, renderClickHouseSql, type ClickHouseTopology } from './clickhouse-topology.ts'

const VIEW = 'events_with_person'

/** In the view this column means something else than in `events`; every other one is the same. */
const PERSON_COMMENT = 'Person the event belongs to now: person_id of events with merges followed'

interface Column {
  name: string
  type: string
  comment: string
}

/**
 * Gives `events_with_person` the columns that `events` has now, with their comments: a view keeps the columns it was
 * made with. The view is replaced in one step, so queries see the old one or the new one; nothing happens when it is
 * right already. On a cluster the view over all shards follows, once it exists.
 *
 * Its SELECT stays what the migrations made it: that says `event.*`, and the list of columns here says which of them.
 */
export async function refreshEventsWithPerson (
  client: ReturnType<typeof createClient>, { topology }: { topology: ClickHouseTopology }
): Promise<void> {
  const [current] = await ask<{ name: string }>(client, 'SELECT currentDatabase() AS name')
  const database = current?.name ?? ''
  await refreshView(client, database, topology)
  if (topology.cluster !== undefined) await refreshView(client, databaseOfAllShards(database), topology)
}

async function refreshView (
  client: ReturnType<typeof createClient>, database: string, topology: ClickHouseTopology
): Promise<void> {
  const [view] = await ask<{ as_select: string, comment: string }>(client, `
    SELECT as_select, comment FROM system.tables WHERE database = ${quoteString(database)} AND name = '${VIEW}'`)
  if (view === undefined) return
  const wanted = (await readColumns(client, database, 'events'))
    .map((column) => column.name === 'person_id' ? { ...column, comment: PERSON_COMMENT } : column)
  if (JSON.stringify(wanted) === JSON.stringify(await readColumns(client, database, VIEW))) return

  const list = wanted.map(({ name, type, comment }) => `\`${name}\` ${type} COMMENT ${quoteString(comment)}`)
  const name = `${quoteIdentifier(database)}.${VIEW}`
  await client.command({
    query: `${renderClickHouseSql(`CREATE OR REPLACE VIEW ${name} {{on_cluster}}`, topology)} (${list.join(', ')})
AS ${view.as_select}
COMMENT ${quoteString(view.comment)}`
  })
}

async function readColumns (
  client: ReturnType<typeof createClient>, database: string, table: string
): Promise<Column[]> {
  return await ask<Column>(client, `
    SELECT name, type, comment FROM system.columns
    WHERE database = ${quoteString(database)} AND table = '${table}' AND default_kind IN ('', 'DEFAULT')
    ORDER BY position`)
}

/** The rows of a query, each an object by the names of its columns. */
export async function ask<T> (
  client: ReturnType<typeof createClient>, query: string, params: Record<string, unknown> = {},
  settings: ClickHouseSettings = {}
): Promise<T[]> {
  const result = await client.query({ query, query_params: params, clickhouse_settings: settings, format: 'JSONEachRow' })
  return await result.json<T>()
}
