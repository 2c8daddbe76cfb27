import type { FastifyInstance } from 'fastify'
import { HttpError } from '../../engines/errors.ts'
import { type Assets, loadAssets } from './bundle-assets.ts'

/** Everything comes from our own origin, and nothing is inline. */
const CONTENT_SECURITY_POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
  "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const ONE_YEAR = 'public, max-age=31536000, immutable'

let assets: Promise<Assets> | undefined

/** Once for a process. What fails, such as for lack of memory, is tried again by the next request. */
async function getAssets (): Promise<Assets> {
  assets ??= loadAssets().catch((error: unknown) => {
    assets = undefined
    throw error
  })
  return await assets
}

/** The console: its page and files. All data comes from the management API. */
export async function consoleRoutes (app: FastifyInstance): Promise<void> {
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
}

function chooseEncoding (accepted: string = ''): 'gzip' | 'identity' {
  const isZipped = accepted.split(',').some((entry) => /^\s*gzip\b(?!\s*;\s*q=0(?:\.0*)?\s*$)/.test(entry))
  return isZipped ? 'gzip' : 'identity'
}
