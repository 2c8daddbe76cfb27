import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fastify } from 'fastify'
import t from 'tap'
import { buildMmdb } from '../../platform/testing/build-mmdb.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { takePublishedEvents } from '../testing/read-published-events.ts'
import { PROJECT_KEY, startTestIngest } from '../testing/start-test-ingest.ts'

const GOOGLEBOT = 'Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)'
const CHROME = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36'

const folder = await mkdtemp(path.join(tmpdir(), 'millrace-enriched-'))
t.teardown(async () => await rm(folder, { recursive: true, force: true }))
const file = path.join(folder, 'places.mmdb')
await writeFile(file, buildMmdb({
  '81.2.69.0/24': { country: { iso_code: 'GB' }, city: { names: { en: 'London' } } }, '2.125.160.0/24': { country: { iso_code: 'FR' } }
}))
const clickhouse = await createTestClickHouse(t)

t.test('bots and countries are stored with small and large bodies, whatever is done with the address', async (t) => {
  const ingest = await startTestIngest(t, { MILLRACE_GEOIP_PATH: file, MILLRACE_TRUSTED_PROXIES: 'loopback' })
  const send = async (name: string, properties: object, userAgent: string, filler = 0): Promise<void> => {
    const body = { api_key: PROJECT_KEY, event: name, distinct_id: 'd', properties: { ...properties, filler: 'x'.repeat(filler) } }
    const headers = { 'content-type': 'application/json', 'user-agent': userAgent, 'x-forwarded-for': '81.2.69.142' }
    t.equal((await ingest.post('/capture/?ip=0', body, { headers })).status, 200)
  }

  for (const [suffix, filler] of [['', 0], [' large', 300_000]] as const) {
    await send(`bot${suffix}`, { $lib: 'web' }, GOOGLEBOT, filler)
    await send(`person${suffix}`, { $lib: 'web' }, CHROME, filler)
    await send(`server${suffix}`, { $lib: 'posthog-node' }, 'curl/8', filler)
    await send(`on behalf${suffix}`, { $lib: 'posthog-node', $ip: '2.125.160.9', $raw_user_agent: GOOGLEBOT }, 'node', filler)
    await send(`disabled${suffix}`, { $lib: 'web', $geoip_disable: true }, CHROME, filler)
    await send(`own${suffix}`, { $lib: 'web', $geoip_country_code: 'XX' }, CHROME, filler)
    await send(`no cookies${suffix}`, { $lib: 'web', $cookieless_mode: true }, GOOGLEBOT, filler)
  }
  const stored = await takePublishedEvents(ingest.connection, clickhouse)

  const expected: Record<string, [isBot: boolean, country: string, city: string | undefined, ip: string]> = {
    bot: [true, 'GB', 'London', ''],
    person: [false, 'GB', 'London', ''],
    server: [false, '', undefined, ''],
    'on behalf': [true, 'FR', undefined, '2.125.160.9'],
    disabled: [false, '', undefined, ''],
    own: [false, 'XX', undefined, ''],
    'no cookies': [true, 'GB', undefined, '']
  }
  t.equal(stored.length, 14)
  for (const { event, is_bot: isBot, country, ip, properties, property_types: types } of stored) {
    const { $geoip_city_name: city, $geoip_country_code: code } = JSON.parse(properties) as Record<string, string>
    t.same([isBot, country, city, ip], expected[event.replace(' large', '')], event)
    t.equal(code ?? '', country, 'the property says the same')
    t.equal(String(types).includes('$geoip_country_code'), country !== '', 'and is described')
  }
})

t.test('a file that is damaged or missing stops nothing', async (t) => {
  await writeFile(path.join(folder, 'damaged.mmdb'), 'damaged')
  for (const name of ['damaged.mmdb', 'missing.mmdb']) {
    const ingest = await startTestIngest(t, { MILLRACE_GEOIP_PATH: path.join(folder, name) })

    const body = { api_key: PROJECT_KEY, event: 'e', distinct_id: 'd', properties: { $lib: 'web', $raw_user_agent: CHROME } }
    t.equal((await ingest.post('/capture/', body)).status, 200)
    t.match(await takePublishedEvents(ingest.connection, clickhouse), [{ event: 'e', country: '', is_bot: false }])
  }
})

/** Answers with the forwarded headers that reach it. */
const api = fastify()
api.post('/decide/', async ({ headers }) => ({
  for: headers['x-forwarded-for'], host: headers['x-forwarded-host'], proto: headers['x-forwarded-proto'],
  login: [headers['remote-user'] ?? [], headers['remote-groups'] ?? []].flat()
}))
const apiUrl = await api.listen({ port: 0, host: '127.0.0.1' })
t.teardown(async () => await api.close())

/** Tests come from 127.0.0.1; stored values by setting and header. */
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
  t.test(`X-Forwarded-For is believed from ${setting === '' ? 'nobody' : setting}, and by the API as well`, async (t) => {
    const ingest = await startTestIngest(t, { MILLRACE_TRUSTED_PROXIES: setting, MILLRACE_API_URL: apiUrl })
    const isTrusted = setting.includes('loopback')
    for (const [index, [header, address]] of headers.entries()) {
      const init = {
        headers: {
          'content-type': 'application/json', 'x-forwarded-host': 'events.example', 'x-forwarded-proto': 'https', 'remote-user': 'eve', 'Remote-Groups': 'admins',
          ...(header === undefined ? {} : { 'x-forwarded-for': header })
        }
      }
      // Small ones, and some that a thread takes.
      const properties = { filler: 'x'.repeat(index < 2 ? 300_000 : 0), address }
      t.equal((await ingest.post('/capture/', { api_key: PROJECT_KEY, event: 'e', distinct_id: 'd', properties }, init)).status, 200)

      const answer = await (await ingest.post('/decide/', {}, init)).json() as Record<string, unknown>
      t.match(answer, {
        for: isTrusted && header !== undefined && header !== '' ? header.split(', ').at(header.includes('203') ? -2 : -1) : '127.0.0.1',
        host: isTrusted ? 'events.example' : new URL(ingest.url).host,
        proto: isTrusted ? 'https' : 'http'
      })
      t.same(answer.login, isTrusted && header !== undefined && header !== '' ? ['eve', 'admins'] : [], `${header}: who has logged in`)
    }

    const stored = await takePublishedEvents(ingest.connection, clickhouse)
    t.equal(stored.length, headers.length)
    for (const { ip, properties } of stored) t.equal(ip, (JSON.parse(properties) as { address: string }).address)
  })
}
