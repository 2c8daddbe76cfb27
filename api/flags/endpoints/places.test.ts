import t from 'tap'
import { openGeoip } from '../../../engines/enrichment/geoip.ts'
import { buildMmdb } from '../../../platform/testing/build-mmdb.ts'
import { addFlags, createTestDecide } from '../../testing/create-test-decide.ts'

const CHROME = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36'
const GERMAN = '5.1.2.3'

const locate = openGeoip(buildMmdb({ '5.1.0.0/16': { country: { iso_code: 'DE' } }, '2.125.160.0/24': { country: { iso_code: 'FR' } } }))
const decide = await createTestDecide(t, { locate })
await addFlags(decide, [
  { key: 'german', filters: { groups: [{ properties: [{ key: '$geoip_country_code', value: ['DE'], operator: 'exact', type: 'person' }] }] } }
])

/** Whether the flag for Germany is on. */
async function isGerman (path: string, body: object, headers: Record<string, string>): Promise<unknown> {
  const response = await fetch(decide.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ token: decide.projectKey, distinct_id: 'ann', ...body })
  })
  t.equal(response.status, 200)
  const { featureFlags, flags } = await response.json() as Record<string, Record<string, any> | undefined>
  return featureFlags?.german ?? flags?.german.enabled
}

t.test('flags are targeted at the country of the user, in both endpoints', async (t) => {
  const browser = { 'x-forwarded-for': GERMAN, 'user-agent': CHROME }
  for (const path of ['/flags/?v=2', '/decide/?v=3', '/decide/?v=4']) {
    t.equal(await isGerman(path, {}, browser), true, path)
    t.equal(await isGerman(path, {}, { ...browser, 'x-forwarded-for': '2.125.160.9' }), false, `${path} of another country`)
    t.equal(await isGerman(path, { geoip_disable: true }, browser), false, `${path} turned off`)
  }
  t.equal(await isGerman('/flags/?v=2', {}, { ...browser, 'user-agent': 'posthog-ios/3.1' }), true, 'an app')
  t.equal(await isGerman('/flags/?v=2', { person_properties: { plan: 'pro' } }, browser), true, 'beside other properties')
  t.equal(await isGerman('/flags/?v=2', { person_properties: { $geoip_country_code: 'FR' } }, browser), false, 'sent properties take precedence')
})

t.test('the address of a server is not taken for the user\'s', async (t) => {
  const server = { 'x-forwarded-for': GERMAN, 'user-agent': 'posthog-node/5.70.0' }

  t.equal(await isGerman('/flags/?v=2', {}, server), false)
  t.equal(await isGerman('/flags/?v=2', { evaluation_runtime: 'server' }, { ...server, 'user-agent': CHROME }), false)
  t.equal(await isGerman('/flags/?v=2', { person_properties: { $ip: GERMAN } }, { ...server, 'x-forwarded-for': '2.125.160.9' }), true, 'but an address that it names is')
  t.equal(await isGerman('/flags/?v=2', { person_properties: { $ip: 'nonsense' } }, server), false)
})
