import type { FastifyInstance } from 'fastify'
import { HttpError } from '../../engines/errors.ts'
import { type Assets, loadAssets } from './bundle-assets.ts'
import { eventRoutes, type EventRoutesOptions } from '../../api/events/live/live-routes.ts'
import { lookupRoutes } from '../../api/events/lookup-routes.ts'
import { personRoutes, type PersonRoutesOptions } from '../../api/persons/person-history-routes.ts'
import { refuseForeignRequests, requireProject, sessionRoutes, type SessionOptions } from './session-routes.ts'
import { sqlRoutes, type SqlRoutesOptions } from '../../api/queries/sql-routes.ts'

/** Everything comes from our own origin, and nothing is inline. */
const CONTENT_SECURITY_POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
  "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const ONE_YEAR = 'public, max-age=31536000, immutable'

/**
 * The console: its page and files, who is logged in, and what only the console reads. All data of a project comes from
 * the management API, to which a session gives the same access as its personal key (`findSessionKey`).
 */
export async function consoleRoutes (
  app: FastifyInstance, options: SessionOptions & EventRoutesOptions & PersonRoutesOptions & SqlRoutesOptions
): Promise<void> {
  let assets: Promise<Assets> | undefined
  const getAssets = async (): Promise<Assets> => {
    // What fails once, such as for lack of memory, is tried again by the next request.
    assets ??= loadAssets().catch((error: unknown) => {
      assets = undefined
      throw error
    })
    return await assets
  }

  // Before anybody asks: on a busy machine the first one would wait for seconds. A request says what fails.
  app.addHook('onListen', async () => { void getAssets().catch(() => {}) })
  app.addHook('onRequest', async (_, reply) => { reply.header('content-security-policy', CONTENT_SECURITY_POLICY) })
  app.get('/', { schema: { hide: true } }, async (_, reply) => await reply.redirect('/console', 302))
  for (const url of ['/console', '/console/*']) {
    app.get(url, { schema: { hide: true } }, async (_, reply) =>
      await reply.type('text/html; charset=utf-8').header('cache-control', 'no-cache').send((await getAssets()).page))
  }
  app.get<{ Params: { name: string } }>('/console/assets/:name', { schema: { hide: true } }, async (request, reply) => {
    const asset = (await getAssets()).files.get(request.params.name)
    if (asset === undefined) throw new HttpError(404, 'invalid_request', 'not_found', 'There is no such file.')
    const encoding = chooseEncoding(request.headers['accept-encoding'])
    if (encoding !== 'identity') reply.header('content-encoding', encoding)
    reply.header('vary', 'accept-encoding').header('cache-control', ONE_YEAR).type(asset.contentType)
    return await reply.send(asset.encodings[encoding])
  })
  await app.register(async (own) => {
    refuseForeignRequests(own)
    await own.register(sessionRoutes, options)
    await own.register(eventRoutes, options)
    await own.register(personRoutes, options)
    await own.register(sqlRoutes, options)
    await own.register(lookupRoutes, options)
    await own.register(cohortRoutes, options)
  })
}

/** Cohorts at most whose names are read; beyond that, sentences about flags have their ids. */
const MAX_COHORTS = 10_000

/** The names of cohorts, for the sentences of the screen of flags. */
async function cohortRoutes (app: FastifyInstance, options: Pick<SessionOptions, 'keys' | 'sessions' | 'sql'>): Promise<void> {
  app.get<{ Params: { project_id: number } }>('/console/data/projects/:project_id/cohorts', {
    schema: { hide: true, params: { type: 'object', properties: { project_id: { type: 'integer', minimum: 1, maximum: 2_147_483_647 } } } }
  }, async (request) => {
    const { project_id: projectId } = request.params
    await requireProject(request, { projectId, scope: 'feature_flag:read' }, options)
    const results = await options.sql`
      SELECT id, name FROM cohorts WHERE project_id = ${projectId} AND NOT deleted ORDER BY lower(name), id LIMIT ${MAX_COHORTS}`
    return { results }
  })
}

function chooseEncoding (accepted: string = ''): 'br' | 'gzip' | 'identity' {
  const names = accepted.split(',').filter((entry) => !/;\s*q=0(?:\.0*)?\s*$/.test(entry)).map((entry) => entry.split(';', 1)[0]!.trim())
  return names.includes('br') ? 'br' : names.includes('gzip') ? 'gzip' : 'identity'
}
