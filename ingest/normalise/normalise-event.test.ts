import t from 'tap'
import { NO_LIMITS } from '../../test/support/plain-normaliser.ts'
import { type EventRow, PROMOTED_PROPERTIES, type RequestContext, type SentEvent } from '../event.ts'
import { createTakeCookieless } from './cookieless.ts'
import { DescribedNames } from './described-names.ts'
import { createEnrich } from './enrich.ts'
import { createNormaliseEvent } from './normalise-event.ts'
import { derivePersonsUpdates } from './persons-updates.ts'
import { createPropertyReader } from './read-properties.ts'
import { formatUuid } from '../../engines/uuid.ts'

const NOW = Date.UTC(2026, 10, 21, 12)
const context: RequestContext = {
  project: { id: 1, anonymizeIps: false },
  requestId: 'r',
  receivedAt: NOW,
  sentAt: null,
  ip: '10.0.0.1',
  historical: false,
  visitor: { address: '', userAgent: '' },
  isAttemptTime: false
}
const readProperties = createPropertyReader(() => NOW, new DescribedNames(NO_LIMITS, { now: () => NOW }))
const takeCookieless = createTakeCookieless(() => new Map())
const enrich = createEnrich({ isBot: () => false, locate: null })
const normalise = createNormaliseEvent({ readProperties, takeCookieless, enrich, maxEventBytes: () => 5_000_000 })

function rowOf (sent: Partial<SentEvent>, change: Partial<RequestContext> = {}): EventRow {
  const result = normalise({ event: 'e', distinct_id: 'u', ...sent }, { ...context, ...change })
  if ('kind' in result) throw new Error(result.reason)
  return result.row
}
const promoted = (row: EventRow, name: string): string | undefined => row.promoted[PROMOTED_PROPERTIES.indexOf(name)]

t.test('distinct ids of any kind become strings', async (t) => {
  const ids: [unknown, string][] = [[5, '5'], [true, 'true'], [0, '0'], [{ a: 1 }, '{"a":1}'], ['a\0b', 'a\ufffdb'],
    ['\ud800x', '\ufffdx'], ['x'.repeat(300), 'x'.repeat(200)], ['x'.repeat(199) + '😀y', 'x'.repeat(199) + '😀'],
    ['😀'.repeat(150), '😀'.repeat(150)], ['😀'.repeat(201), '😀'.repeat(200)]]
  for (const [id, text] of ids) t.equal(rowOf({ distinct_id: id }).distinctId, text)
  t.equal(rowOf({ distinct_id: undefined, $distinct_id: 'a' }).distinctId, 'a')
  t.equal(rowOf({ distinct_id: null, properties: { distinct_id: 'b' } }).distinctId, 'b')
})

t.test('without an id the event is dropped', async (t) => {
  for (const id of [undefined, null, '', '  ', '\t\n', Infinity]) {
    t.match(normalise({ event: 'e', distinct_id: id }, context), { kind: 'dropped', reason: 'missing_distinct_id' })
  }
})

t.test('uuids are kept, made, or derived from what was sent instead', async (t) => {
  const uuid = '0193a5b2-7c1d-7e8f-9abc-def012345678'
  t.equal(formatUuid(rowOf({ uuid }).uuid), uuid)
  for (const absent of [undefined, null, '', '00000000-0000-0000-0000-000000000000']) {
    t.match(formatUuid(rowOf({ uuid: absent }).uuid), /^.{14}7/)
  }
  for (const odd of ['order-17', 17, { a: 1 }]) {
    const first = formatUuid(rowOf({ uuid: odd }).uuid)
    t.match(first, /^.{14}5/)
    t.equal(formatUuid(rowOf({ uuid: odd }).uuid), first)
    t.not(formatUuid(rowOf({ uuid: odd }, { project: { id: 2, anonymizeIps: false } }).uuid), first)
  }
})

