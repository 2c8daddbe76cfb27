import type { FastifyInstance } from 'fastify'
import { invalidField, MillraceError } from '../../engines/errors.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { clearRetention, listRetention, setRetention } from '../../platform/retention-rules.ts'
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
    await setRetention(sql, { what, projectId, days }).catch((cause: unknown) => {
      if (!(cause instanceof MillraceError)) throw cause
      throw invalidField('project_id', `There is no project ${projectId}.`, 'invalid_input', cause)
    })
    return await list()
  })

  routes.delete('/', {
    scope: '*', summary: 'Remove a retention rule',
    query: partial({ what, project_id: { ...projectId, description: 'Absent: the rule of all projects.' } }, 'what')
  }, async ({ query: { what, project_id: projectId = null } }) => { await clearRetention(sql, { what, projectId }) })
}
