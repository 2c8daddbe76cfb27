import type { FastifyInstance } from 'fastify'
import { invalidField } from '../../engines/errors.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { listRetention } from '../../platform/retention-rules.ts'
import type { RetentionRule } from '../../schema/retention.ts'
import { array, object, partial } from '../http/json-schema.ts'
import { accessOf, requireAllProjects } from '../http/personal-key-access.ts'
import { routesOf } from '../http/routes.ts'

const what = { type: 'string', enum: ['events', 'dead_letters'] } as const
const projectId = { type: 'integer', minimum: 1, maximum: 2_147_483_647 } as const
const rule = object({
  what,
  project_id: { ...projectId, type: ['integer', 'null'], description: 'Null: the default for projects without their own rule. Dead letters have only this default.' },
  days: { type: ['integer', 'null'], minimum: 1, maximum: 36_500, description: 'Full days to keep, by the timestamp of events in UTC; null: forever.' }
}, { additionalProperties: false })
const rules = object({ results: array(rule) })

/** How long events and dead letters are stored, for keys of all projects. */
export async function retentionRoutes (app: FastifyInstance, { sql }: { sql: Sql }): Promise<void> {
  const routes = routesOf(app, { tag: 'installation', object: 'project' })
  app.addHook('preValidation', async (request) => { requireAllProjects(accessOf(request)) })
  const list = async (): Promise<object> => ({
    results: (await listRetention(sql)).map(({ what, projectId, days }) => ({ what, project_id: projectId, days }))
  })

  routes.get('/', { summary: 'List retention rules', description: 'Data without a rule is kept forever.', answer: rules }, list)

  routes.post('/', {
    scope: '*', summary: 'Set a retention rule', body: rule, answer: rules,
    description: 'Older data is permanently deleted within an hour. Requires a key for all projects.'
  }, async ({ body: { what, project_id: projectId, days } }) => {
    if (what === 'dead_letters' && projectId !== null) {
      throw invalidField('project_id', 'Dead letters have one rule, of all projects: it must be null.')
    }
    await setRetention(sql, { what, projectId, days })
    return await list()
  })

  routes.delete('/', {
    scope: '*', summary: 'Remove a retention rule',
    query: partial({ what, project_id: { ...projectId, description: 'Absent: the rule of all projects.' } }, 'what')
  }, async ({ query: { what, project_id: projectId = null } }) => { await clearRetention(sql, { what, projectId }) })
}

/**
 * Sets or replaces a rule. It takes effect with the next round of a pipeline process, within an hour.
 *
 * @throws {HttpError} 400 when there is no such project.
 */
export async function setRetention (sql: Sql, { what, projectId, days }: RetentionRule): Promise<void> {
  if (projectId !== null && (await sql`SELECT 1 FROM projects WHERE id = ${projectId}`).length === 0) {
    throw invalidField('project_id', `There is no project ${projectId}.`)
  }
  await sql`
    INSERT INTO retention (what, project_id, days) VALUES (${what}, ${projectId}, ${days})
    ON CONFLICT (what, project_id) DO UPDATE SET days = excluded.days, updated_at = now()`
}

/** Removes a rule: a project follows the deployment again. */
export async function clearRetention (sql: Sql, { what, projectId }: Omit<RetentionRule, 'days'>): Promise<void> {
  await sql`DELETE FROM retention WHERE what = ${what} AND project_id IS NOT DISTINCT FROM ${projectId}`
}