t.test('properties are stored as they were sent', async (t) => {
  const texts = ['{}', '{"a":1,"b":[true,null,{"c":"d"}],"é":"日本"}', '{"__proto__":{"x":1},"constructor":5}', '{"nul":"a\\u0000b"}']
  for (const text of texts) t.equal(rowOf({ properties: JSON.parse(text) as Record<string, unknown> }).properties, text)
  t.equal(rowOf({ properties: null }).properties, '{}')
  t.equal(rowOf({}).properties, '{}')
})

t.test('200 levels and 10,000 keys are stored, a property that is deeper is left out', async (t) => {
  const nested = (levels: number): string => '{"a":'.repeat(levels) + '1' + '}'.repeat(levels)
  const read = (json: string): EventRow => rowOf({ properties: JSON.parse(json) as Record<string, unknown> })
  const propertiesOf = (json: string): string => read(json).properties
  t.equal(propertiesOf(nested(201)), nested(201))
  for (const levels of [202, 10_000]) t.equal(propertiesOf(nested(levels)), '{}')
  t.equal(propertiesOf(`{"b":2,"$set":${nested(202)},"c":${nested(201)}}`), '{"b":2,"$set":{}}')
  t.equal(rowOf({ timestamp: JSON.parse(nested(300)) as unknown, properties: { b: 2 } }).properties, '{"b":2}')
  const { propertyTypes } = read(`{"deep":${nested(201)},"b":2}`)
  t.match(propertyTypes, /b/)
  t.notMatch(propertyTypes, /deep/, 'nor is it described')
  const wide = Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`key ${i}`, i]))
  t.equal(rowOf({ properties: wide }).properties, JSON.stringify(wide))
})

t.test('top-level person properties move into the properties and win', async (t) => {
  const row = rowOf({
    $set: { a: 'top' }, $set_once: { b: 1 }, $unset: ['c'],
    properties: { $set: { a: 'inside', z: 1 }, $unset: { d: 1 }, $set_once: 'no object' }
  })

  t.same(JSON.parse(row.properties), { $set: { a: 'top', z: 1 }, $set_once: { b: 1 }, $unset: ['d', 'c'] })
  t.equal(rowOf({ $set: 'no object' }).properties, '{}')
})

t.test('groups and promoted values become strings', async (t) => {
  const row = rowOf({
    properties: { $groups: { company: 'id:5', team: 7, '': 'x', none: null }, $browser_version: 129, $host: null, $os: { a: 1 }, $feature_flag_response: true, $current_url: 'x'.repeat(10_000) }
  })

  t.same(row.groups, ['company', 'id:5', 'team', '7'])
  t.equal(promoted(row, '$browser_version'), '129')
  t.equal(promoted(row, '$host'), '')
  t.equal(promoted(row, '$os'), '{"a":1}')
  t.equal(promoted(row, '$feature_flag_response'), 'true')
  t.equal(promoted(row, '$current_url')?.length, 8192)
  t.same(rowOf({ properties: { $groups: ['a'] } }).groups, [])
})

t.test('the address of the client goes to its column, unless the event brings one or the project wants none', async (t) => {
  const anonymous = { project: { id: 1, anonymizeIps: true }, ip: '' }
  t.equal(promoted(rowOf({}), '$ip'), '10.0.0.1')
  t.equal(rowOf({}).properties, '{}')
  t.equal(promoted(rowOf({ properties: { $ip: '1.2.3.4' } }), '$ip'), '1.2.3.4')
  const row = rowOf({ properties: { $ip: '1.2.3.4', a: 1 } }, anonymous)
  t.equal(promoted(row, '$ip'), '')
  t.equal(row.properties, '{"a":1}')
  t.equal(row.propertyTypes, 'eNa')
})

t.test('a time that had to be replaced stays readable', async (t) => {
  t.equal(rowOf({ timestamp: 'soon', properties: { a: 1 } }).properties, '{"a":1,"$original_timestamp":"soon"}')
  t.equal(rowOf({ timestamp: '2026-11-21T11:00:00Z', properties: { a: 1 } }).properties, '{"a":1}')
})

