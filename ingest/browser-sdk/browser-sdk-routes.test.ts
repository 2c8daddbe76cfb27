import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import http, { type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { createRequire } from 'node:module'
import path from 'node:path'
import { runInThisContext } from 'node:vm'
import zlib from 'node:zlib'
import t from 'tap'
import { PROJECT_KEY, startTestIngest } from '../testing/start-test-ingest.ts'

const require = createRequire(import.meta.url)
const PACKAGE = path.dirname(require.resolve('posthog-js/package.json'))
const { version: VERSION } = require('posthog-js/package.json') as { version: string }

// Nothing listens there: the API is not needed.
const { url } = await startTestIngest(t, { MILLRACE_API_URL: 'http://127.0.0.1:9' })

interface Answer {
  status: number
  headers: IncomingHttpHeaders
  body: Buffer
}

/** Sends the path and no header but these as they are, and leaves the body as it came. */
async function get (path: string, headers: Record<string, string> = {}): Promise<Answer> {
  const { hostname, port } = new URL(url)
  const request = http.request({ hostname, port, path, headers, agent: false })
  request.end()
  const [answer] = await once(request, 'response') as [IncomingMessage]
  const body = Buffer.concat(await answer.toArray() as Buffer[])
  return { status: answer.statusCode ?? 0, headers: answer.headers, body }
}

t.test('the script of the snippet is the file of the package, compressed as the client can read it', async (t) => {
  const published = await readFile(path.join(PACKAGE, 'dist', 'array.js'))

  const plain = await get('/static/array.js')
  const gzipped = await get('/static/array.js', { 'accept-encoding': 'gzip' })
  const brotli = await get('/static/array.js', { 'accept-encoding': 'gzip, deflate, br' })

  t.match(plain, { status: 200, headers: { 'access-control-allow-origin': '*', 'content-type': /^application\/javascript/ } })
  t.ok(plain.body.equals(published))
  t.ok(zlib.gunzipSync(gzipped.body).equals(published))
  t.ok(zlib.brotliDecompressSync(brotli.body).equals(published))
  t.match(brotli.headers, { 'content-encoding': 'br', vary: 'Accept-Encoding', link: '</static/LICENSE>; rel="license"' })
  t.ok(brotli.body.length < gzipped.body.length && gzipped.body.length < plain.body.length / 2)
  t.equal(await (await fetch(`${url}/static/LICENSE`)).text(), await readFile(path.join(PACKAGE, 'LICENSE'), 'utf8'))
})

t.test('a client that has a script is answered 304, by the tag of the encoding that it has', async (t) => {
  const { headers } = await get('/static/array.js', { 'accept-encoding': 'br' })
  const etag = headers.etag ?? ''

  const again = await get('/static/array.js', { 'accept-encoding': 'br', 'if-none-match': `"other", W/${etag}` })
  const otherEncoding = await get('/static/array.js', { 'if-none-match': etag })

  t.match(again, { status: 304, headers: { etag } })
  t.equal(again.body.length, 0)
  t.equal(otherEncoding.status, 200)
})

t.test('an address with the version is cached indefinitely, others for an hour', async (t) => {
  const cacheControl = async (path: string): Promise<string | null> => {
    const { status, headers } = await fetch(url + path, { method: 'HEAD' })
    return status === 200 ? headers.get('cache-control') : `${status}`
  }
  const forEver = 'public, max-age=31536000, immutable'

  t.equal(await cacheControl(`/static/${VERSION}/exception-autocapture.js`), forEver)
  t.equal(await cacheControl(`/static/exception-autocapture.js?v=${VERSION}`), forEver)
  t.match(await cacheControl('/static/exception-autocapture.js?v=1.0.0'), 'max-age=3600')
  t.match(await cacheControl(`/static/${VERSION.split('.')[0]}/array.js`), 'max-age=3600')
  t.match(await cacheControl('/static/array.js.map'), 'max-age=3600')
  t.equal(await cacheControl('/static/1.0.0/array.js'), '404')
})

t.test('what the package does not have for pages is 404, for pages of any origin, whatever the path', async (t) => {
  const paths = [
    '/static/toolbar.js', '/static/module.js', '/static/', '/static/../package.json', '/static/%2e%2e%2fpackage.json',
    '/static/..%2f..%2f..%2fpackage.json', `/static/${VERSION}/..%2fLICENSE`, '/static/__proto__', '/array/x/y.js', '/array/'
  ]

  for (const path of paths) {
    const { status, headers } = await get(path, { origin: 'https://shop.example' })
    t.match({ status, origin: headers['access-control-allow-origin'] }, { status: 404, origin: /^(?:\*|https:..shop.example)$/ }, path)
  }
})

t.test('the remote configuration comes as JSON, as a script, and with the SDK behind it', async (t) => {
  const config = await fetch(`${url}/array/${PROJECT_KEY}/config`, { headers: { origin: 'https://shop.example' } })
  const script = await (await fetch(`${url}/array/${PROJECT_KEY}/config.js`)).text()
  const both = await (await fetch(`${url}/array/${PROJECT_KEY}/array.js`)).text()

  const sent = await config.json() as Record<string, unknown>
  t.match(sent, { token: PROJECT_KEY, hasFeatureFlags: true, analytics: { endpoint: '/e/' }, sessionRecording: false })
  t.notOk('surveys' in sent, 'for any other value, posthog-js loads the script of surveys')
  t.match(Object.fromEntries(config.headers), {
    'access-control-allow-origin': 'https://shop.example', 'cache-control': /max-age=300/, vary: 'Origin, Accept-Encoding'
  })
  const window: any = {}
  runInThisContext(`(window) => {${script}}`)(window)
  t.same(window._POSTHOG_REMOTE_CONFIG[PROJECT_KEY].config, sent)
  t.equal(both, script + await readFile(path.join(PACKAGE, 'dist', 'array.js'), 'utf8'))
})

t.test('a key that is no project key has no configuration', async (t) => {
  for (const key of ['phc_nobody', 'phx_personal']) {
    const answer = await fetch(`${url}/array/${key}/config`, { headers: { origin: 'https://shop.example' } })
    t.match(await answer.json(), { code: 'invalid_api_key' })
    t.equal(answer.status, 401)
    t.equal(answer.headers.get('access-control-allow-origin'), 'https://shop.example')
  }
})

t.test('a preflight is answered', async (t) => {
  const preflight = await fetch(`${url}/array/${PROJECT_KEY}/config`, {
    method: 'OPTIONS', headers: { origin: 'https://shop.example', 'access-control-request-headers': 'x-a' }
  })

  t.match(Object.fromEntries(preflight.headers), { 'access-control-allow-headers': 'x-a', 'access-control-allow-methods': /GET/ })
})

t.end()
