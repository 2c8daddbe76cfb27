import fastify from 'fastify'
import t from 'tap'
import { buildPage, type PageContent } from './pagination.ts'
import { isIsoDateTime, parseIsoDateTime } from './request-values.ts'

interface Ask {
  url: string
  headers?: Record<string, string>
  base?: string
  content?: Partial<PageContent<number>>
}

/** Builds the page that a request of this form gets; 250 items in all. */
async function ask ({ url, headers = {}, base = '', content = {} }: Ask): Promise<any> {
  const app = fastify({ routerOptions: { ignoreTrailingSlash: true } })
  app.get('/things', async (request) => {
    const { limit = '100', offset = '0' } = request.query as Record<string, string>
    request.query = { limit: Number(limit), offset: Number(offset) }
    const length = Math.max(0, Math.min(Number(limit), 250 - Number(offset)))
    const results = Array.from({ length }, (_, index) => index)
    return buildPage(request, base, { results, count: 250, ...content })
  })
  return (await app.inject({ url, headers: { host: 'example.com', ...headers } })).json()
}

t.test('links the next and previous page, absolute, with limit, offset and every other filter', async (t) => {
  const page = await ask({ url: '/things/?search=a%20b&limit=100&offset=100&event_names=%5B%22x%22%5D' })

  t.match(page, {
    count: 250,
    next: 'http://example.com/things/?search=a+b&limit=100&offset=200&event_names=%5B%22x%22%5D',
    previous: 'http://example.com/things/?search=a+b&limit=100&offset=0&event_names=%5B%22x%22%5D'
  })
})

t.test('ends where the items end', async (t) => {
  t.match(await ask({ url: '/things' }), { next: 'http://example.com/things?limit=100&offset=100', previous: null })
  t.match(await ask({ url: '/things?offset=200' }), { next: null, previous: /offset=100/ })
  t.match(await ask({ url: '/things?limit=50&offset=200' }), { next: null, previous: /limit=50&offset=150/ })
  t.match(await ask({ url: '/things?offset=30' }), { next: /offset=130/, previous: /offset=0/ })
  t.match(await ask({ url: '/things?offset=1000' }), { results: [], next: null, previous: /offset=900/ })
})

t.test('carries the place of the last item beside the offset, and not backwards', async (t) => {
  const page = await ask({ url: '/things?after=old&offset=100', content: { after: 'here', more: true } })

  t.match(page, { next: 'http://example.com/things?after=here&offset=200&limit=100', previous: 'http://example.com/things?offset=0&limit=100' })
})

t.test('uses the address the client used, behind proxies too, if it is valid', async (t) => {
  const next = async (headers: Record<string, string>, base?: string): Promise<string> =>
    (await ask({ url: '/things', headers, ...(base === undefined ? {} : { base }) })).next

  t.match(await next({ 'x-forwarded-proto': 'https', 'x-forwarded-host': 'events.example.org' }), /^https:\/\/events\.example\.org\/things/)
  t.match(await next({ 'x-forwarded-proto': 'https, http', 'x-forwarded-host': 'a.example, b.example:80' }), /^https:\/\/a\.example\/things/)
  t.match(await next({ 'x-forwarded-host': 'evil.example/path?' }), /^http:\/\/example\.com\/things/)
  t.match(await next({ 'x-forwarded-proto': 'javascript' }), /^http:\/\/example\.com\/things/)
  t.match(await next({ host: '[::1]:8000' }), /^http:\/\/\[::1\]:8000\/things/)
  t.match(await next({ 'x-forwarded-host': 'ignored.example' }, 'https://public.example/millrace/'), /^https:\/\/public\.example\/millrace\/things/)
})

t.test('reads dates and date-times, as UTC when they name no zone', async (t) => {
  const cases: [string, string][] = [
    ['2026-01-02', '2026-01-02T00:00:00.000Z'], ['2026-01-02T03:04:05Z', '2026-01-02T03:04:05.000Z'],
    ['2026-01-02T03:04', '2026-01-02T03:04:00.000Z'], ['2026-01-02 03:04:05.6', '2026-01-02T03:04:05.600Z'],
    ['2026-01-02T03:04:05.123456+02:00', '2026-01-02T01:04:05.123Z'], ['2026-01-02T03:04:05-0330', '2026-01-02T06:34:05.000Z'],
    ['2024-02-29', '2024-02-29T00:00:00.000Z'], ['1000-01-01', '1000-01-01T00:00:00.000Z']
  ]

  for (const [text, instant] of cases) t.equal(parseIsoDateTime(text)?.toISOString(), instant, text)
})

t.test('refuses dates that are not in the calendar', async (t) => {
  for (const text of ['', 'now', '2026', '2026-13-01', '2026-02-30', '2025-02-29', '2026-01-02T24:00:00Z', '2026-01-02T03:60Z',
    '2026-01-02T03:04:05+99:99', '1700000000', '02/01/2026', '0000-01-01', '0001-01-01', '0999-12-31', '2026-01-02T03:04:05Z; DROP']) {
    t.equal(isIsoDateTime(text), false, text)
  }
})
