import { fastify } from 'fastify'
import t from 'tap'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { takePublishedEvents } from '../testing/read-published-events.ts'
import { PROJECT_KEY, startTestIngest } from '../testing/start-test-ingest.ts'

const clickhouse = await createTestClickHouse(t)

/** Answers with the forwarded headers that reach it. */
const api = fastify()
api.post('/decide/', async ({ headers }) => ({
  for: headers['x-forwarded-for'], host: headers['x-forwarded-host'], proto: headers['x-forwarded-proto']
}))
const apiUrl = await api.listen({ port: 0, host: '127.0.0.1' })
t.teardown(async () => await api.close())

/** Tests come from 127.0.0.1; what is stored, by what the setting and the header say. */
const cases: [setting: string, headers: [header: string | undefined, address: string][]][] = [
  ['', [[undefined, '127.0.0.1'], ['192.0.2.7', '127.0.0.1']]],
  ['10.0.0.0/8', [['192.0.2.7', '127.0.0.1'], ['192.0.2.7, 10.0.0.1', '127.0.0.1']]],
  ['loopback, 203.0.113.0/24', [
    [undefined, '127.0.0.1'],
    ['192.0.2.7', '192.0.2.7'],
    ['2001:db8::7', '2001:db8::7'],
    ['198.51.100.1, 192.0.2.7', '192.0.2.7'],
    ['192.0.2.9, 198.51.100.1, 203.0.113.7', '198.51.100.1'],
    ['192.0.2.7:4567', '192.0.2.7'],
    ['[2001:db8::7]:4567', '2001:db8::7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['unknown', '127.0.0.1'],
    ['192.0.2.7, <script>', '127.0.0.1'],
    ['', '127.0.0.1']
  ]]
]

for (const [setting, headers] of cases) {
  t.test(`X-Forwarded-For is believed from ${setting === '' ? 'nobody' : setting}, and the API is told the same`, async (t) => {
    const ingest = await startTestIngest(t, { MILLRACE_TRUSTED_PROXIES: setting, MILLRACE_API_URL: apiUrl })
    const isTrusted = setting.includes('loopback')
    for (const [index, [header, address]] of headers.entries()) {
      const init = {
        headers: {
          'content-type': 'application/json', 'x-forwarded-host': 'events.example', 'x-forwarded-proto': 'https',
          ...(header === undefined ? {} : { 'x-forwarded-for': header })
        }
      }
      // Small ones, and some that a thread takes.
      const properties = { filler: 'x'.repeat(index < 2 ? 300_000 : 0), address }
      t.equal((await ingest.post('/capture/', { api_key: PROJECT_KEY, event: 'e', distinct_id: 'd', properties }, init)).status, 200)

      const told = await (await ingest.post('/decide/', {}, init)).json() as Record<string, string>
      t.match(told, {
        for: isTrusted && header !== undefined && header !== '' ? header.split(', ').at(header.includes('203') ? -2 : -1) : '127.0.0.1',
        host: isTrusted ? 'events.example' : new URL(ingest.url).host,
        proto: isTrusted ? 'https' : 'http'
      })
    }

    const stored = await takePublishedEvents(ingest.connection, clickhouse)
    t.equal(stored.length, headers.length)
    for (const { ip, properties } of stored) t.equal(ip, (JSON.parse(properties) as { address: string }).address)
  })
}
