import type { FastifyInstance } from 'fastify'
import { invalidField } from '../../engines/errors.ts'
import { CONDITIONS, namesWindow, refuseCondition, refuseQuestion } from '../../engines/questions/alert-windows.ts'
import { readQuestion } from '../../engines/questions/read-question.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { array, bodyOf, nullableObject, object, time, timeOrNull, type Value } from '../http/json-schema.ts'
import { type Access, requireSql } from '../http/personal-key-access.ts'
import { idParams } from '../http/request-values.ts'
import { routesOf } from '../http/routes.ts'
import { readMaker } from '../projects/key-rights.ts'
import { type DocumentKind, documentRoutes, findDocument } from '../queries/named-documents.ts'
import type { QuestionDeps } from '../questions/answer-question.ts'
import { runDry, tryWindow } from './dry-run.ts'
import { targetRoutes } from './target-routes.ts'

const number = { type: 'number' } as const
const numberOrNull = { type: ['number', 'null'] } as const
const id = { type: 'integer', minimum: 1, maximum: 2_147_483_647 } as const

const about = {
  ...object({ kind: { type: 'string', enum: ['question', 'saved_query', 'board'] }, id }), additionalProperties: false,
  description: 'A trend with one series or a formula; a saved query with the parameters {from:DateTime} and {to:DateTime}, whose value is the first column of the first row; or a board, which is sent as a report.'
} as const
const every = { type: 'string', enum: ['hour', 'day', 'week'], description: 'Window length, UTC; week: from Monday, for boards only.' } as const
const condition = {
  ...nullableObject({ is: { type: 'string', enum: CONDITIONS }, value: number }, 'Null for a board. rises_by and falls_by: percent against the same window a week before, more than 0; falls_by at most 100.'), additionalProperties: false
} as const

const fields = {
  about, every, condition,
  targets: { ...array(id), minItems: 1, maxItems: 20, uniqueItems: true, description: 'Ids of targets.' },
  enabled: { type: 'boolean' }
} as const

const NEW: Subject & { targets: number[] } = { about: { kind: 'question', id: 0 }, every: 'hour', condition: null, targets: [] }

const ALERTS: DocumentKind<typeof fields> = {
  table: 'alerts', id: 'Alert', noun: 'alert', plural: 'alerts', fields,
  defaults: { condition: null, enabled: true },
  state: {
    is_firing: { type: 'boolean' },
    evaluated_through: { ...timeOrNull, description: 'End of the last evaluated window; null before the first.' },
    last_error: { type: ['string', 'null'], description: 'Why the next window could not be evaluated; it is retried.' }
  },
  shown: { evaluated_through: '(SELECT max(window_to) FROM alert_windows WHERE alert_id = q.id)', last_error: "(SELECT nullif(error, '') FROM window_tasks WHERE subject = 'alert:' || q.id)" }
}

/** Checks an alert before it is stored; a saved query runs once. */
function createCheck (deps: QuestionDeps): NonNullable<typeof ALERTS.check> {
  return async (given, { sql, access, projectId, id: changed = null }) => {
    const [stored = NEW] = await sql<typeof NEW[]>`
      SELECT about, every, condition, targets FROM alerts WHERE project_id = ${projectId} AND id = ${changed}::integer`
    const alert = Object.assign({}, stored, given)
    await checkSubject(alert, { sql, access, projectId })
    const known = await sql<{ id: number }[]>`SELECT id FROM targets WHERE project_id = ${projectId} AND id = ANY (${alert.targets}::integer[])`
    const unknown = alert.targets.findIndex((target) => known.every((each) => each.id !== target))
    if (unknown !== -1) throw invalidField(`targets__${unknown}`, `The project has no target ${alert.targets[unknown]}.`)
    // The query may have been changed since; a broken one must not keep its alert from being disabled.
    if (alert.about.kind === 'saved_query' && given.enabled !== false) await tryWindow(deps, alert, access)
    const { users } = await readMaker(sql, access)
    return { ...given, may_run_sql: access.maySql, made_by_users: `{${users.join()}}` }
  }
}

type Subject = Value<typeof dryRunBody>

