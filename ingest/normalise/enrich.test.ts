import t from 'tap'
import { openGeoip } from '../../engines/enrichment/geoip.ts'
import { buildMmdb } from '../../platform/testing/build-mmdb.ts'
import type { RequestContext } from '../event.ts'
import { createEnrich, createIsBot } from './enrich.ts'

const CHROME = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36'
const GOOGLEBOT = 'Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)'
const USER = '81.2.69.142'
const OTHER = '2.125.160.9'

const locate = openGeoip(buildMmdb({
  '81.2.69.0/24': { country: { iso_code: 'GB' }, city: { names: { en: 'London' } }, location: { latitude: 51.5 } },
  '2.125.160.0/24': { country: { iso_code: 'FR' } }
}))
const enrich = createEnrich({ isBot: createIsBot(), locate })

function contextOf (userAgent: string, change: Partial<RequestContext> = {}): RequestContext {
  return {
    project: { id: 1, anonymizeIps: false }, requestId: 'r', receivedAt: 0, sentAt: null, ip: '', historical: false,
    visitor: { address: USER, userAgent }, isAttemptTime: false, ...change
  }
}
const country = (properties: object, context: RequestContext): unknown =>
  enrich(properties as Record<string, unknown>, false, context).place?.$geoip_country_code
const isBot = (properties: object, userAgent: string): boolean =>
  enrich(properties as Record<string, unknown>, false, contextOf(userAgent)).isBot

t.test('bots are recognized by the user agent of the user, never by that of a server', async (t) => {
  t.equal(isBot({ $lib: 'web' }, GOOGLEBOT), true)
  t.equal(isBot({ $lib: 'web' }, CHROME), false)
  t.equal(isBot({}, GOOGLEBOT), true, 'a page that posts by itself')
  t.equal(isBot({ $lib: 'web', $raw_user_agent: CHROME }, GOOGLEBOT), false, 'what the event says comes first')
  for (const name of ['$raw_user_agent', '$user_agent', '$useragent']) t.equal(isBot({ $lib: 'posthog-node', [name]: GOOGLEBOT }, 'posthog-node/5'), true, name)
  for (const [lib, userAgent] of [['posthog-python', 'python-requests/2'], ['posthog-node', 'node-fetch'], ['posthog-go', 'Go-http-client/2.0'],
    ['posthog-android', 'okhttp/4.12'], ['own', GOOGLEBOT], [undefined, 'curl/8.5']] as const) {
    t.equal(isBot(lib === undefined ? {} : { $lib: lib }, userAgent), false, `${lib} ${userAgent}`)
  }
  t.equal(isBot({ $lib: 'web', $is_server: true }, GOOGLEBOT), false)
  t.equal(isBot({ $lib: 'web' }, ''), false)
  t.equal(isBot({ $raw_user_agent: 7 }, 'curl/8'), false)
})

t.test('many and long user agents neither fill the memory nor take time', async (t) => {
  const long = `Mozilla/5.0 ${'a'.repeat(200_000)}`
  const before = process.cpuUsage()
  for (let n = 0; n < 20_000; n++) isBot({ $lib: 'web' }, `${long.slice(0, 100 + n % 400)} ${n}`)
  for (let n = 0; n < 100; n++) isBot({ $lib: 'web' }, `${n}${long}`)

  t.ok(process.cpuUsage(before).user < 5_000_000)
  t.equal(isBot({ $lib: 'web' }, GOOGLEBOT), true)
})

t.test('the place is that of the user: the sender when it is a device, and an address that the event names', async (t) => {
  for (const $lib of ['web', 'posthog-ios', 'posthog-android', 'posthog-react-native', 'posthog-flutter', 'analytics.js']) t.equal(country({ $lib }, contextOf('')), 'GB', $lib)
  t.equal(country({}, contextOf(CHROME)), 'GB')
  t.equal(country({}, contextOf('posthog-ios/3.1')), 'GB')
  for (const $lib of ['posthog-node', 'posthog-python', 'own', '']) t.equal(country({ $lib }, contextOf(CHROME)), undefined, $lib)
  t.equal(country({}, contextOf('curl/8.5')), undefined)
  t.equal(country({ $lib: 'posthog-node', $ip: OTHER }, contextOf('')), 'FR')
  t.equal(country({ $lib: 'web', $ip: OTHER }, contextOf(CHROME)), 'FR')
  t.equal(country({ $lib: 'web', $ip: 'nonsense' }, contextOf(CHROME)), undefined)
  t.equal(country({ $lib: 'web' }, contextOf(CHROME, { historical: true })), undefined, 'an import comes from a script')
})

t.test('a place is not looked up when it is turned off or was sent', async (t) => {
  t.equal(country({ $lib: 'web', $geoip_disable: true }, contextOf(CHROME)), undefined)
  t.equal(country({ $lib: 'web', $geoip_disable: false }, contextOf(CHROME)), 'GB')
  t.equal(country({ $lib: 'web', $geoip_country_code: 'XX' }, contextOf(CHROME)), undefined)
})

t.test('where addresses are not stored, only the country is', async (t) => {
  const anonymous = contextOf(CHROME, { project: { id: 1, anonymizeIps: true } })

  t.match(enrich({ $lib: 'web' }, false, contextOf(CHROME)).place, { $geoip_country_code: 'GB', $geoip_city_name: 'London', $geoip_latitude: 51.5 })
  t.same(enrich({ $lib: 'web' }, false, anonymous).place, { $geoip_country_code: 'GB' })
  t.same(enrich({ $lib: 'web' }, true, contextOf(CHROME)).place, { $geoip_country_code: 'GB' })
})
