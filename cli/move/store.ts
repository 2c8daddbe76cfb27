import http from 'node:http'
import https from 'node:https'
import { pipeline } from 'node:stream/promises'
import { text } from 'node:stream/consumers'
import { MillraceError } from '../../engines/errors.ts'
import {
  allShardsUrl, connectClickHouse, FIRST_REPLICA, onCluster, parseClickHouseUrl, queryRows
} from '../../platform/clickhouse/connect-clickhouse.ts'
import { INSERT_SETTINGS, INSERT_SETTINGS_VERSION } from '../../pipeline/events/insert/insert-frames.ts'
import type { ColumnOfTable } from '../../schema/backup-statements.ts'
import { insertRows, LIST_STORED_COLUMNS } from '../../schema/move/move-statements.ts'
import { isWhole } from '../../schema/move/moved-tables.ts'
import { quoteIdentifier } from 'chdb-server/sql-lexer'

/** Comparing a month reads it whole, in milliseconds. */
const REQUEST_TIMEOUT_MS = 1_800_000

/** As the pipeline inserts: the rows are one block with one token, confirmed when each shard has them. */
const SETTINGS = { ...INSERT_SETTINGS[INSERT_SETTINGS_VERSION], distributed_foreground_insert: '1', log_comment: 'millrace move' }

export type MoveStore = ReturnType<typeof openMoveStore>

/**
 * @param url      As in `CLICKHOUSE_URL`.
 * @param cluster  Empty: one server.
 */
export function openMoveStore (url: string, cluster: string) {
  const options = { cluster, requestTimeoutMs: REQUEST_TIMEOUT_MS }
  const local = connectClickHouse({ ...options, url })
  const shards = connectClickHouse({ ...options, url: allShardsUrl(url, cluster) })
  const { host, pathname } = new URL(url)
  return {
    url,
    /** Without its password. */
    name: `${host}${pathname}`,
    database: pathname.slice(1),
    cluster,
    local,
    shards,
    close: async (): Promise<void> => { await Promise.all([local.close(), shards.close()]) }
  }
}

/** Of a table that every node has whole, one node changes it, and the others follow. */
export function everyShard ({ cluster }: MoveStore, table: string): string {
  return isWhole(table) ? '' : onCluster(cluster)
}

export async function listColumns ({ local }: MoveStore, table: string): Promise<ColumnOfTable[]> {
  return await queryRows<ColumnOfTable>(local, LIST_STORED_COLUMNS, { table })
}

export async function listColumnNames (store: MoveStore, table: string): Promise<string[]> {
  return (await listColumns(store, table)).map(({ name }) => quoteIdentifier(name))
}

/** Part of a transfer failed. ClickHouse's error code decides about a retry; 0 without one. */
function failed (what: string, clickhouseCode: number, cause?: unknown): MillraceError {
  return Object.assign(new MillraceError('MILLRACE_MOVE_FAILED', what, { action: 'retry', cause }), { clickhouseCode })
}

/** Streams rows from one side to the other, buffering only rows in transit. */
export async function transferRows (
  from: MoveStore, to: MoveStore,
  { table, columns, select, token }: { table: string, columns: readonly string[], select: string, token: string }
): Promise<void> {
  const source = open(isWhole(table) ? from.url : allShardsUrl(from.url, from.cluster),
    { wait_end_of_query: '1', enable_http_compression: '1' }, { 'accept-encoding': 'zstd' })
  source.end(`${select} FORMAT Native`)
  const rows = await answerOf(source, from)
  const encoding = rows.headers['content-encoding']
  const sink = open(isWhole(table) ? to.url : allShardsUrl(to.url, to.cluster),
    { ...SETTINGS, ...to.cluster === '' ? {} : FIRST_REPLICA, insert_deduplication_token: token, query: insertRows(table, columns) },
    { 'content-type': 'application/octet-stream', ...encoding === undefined ? {} : { 'content-encoding': encoding } })
  const answer = answerOf(sink, to)
  answer.catch(() => {})
  try {
    await pipeline(rows, sink)
  } catch (error) {
    // The target may have said why it reads no further.
    await Promise.race([answer, new Promise((resolve) => setTimeout(resolve, 1000))])
    throw error instanceof MillraceError ? error : failed(`the transfer of ${table} was interrupted: ${String(error)}`, 0, error)
  }
  await text(await answer)
}

function open (url: string, settings: Record<string, string>, more: Record<string, string>): http.ClientRequest {
  const { origin, database, headers } = parseClickHouseUrl(url)
  const request = origin.startsWith('https:') ? https.request : http.request
  return request(`${origin}/?${new URLSearchParams({ ...settings, database })}`,
    { method: 'POST', headers: { ...headers, ...more }, timeout: REQUEST_TIMEOUT_MS })
}

async function answerOf (request: http.ClientRequest, store: MoveStore): Promise<http.IncomingMessage> {
  const response = await new Promise<http.IncomingMessage>((resolve, reject) => {
    request.on('response', resolve)
    request.on('timeout', () => request.destroy(new Error('no answer')))
    request.on('error', (error) => reject(failed(`${store.name} does not answer: ${error.message}`, 0, error)))
  })
  const code = Number(response.headers['x-clickhouse-exception-code'] ?? 0)
  if (response.statusCode === 200 && code === 0) return response
  throw failed(`${store.name}: ${(await text(response)).trim().slice(0, 500)}`, code)
}
