import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
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
