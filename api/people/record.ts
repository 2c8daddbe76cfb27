import type { FastifyInstance, FastifyRequest } from 'fastify'
import { fastifyPlugin } from 'fastify-plugin'
import { fieldsOf } from '../../engines/fields.ts'
import { actors } from '../../platform/postgres/actor.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { allowsScope } from '../../schema/scopes.ts'
import type { Access } from '../http/personal-key-access.ts'

/** A line that no trigger writes: all but changes of tables. */
export interface RecordLine {
  kind: 'login' | 'logout' | 'refusal' | 'act' | 'read'
  /** For logins how: by password, key, link, ... */
  object: string
  userId?: number | null
  keyHash?: string
  address: string
  detail?: object
  objectId?: string
  projectId?: number | null
  /** Of a reading that has ended. */
  rows?: number
}

/** @returns the id of the line. */
export async function writeRecord (sql: Sql, line: RecordLine): Promise<string> {
  const { kind, object, objectId = '', projectId = null, userId = null, keyHash = '', address, detail = {}, rows = null } = line
  const [written] = await sql<[{ id: string }]>`
    INSERT INTO record (kind, object, object_id, project_id, user_id, key_id, address, detail, rows)
    VALUES (${kind}, ${object}, ${objectId}, ${projectId}, ${userId},
      (SELECT id FROM personal_api_keys WHERE secure_value = ${keyHash}), ${address}, ${sql.json(detail)}, ${rows})
    RETURNING id::text`
  return written.id
}

/** Where a request comes from; ingest, which forwards it, says so. */
export function addressOf ({ headers, ip }: FastifyRequest): string {
  const forwarded = headers['x-forwarded-for']
  return typeof forwarded === 'string' && forwarded.trim() !== '' ? forwarded.trim() : ip
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What the answer shows, or what the request acts on where no table changes. */
    recorded?: 'persons' | 'sql' | 'record' | 'dead_letters'
    /** The body stays out of the record, as it names somebody who is to be forgotten. */
    hasSecretBody?: true
  }
  interface FastifyRequest {
    /** Completes the line of this reading, once its rows are counted; null when it has none. */
    recordRows: ((rows: number) => Promise<void>) | null
  }
}

/**
 * Records requests: whoever changes something is known to the triggers of the tables, and whoever reads persons or SQL
 * leaves a line before the answer begins. Without the line there is no answer.
 */
export const recordRequests = fastifyPlugin(async (app: FastifyInstance, { sql }: { sql: Sql }) => {
  app.decorateRequest('recordRows', null)

  app.addHook('preHandler', async (request) => {
    const { access, sharedBoard, routeOptions: { config: { recorded, hasSecretBody, scope = '' } } } = request
    if (access === null || recorded === undefined) return
    // Flags are tested without persons then.
    if (recorded === 'persons' && !allowsScope(access.scopes, 'person:read')) return
    const { personal_api_key: _, ...query } = request.query as Record<string, unknown>
    const body = hasSecretBody === true ? null : request.body ?? null
    const detail = { method: request.method, path: request.url.split('?', 1)[0], query, body, link: sharedBoard?.linkId }
    const { id = '', tile_kind: tile } = request.params as { id?: unknown, tile_kind?: string }
    if (tile === 'question') return
    const line = await writeRecord(sql, {
      ...lineOf(access), kind: scope.endsWith(':write') ? 'act' : 'read', object: recorded, objectId: String(id),
      address: addressOf(request), detail
    })
    request.recordRows = async (rows) => { await sql`UPDATE record SET rows = ${rows} WHERE id = ${line}::bigint` }
  })

  app.addHook('preSerialization', async ({ recordRows }, { statusCode }, payload) => {
    await recordRows?.(statusCode < 400 ? countRows(payload) : 0)
    return payload
  })

  app.addHook('preHandler', (request, _reply, done) => {
    const { access, method } = request
    if (access === null || method === 'GET' || method === 'HEAD') return done()
    const { userId, keyHash, projectId } = lineOf(access)
    actors.run({ user_id: userId, key_hash: keyHash, project_id: projectId, address: addressOf(request) }, done)
  })
}, { name: 'record-requests' })

function lineOf (
  { userId, keyHash, projectId }: Access
): { userId: number | null, keyHash: string, projectId: number | null } {
  // Whoever has a link is nobody.
  return { userId: userId === 0 ? null : userId, keyHash, projectId: projectId === 0 ? null : projectId }
}

function countRows (payload: unknown): number {
  const { results, result } = fieldsOf(payload)
  const rows = results ?? fieldsOf(result).rows
  return Array.isArray(rows) ? rows.length : 1
}
