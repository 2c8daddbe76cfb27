import type { FastifyInstance } from 'fastify'
import { selectLimits } from '../../platform/directory/read-keys.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { hashPersonalKey } from '../../schema/key-text.ts'
import { type Limited, limitRights, maySql } from '../../schema/roles.ts'
import { allowsScope } from '../../schema/scopes.ts'
import { notFound } from '../http/answer-errors.ts'
import { object, string } from '../http/json-schema.ts'

type Found = Pick<Limited, 'limits'> & { png: Buffer, projectId: number, showsSql: boolean }

/** Pictures of boards that were sent. Slack's servers read them, and send nothing but the address. */
export async function reportPictureRoutes (app: FastifyInstance, { sql }: { sql: Sql }): Promise<void> {
  app.get<{ Params: { key: string } }>('/:key', {
    schema: {
      tags: ['boards'], security: [], summary: 'Retrieve a picture of a board that was sent',
      description: 'Available for 30 days, as long as the alert exists and everybody who saved it still has the rights that it needs.',
      params: object({ key: { ...string, description: 'Of the address in the report.' } }),
      response: { 200: { description: 'The picture.', content: { 'image/png': { schema: { type: 'string', format: 'binary' } } } } }
    }
  }, async ({ params: { key } }, reply) => {
    const [found] = await sql<Found[]>`
      SELECT p.png, p.shows_sql AS "showsSql", a.project_id AS "projectId", ${selectLimits(sql, sql`a.made_by_users`)}
      FROM report_pictures p JOIN alerts a ON a.id = p.alert_id
      WHERE p.key_hash = ${hashPersonalKey(key)} AND p.created_at > now() - interval '30 days' AND (a.may_run_sql OR NOT p.shows_sql)
        AND NOT EXISTS (SELECT FROM users u WHERE u.id = ANY(a.made_by_users) AND u.disabled_at IS NOT NULL)`
    if (found === undefined || !mayShow(found)) throw notFound()
    return await reply.type('image/png').header('cache-control', 'no-store').send(found.png)
  })
}

function mayShow ({ limits, projectId, showsSql }: Found): boolean {
  const maker = { scopes: ['*'], projectIds: null, limits }
  return allowsScope(limitRights(maker, projectId).scopes, 'query:write') && (!showsSql || maySql(maker))
}
