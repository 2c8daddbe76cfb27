import { randomBytes } from 'node:crypto'
import t from 'tap'
import type { RequestContext } from '../event.ts'
import { COOKIELESS_ID, createTakeCookieless, isCookieless } from './cookieless.ts'

const NOON = Date.UTC(2026, 10, 21, 12)
const DAY = Math.floor(NOON / 86_400_000)
const HOUR_MS = 3_600_000

const salts = new Map([DAY - 1, DAY, DAY + 1].map((day) => [day, randomBytes(16)]))
const take = createTakeCookieless(() => salts)

const context: RequestContext = {
  project: { id: 1, anonymizeIps: true },
  requestId: 'r',
  receivedAt: NOON,
  sentAt: null,
  ip: '',
  historical: false,
  visitor: { address: '203.0.113.7', userAgent: 'Firefox' },
  isAttemptTime: false
}

function visitorOf (
  properties: Record<string, unknown> = {}, change: Partial<RequestContext> = {}, time = NOON
): string {
  return take({ distinctId: COOKIELESS_ID, properties }, time, { ...context, ...change }).distinctId
}

t.test('a visitor has one id a day, and another has another', async (t) => {
  const page = { $host: 'shop.example' }
  const own = visitorOf(page)
  const others = [
    visitorOf(page, { visitor: { ...context.visitor, address: '203.0.113.8' } }),
    visitorOf(page, { visitor: { ...context.visitor, userAgent: 'Chrome' } }),
    visitorOf(page, { project: { id: 2, anonymizeIps: true } }),
    visitorOf({ $host: 'other.example' }),
    visitorOf(page, {}, NOON - 24 * HOUR_MS),
    visitorOf(page, {}, NOON + 24 * HOUR_MS)
  ]

  t.match(own, /^cookieless_[\w-]{22}$/)
  t.equal(visitorOf({ ...page, $current_url: '/checkout' }, { requestId: 'another' }, NOON + 11 * HOUR_MS), own)
  t.equal(new Set([own, ...others]).size, 7)
})

t.test('a visitor is the same on every host and port of a site', async (t) => {
  const sites = [
    ['shop.example', 'www.shop.example', 'WWW.Shop.example:8443', 'pay.eu.shop.example', 'shop.example:3000', 'shop.example.'],
    ['shop.co.uk', 'www.shop.co.uk'], ['other.co.uk'], ['203.0.113.1', '203.0.113.1:8080'], ['203.0.113.2'],
    ['localhost', 'localhost:3000'], ['[2001:db8::1]', '[2001:db8::1]:8080'], ['co.uk'], ['']
  ]
  const ids = sites.map((hosts) => [...new Set(hosts.map(($host) => visitorOf({ $host })))])

  t.same(ids.filter(({ length }) => length !== 1), [])
  t.equal(new Set(ids.flat()).size, sites.length)
})

t.test('what a page adds tells visitors apart, and is not stored', async (t) => {
  const of = (extra: unknown): string => visitorOf({ $cookieless_extra: extra })
  const { properties } = take({ distinctId: COOKIELESS_ID, properties: { $cookieless_extra: 'room 5', plan: 'pro' } }, NOON, context)

  t.equal(of('room 5'), of('room 5'))
  t.equal(new Set([of('room 5'), of('room 6'), visitorOf()]).size, 3)
  t.equal(of('x'.repeat(101)), of('x'.repeat(100)))
  for (const nothing of ['', null, { room: 5 }]) t.equal(of(nothing), visitorOf())
  t.same(properties, { plan: 'pro' })
})

t.test('the day is that of the visitor', async (t) => {
  const inAuckland = { $timezone_offset: -13 * 60 }
  const midnightThere = NOON - HOUR_MS

  t.not(visitorOf(inAuckland, {}, midnightThere - 1), visitorOf(inAuckland, {}, midnightThere))
  t.equal(visitorOf(inAuckland, {}, midnightThere), visitorOf(inAuckland, {}, NOON))
  t.equal(visitorOf({ $timezone_offset: 1e9 }), visitorOf({}), 'an impossible offset is ignored')
})

t.test('a server that passes events on says whose they are', async (t) => {
  const direct = visitorOf()
  const passedOn = visitorOf({ $ip: '203.0.113.7', $raw_user_agent: 'Firefox' }, { visitor: { address: '10.0.0.1', userAgent: 'node' } })

  t.equal(passedOn, direct)
})

t.test('address and user agent leave the properties, also of an event with an id of its own', async (t) => {
  const properties = { $cookieless_mode: true, $ip: '203.0.113.7', $raw_user_agent: 'Firefox', plan: 'pro' }

  const own = take({ distinctId: 'ann', properties }, NOON, context)

  t.ok(isCookieless('ann', properties))
  t.same(own, { distinctId: 'ann', properties: { $cookieless_mode: true, plan: 'pro' } })
  t.same(take({ distinctId: COOKIELESS_ID, properties }, NOON, context).properties, { $cookieless_mode: true, plan: 'pro' })
  t.notOk(isCookieless('ann', {}))
})

t.test('an $identify names the visitor of the day, and never all visitors', async (t) => {
  const properties = { $cookieless_mode: true, $anon_distinct_id: COOKIELESS_ID }

  const known = take({ distinctId: 'ann', properties }, NOON, context)
  const tooOld = take({ distinctId: 'ann', properties }, NOON - 100 * HOUR_MS, context)

  t.same(known, { distinctId: 'ann', properties: { $cookieless_mode: true, $anon_distinct_id: visitorOf() } })
  t.same(tooOld, { distinctId: 'ann', properties: { $cookieless_mode: true }, missing: 'salt of the day' })
})

t.test('indistinguishable visitors keep the shared id, with the missing part', async (t) => {
  t.equal(visitorOf({}, {}, NOON - 72 * HOUR_MS), COOKIELESS_ID, 'the salt is destroyed')
  t.equal(visitorOf({}, { visitor: { address: '', userAgent: 'Firefox' } }), COOKIELESS_ID)
  t.equal(visitorOf({}, { visitor: { address: '203.0.113.7', userAgent: '' } }), COOKIELESS_ID)
  const missing = (time: number, visitor: RequestContext['visitor']): unknown =>
    take({ distinctId: COOKIELESS_ID, properties: {} }, time, { ...context, visitor }).missing
  t.same([
    missing(NOON, context.visitor), missing(NOON - 72 * HOUR_MS, context.visitor),
    missing(NOON, { address: '', userAgent: 'Firefox' }), missing(NOON, { address: '203.0.113.7', userAgent: '' })
  ], [undefined, 'salt of the day', 'address', 'user agent'])
})

t.end()