t.test('$ignore_sent_at switches the correction of the clock off', async (t) => {
  const sent = { timestamp: '2026-11-21T06:00:00Z' }
  const sentAt = NOW - 3 * 3_600_000
  t.equal(rowOf(sent, { sentAt }).timestamp, NOW - 3 * 3_600_000)
  t.equal(rowOf({ ...sent, properties: { $ignore_sent_at: true } }, { sentAt }).timestamp, NOW - 6 * 3_600_000)
})

t.test('a uuid that the server makes tells nothing about the time', async (t) => {
  const sentAt = NOW - 60_000
  t.equal(rowOf({ timestamp: new Date(sentAt).toISOString() }, { sentAt }).timestamp, NOW)
  t.equal(rowOf({ offset: 2500 }, { sentAt }).timestamp, NOW - 2500)
})

t.test('an event may say by itself when it was sent, if its request does not', async (t) => {
  const sent = { timestamp: '2026-11-21T06:00:00Z', sent_at: '2026-11-21T06:00:05Z' }
  t.equal(rowOf(sent).timestamp, NOW - 5000)
  t.equal(rowOf({ ...sent, sent_at: 'soon' }).timestamp, NOW - 6 * 3_600_000)
  t.equal(rowOf(sent, { sentAt: NOW }).timestamp, NOW - 6 * 3_600_000)
})

t.test('a row larger than a message is dropped', async (t) => {
  const properties = { text: 'é'.repeat(2_300_000) }
  t.match(normalise({ event: 'e', distinct_id: 'u', properties }, context), { kind: 'dropped', reason: 'event_too_large' })
  t.ok(rowOf({ properties: { text: 'x'.repeat(4_000_000) } }))
})

const row: EventRow = {
  projectId: 1, uuid: { a: 1, b: 0x7000, c: 0x80000000, d: 2 }, event: 'order paid', distinctId: 'ann', timestamp: Date.UTC(2026, 10, 21),
  receivedAt: Date.UTC(2026, 10, 21), groups: [], properties: '', propertyTypes: '', promoted: [], schemaVersion: 0, isBot: false, sampleWeight: 1
}
const HOST = { $os: 'Linux', $os_version: '6.12', $os_name: 'Debian' }

function changeOf (properties: Record<string, unknown>): unknown {
  const [update] = derivePersonsUpdates(row, { $set: { plan: 'pro' }, ...properties }, () => true)
  return update?.kind === 'person' ? { set: update.set, setOnce: update.setOnce } : update
}

t.test('what an event of an import sets goes by its time', async (t) => {
  const [update] = derivePersonsUpdates(row, { $set: { plan: 'pro' } }, () => true, true)
  t.match(update, { kind: 'person', byTime: true, timestamp: row.timestamp, set: { plan: 'pro' } })
  t.notOk('byTime' in (derivePersonsUpdates(row, { $set: { plan: 'pro' } }, () => true)[0] ?? {}))
})

t.test('the operating system of a server is not the person\'s, the page that it reports is', async (t) => {
  const page = { $current_url: 'https://shop.example/', $browser: 'Firefox', utm_source: 'mail' }
  const initial = { $initial_current_url: 'https://shop.example/', $initial_browser: 'Firefox', $initial_utm_source: 'mail' }

  t.same(changeOf({ ...HOST, ...page, $is_server: true }), { set: { ...page, plan: 'pro' }, setOnce: initial })
  t.same(changeOf({ ...HOST, $is_server: true, $set: { $os: 'iOS' } }), { set: { $os: 'iOS' }, setOnce: undefined }, 'sent values win')
  for (const isClient of [{}, { $is_server: false }, { $is_server: 'yes' }]) {
    t.same(changeOf({ ...HOST, ...isClient }), {
      set: { ...HOST, plan: 'pro' }, setOnce: { $initial_os: 'Linux', $initial_os_version: '6.12', $initial_os_name: 'Debian' }
    })
  }
})