/** @throws {HttpError} 400, or 403 for SQL with a key of some projects. */
async function checkSubject (
  { about: { kind, id: subject }, every: interval, condition: wanted = null }: Subject,
  { sql, access, projectId }: { sql: Sql, access: Access, projectId: number }
): Promise<void> {
  if (kind === 'saved_query') requireSql(access)
  const table = { question: 'questions', saved_query: 'saved_queries', board: 'boards' }[kind]
  const [found] = await sql<{ definition?: unknown, query?: string }[]>`SELECT * FROM ${sql.unsafe(table)} WHERE project_id = ${projectId} AND id = ${subject}`
  if (found === undefined) throw invalidField('about__id', `The project has no ${kind.replace('_', ' ')} ${subject}.`)
  if (kind === 'board') {
    if (wanted !== null) throw invalidField('condition', 'A board has no condition: it is sent for each window.')
    if (interval === 'hour') throw invalidField('every', 'A board is sent each day or each week.')
    return
  }
  if (wanted === null) throw invalidField('condition', 'This field is required.', 'required')
  const useless = refuseCondition(wanted)
  if (useless !== null) throw invalidField('condition__value', useless)
  if (interval === 'week') throw invalidField('every', 'An alert is evaluated each hour or each day.')
  const refusal = kind === 'question' ? refuseQuestion(readQuestion(found.definition)) : null
  if (refusal !== null) throw invalidField('about__id', refusal)
  if (kind === 'saved_query' && !namesWindow(found.query ?? '')) throw invalidField('about__id', 'The query needs the parameters {from:DateTime} and {to:DateTime}, between which it counts.')
}

const dryRunBody = bodyOf({ about, every, condition }, 'about', 'every', 'condition')
const windowFields = {
  from: time, to: time, value: { ...numberOrNull, description: 'Null: no number.' }, before: { ...numberOrNull, description: 'Value a week before; null: not compared.' },
  outcome: { type: ['string', 'null'], enum: ['fired', 'resolved', 'sent', null] }
} as const

type AlertRoutesDeps = QuestionDeps & { publicUrl: string }

/** Targets, and what is sent to them. */
export async function notificationRoutes (app: FastifyInstance, deps: AlertRoutesDeps): Promise<void> {
  await app.register(targetRoutes, { prefix: '/targets', ...deps })
  await app.register(alertRoutes, { prefix: '/alerts', ...deps })
}

/** Alerts on questions and saved queries, and reports of boards (`pipeline/windows/alerts/` evaluates them). */
async function alertRoutes (app: FastifyInstance, deps: AlertRoutesDeps): Promise<void> {
  const { sql } = deps
  const routes = routesOf(app, { tag: 'alerts', object: 'query' })
  await documentRoutes(app, deps, { ...ALERTS, check: createCheck(deps) })

  routes.get('/:id/windows', {
    summary: 'List the evaluated windows of an alert', description: 'Newest first, at most 1,000, for 90 days.', params: idParams,
    answer: object({ results: array(object(windowFields)) })
  }, async ({ params }, { projectId }) => {
    await findDocument(sql, ALERTS, { projectId, id: params.id })
    const results = await sql`
      SELECT window_from AS "from", window_to AS "to", value, before, outcome FROM alert_windows WHERE alert_id = ${params.id} ORDER BY window_to DESC LIMIT 1000`
    return { results }
  })

  routes.post('/dry_run', {
    scope: 'query:read', summary: 'Show when an alert would have fired',
    description: 'Evaluates the closed windows of the last 30 days; for a saved query, as many as run within 45 s, newest first.',
    body: dryRunBody,
    answer: object({ from: time, to: time, windows: { type: 'integer' }, results: { ...array(object(windowFields)), description: 'Windows in which it would have fired or resolved, oldest first.' } })
  }, async ({ body }, access, reply) => {
    await checkSubject(body, { sql, access, projectId: access.projectId })
    if (body.about.kind === 'board' || body.condition === null) throw invalidField('about__kind', 'A board has no condition that could be met.')
    return await runDry(deps, { ...body, condition: body.condition }, { access, reply })
  })
}
