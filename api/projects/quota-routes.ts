import type { FastifyInstance } from 'fastify'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { invalidField } from '../../engines/errors.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { dayOf, listUsage } from './count-usage.ts'
import { answerInTime } from '../http/answer-errors.ts'
import { optional, type Value } from '../http/json-schema.ts'
import { parseIsoDateTime } from '../http/request-values.ts'
import { routesOf } from '../http/routes.ts'
import {
  changeQuota, clearQuota, describeQuota, quotaChangesSchema, quotaSchema, readQuota, setQuota, usageSchema
} from './project-quota.ts'

const one = { $ref: 'Quota#' }

const DAY_MS = 86_400_000

/** Days of an answer: unless the request says which, and at most. */
const DEFAULT_DAYS = 30
const MAX_DAYS = 366

/** Times that a minute of the books can have: from 1970 to 2106. */
const LAST_MS = 4_294_900_000_000

const usageQuery = optional({
  from: { type: 'string', format: 'date-time', description: `Any time on the first day (UTC). Default: ${DEFAULT_DAYS - 1} days before the last day, so ${DEFAULT_DAYS} days in all.` },
  to: { type: 'string', format: 'date-time', description: `Any time on the last day (UTC). Default: today. At most ${MAX_DAYS} days in all.` }
})

export async function quotaRoutes (
  app: FastifyInstance, { sql, clickhouse, now }: { sql: Sql, clickhouse: ClickHouse, now: () => number }
): Promise<void> {
  const routes = routesOf(app, { tag: 'account', object: 'project' })
  app.addSchema(quotaSchema)
  const show = async (projectId: number): Promise<Record<string, unknown>> =>
    describeQuota(await readQuota(sql, projectId), now())

  routes.get('/quota', {
    summary: 'Show the quota', answer: one,
    description: 'Limits of the project, and its usage this month. Without a quota all limits are null.'
  }, async (request, { projectId }) => await show(projectId))

  routes.patch('/quota', {
    summary: 'Change the quota', body: quotaChangesSchema, answer: one,
    description: 'Takes effect in every ingest process within a second. A quota without a limit is removed.'
  }, async ({ body }, { projectId }) => {
    await sql.begin(async (tx) => {
      // Two changes at the same time: the second one starts from what the first has left.
      await tx`SELECT 1 FROM projects WHERE id = ${projectId} FOR UPDATE`
      const quota = changeQuota(await readQuota(tx, projectId), body)
      if (quota === null) await clearQuota(tx, projectId)
      else await setQuota(tx, projectId, quota)
    })
    return await show(projectId)
  })

  routes.delete('/quota', {
    summary: 'Remove the quota', answer: { type: 'null', description: 'Removed, or there was no quota.' }
  }, async (request, { projectId }) => { await clearQuota(sql, projectId) })

  routes.get('/usage', {
    summary: 'Count events by day of receipt', query: usageQuery, answer: usageSchema,
    description: 'Events stored, dropped and refused, from the ledger. Lags the pipeline by up to ten seconds.'
  }, async ({ query }, { projectId }) => {
    const span = readSpan(query, now())
    const days = await answerInTime(listUsage(clickhouse, projectId, span))
    return {
      from: new Date(span.first).toISOString().slice(0, 10),
      to: new Date(span.last).toISOString().slice(0, 10),
      events: days.reduce((sum, { events }) => sum + events, 0),
      results: days
    }
  })
}

/** @throws {HttpError} 400 for a span that ends before it begins, or is too long. */
function readSpan ({ from, to }: Value<typeof usageQuery>, now: number): { first: number, last: number } {
  const last = dayOf(to === undefined ? now : timeOf(to))
  const first = from === undefined ? Math.max(0, last - (DEFAULT_DAYS - 1) * DAY_MS) : dayOf(timeOf(from))
  if (first > last) throw invalidField('from', 'from must not be after to.')
  if ((last - first) / DAY_MS >= MAX_DAYS) {
    throw invalidField('from', `from must be at most ${MAX_DAYS} days before to.`)
  }
  return { first, last }
}

/** Validated before; ClickHouse has no minutes before 1970 or after 2106. */
function timeOf (text: string): number {
  return Math.min(Math.max(parseIsoDateTime(text)?.getTime() ?? 0, 0), LAST_MS)
}
