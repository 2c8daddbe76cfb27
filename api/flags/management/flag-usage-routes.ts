import type { FastifyInstance } from 'fastify'
import { type ClickHouse, queryRows } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { describeClickHouseError } from '../../http/describe-clickhouse-error.ts'
import { array, object } from '../../http/json-schema.ts'
import { HttpError } from '../../../engines/errors.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { splitBySize } from '../../definitions/definition-profile.ts'
import { accessOf } from '../../http/personal-key-access.ts'
import { parseInteger, readNameList } from '../../http/request-values.ts'
import { type FlagCalls, type FlagStatus, judgeFlag, STALE_DAYS } from './flag-status.ts'

/** Flags of a request: a page of a screen. */
const MAX_IDS = 100

/** Seconds of the query at most. */
const MAX_SECONDS = 5

const DAY_MS = 86_400_000

interface UsageRow {
  id: number
  key: string
  filters: unknown
  active: boolean
  updated_at: Date
  /** Whether another flag asks for it. */
  is_needed: boolean
}

const usageSchema = object({
  from: { type: 'string', format: 'date-time', description: `Calls since then are counted: ${STALE_DAYS} days.` },
  is_reported: { type: 'boolean', description: 'Whether any SDK of the project reported a call of a flag in these days. Else their absence says nothing.' },
  results: array(object({
    id: { type: 'integer' },
    last_called_at: { type: ['string', 'null'], format: 'date-time', description: `Timestamp of the last $feature_flag_called with it; null: none in ${STALE_DAYS} days.` },
    calls: { type: 'integer', description: 'Such events in these days.' },
    status: { type: 'string', enum: ['active', 'stale'] },
    reason: { type: 'string', description: 'Why it is stale, in words; else empty.' }
  }))
})

/**
 * When flags were last called, and which are stale: one query to ClickHouse for a page of flags, about the events that
 * SDKs send. Nothing is counted when flags are evaluated.
 */
export async function flagUsageRoutes (
  app: FastifyInstance, { sql, clickhouse, now }: { sql: Sql, clickhouse: ClickHouse, now: () => number }
): Promise<void> {
  app.get<{ Querystring: { ids?: string } }>('/usage', {
    config: { scope: 'feature_flag:read' },
    schema: {
      tags: ['feature flags'],
      summary: 'Last calls of feature flags, and which are stale',
      querystring: {
        type: 'object',
        properties: { ids: { type: 'string', description: `Ids of at most ${MAX_IDS} flags, separated by commas.` } }
      },
      response: { 200: usageSchema }
    }
  }, async (request) => {
    const ids = readIds(request.query.ids)
    const nowMs = now()
    const { projectId } = accessOf(request)
    const { isReported, judged } = await judgeFlags({ projectId, ids }, { sql, clickhouse, nowMs })
    return {
      from: new Date(nowMs - STALE_DAYS * DAY_MS),
      is_reported: isReported,
      results: judged.map(({ id, calls: { calls, lastMs }, ...status }) => ({
        id, last_called_at: lastMs === null ? null : new Date(lastMs), calls, ...status
      }))
    }
  })
}

interface Stores { sql: Sql, clickhouse: ClickHouse, nowMs: number }

/**
 * The ids of all stale flags of a project.
 *
 * @throws {HttpError} 503 while ClickHouse, which has the calls, is unavailable.
 */
export async function findStaleFlags (projectId: number, stores: Stores): Promise<number[]> {
  const { judged } = await judgeFlags({ projectId, ids: null }, stores)
  return judged.filter(({ status }) => status === 'stale').map(({ id }) => id)
}

interface JudgedFlag extends FlagStatus { id: number, calls: FlagCalls }

/** @param of.ids  Of which flags; null: of all that nobody changed lately. */
async function judgeFlags (
  { projectId, ids }: { projectId: number, ids: number[] | null }, { sql, clickhouse, nowMs }: Stores
): Promise<{ isReported: boolean, judged: JudgedFlag[] }> {
  const since = new Date(nowMs - STALE_DAYS * DAY_MS)
  const flags = await sql<UsageRow[]>`
    WITH needed AS (
      SELECT property->>'key' AS name
      FROM feature_flags, jsonb_path_query(filters, '$.groups[*].properties[*] ? (@.type == "flag")') AS property
      WHERE project_id = ${projectId} AND NOT deleted
    )
    SELECT id, key, filters, active, updated_at,
      key IN (SELECT name FROM needed) OR id::text IN (SELECT name FROM needed) AS is_needed
    FROM feature_flags
    WHERE project_id = ${projectId} AND NOT deleted AND ${ids === null ? sql`updated_at <= ${since}` : sql`id = ANY(${ids}::integer[])`}
    ORDER BY id DESC`
  const calls = await readCalls(clickhouse, { projectId, nowMs, keys: flags.map(({ key }) => key) })
    .catch((error: unknown) => { throw describeClickHouseError(error) })
  const isReported = calls.size > 0
  const judged = flags.map((flag) => {
    const of: FlagCalls = calls.get(flag.key) ?? { calls: 0, lastMs: null }
    return { id: flag.id, calls: of, ...judgeFlag(flag, isReported && !flag.is_needed ? of : null, { now: nowMs }) }
  })
  return { isReported, judged }
}

/** @throws {HttpError} 400 for what is no list of ids. */
function readIds (text: string | undefined): number[] {
  const ids = (readNameList('ids', text) ?? []).map(parseInteger)
  const isId = (id: number | undefined): id is number => id !== undefined && id > 0 && id <= 2_147_483_647
  if (ids.length <= MAX_IDS && ids.every(isId)) return ids
  throw new HttpError(400, 'validation_error', 'invalid_input', `ids must be at most ${MAX_IDS} ids of flags.`, { attr: 'ids' })
}

/** Calls by key of the flag; those of all other flags together under the empty key. */
async function readCalls (
  clickhouse: ClickHouse, { projectId, nowMs, keys }: { projectId: number, nowMs: number, keys: string[] }
): Promise<Map<string, FlagCalls>> {
  const calls = new Map<string, FlagCalls>()
  for (const some of splitBySize(keys)) {
    // Rows are grouped by the number of the flag in its dictionary, and not by its text.
    const rows = await queryRows<{ key: string, calls: number, last_ms: number }>(clickhouse, `
      SELECT if(feature_flag IN {keys: Array(String)}, toString(feature_flag), '') AS key, toFloat64(sum(calls)) AS calls,
        toUnixTimestamp64Milli(max(last)) :: Float64 AS last_ms
      FROM (
        SELECT feature_flag, count() AS calls, max(timestamp) AS last
        FROM events
        WHERE project_id = {project: UInt32} AND event = '$feature_flag_called'
          AND timestamp >= fromUnixTimestamp64Milli({from: Int64}, 'UTC')
          AND timestamp <= fromUnixTimestamp64Milli({to: Int64}, 'UTC')
        GROUP BY feature_flag
      )
      GROUP BY key SETTINGS final = 0, max_execution_time = ${MAX_SECONDS}`,
    { project: projectId, keys: some, from: nowMs - STALE_DAYS * DAY_MS, to: nowMs })
    for (const row of rows) calls.set(row.key, { calls: row.calls, lastMs: row.last_ms })
  }
  return calls
}
