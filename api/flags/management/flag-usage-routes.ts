import type { FastifyInstance } from 'fastify'
import { HttpError } from '../../../engines/errors.ts'
import { MalformedFlagError } from '../../../engines/flags/flag-definition.ts'
import {
  type ParsedCondition, type ParsedFilters, type ParsedVariant, parseFilters
} from '../../../engines/flags/parse-filters.ts'
import { type ClickHouse, queryRows } from '../../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { splitBySize } from '../../definitions/definition-profile.ts'
import { describeClickHouseError } from '../../http/describe-clickhouse-error.ts'
import { array, object } from '../../http/json-schema.ts'
import { accessOf } from '../../http/personal-key-access.ts'
import { parseInteger, readNameList } from '../../http/request-values.ts'

/** Days without a change, and without a call, after which a flag is stale. */
const STALE_DAYS = 30

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
      summary: 'List the last calls of feature flags, and which flags are stale',
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

/** What is known of the calls of a flag in the last days, as `$feature_flag_called` reports them. */
interface FlagCalls {
  calls: number
  /** Epoch milliseconds; null: none. */
  lastMs: number | null
}

interface FlagStatus {
  status: 'active' | 'stale'
  /** Why it is stale, in a sentence; empty when it is not. */
  reason: string
}

interface Judged {
  filters: unknown
  active: boolean
  updated_at: Date
}

/**
 * Judges a flag. It is stale when nobody has changed it for 30 days, and either everybody gets the same value or no SDK
 * asked for it in these days.
 *
 * @param calls  Null when their absence says nothing: no SDK of the project reports calls, or another flag asks for it.
 * @param options.now  Epoch milliseconds.
 */
export function judgeFlag (flag: Judged, calls: FlagCalls | null, { now }: { now: number }): FlagStatus {
  const days = Math.floor((now - flag.updated_at.getTime()) / DAY_MS)
  if (days < STALE_DAYS) return { status: 'active', reason: '' }
  const value = findOnlyValue(flag)
  if (value !== null) return { status: 'stale', reason: `${describeOnlyValue(flag, value)} for ${days} days` }
  if (calls?.calls === 0) return { status: 'stale', reason: `not called for ${STALE_DAYS} days, unchanged for ${days}` }
  return { status: 'active', reason: '' }
}

function describeOnlyValue ({ active }: Judged, value: string): string {
  if (!active) return 'off for everyone'
  return value === 'true' ? 'on for everyone' : value === 'false' ? 'false for everyone' : `${value} for everyone`
}

/** Stands for a value that depends on who asks. */
const VARIES = null

/**
 * The value that everybody gets whom the flag is about, as text; null when it depends on who asks or cannot be told.
 * Groups count like persons: a flag for all groups has one value, although who is in none gets false.
 */
export function findOnlyValue ({ active, filters }: Pick<Judged, 'active' | 'filters'>): string | null {
  if (!active) return 'false'
  const parsed = readFilters(filters)
  if (parsed === null || hasEarlySteps(parsed)) return VARIES
  const conditions = parsed.conditions.filter(({ rolloutPercentage }) => rolloutPercentage > 0)
  if (conditions.length === 0) return 'false'
  const whole = conditions.findIndex(({ properties, rolloutPercentage: percentage }) =>
    properties.length === 0 && percentage >= 100)
  // With an early exit, who matches an earlier condition but not its rollout never reaches the one for everyone.
  if (whole === -1 || (whole > 0 && parsed.earlyExit)) return VARIES
  const [value, ...others] = conditions.slice(0, whole + 1).map((condition) => valueOf(condition, parsed.variants))
  return others.every((other) => other === value) ? value ?? VARIES : VARIES
}

/** Early access or a holdout, which come before the conditions. */
function hasEarlySteps ({ enrollment, superCondition, holdout }: ParsedFilters): boolean {
  return enrollment || superCondition !== null || (holdout?.percentage ?? 0) > 0
}

function readFilters (filters: unknown): ParsedFilters | null {
  try {
    return parseFilters(filters)
  } catch (error) {
    // Malformed filters have no value that could be told.
    if (error instanceof MalformedFlagError) return null
    throw error
  }
}

/** The value of everybody who matches a condition; null when they are divided among variants. */
function valueOf ({ variant }: ParsedCondition, variants: readonly ParsedVariant[]): string | null {
  if (variants.length === 0) return 'true'
  if (variants.some(({ key }) => key === variant)) return variant
  return variants.find(({ rolloutPercentage }) => rolloutPercentage >= 100)?.key ?? VARIES
}
