/** What becomes of the rows of each source; docs/run/import.md has the same tables. */
import t from 'tap'
import { fromWallClock } from '../operators/match-date.ts'
import { formatUuid, readUuid } from '../uuid.ts'
import { createAmplitudeMapper } from './from-amplitude.ts'
import { completeMapping, createMapper } from './from-mapping.ts'
import { createMixpanelMapper } from './from-mixpanel.ts'
import { createPosthogMapper, requireColumns } from './from-posthog.ts'
import { createIdentify, type MapRow, readTime, RejectedRowError, type RowsBefore, uuidOf } from './imported-event.ts'
import { toFlag } from './posthog-flags.ts'
import { readPosthogProject } from './posthog-project.ts'

const NOW = Date.parse('2026-11-26T12:00:00Z')
const TARGET = { project: 7, now: NOW, personsFrom: 'export' } as const
const AT = Date.parse('2024-03-31T10:00:00.250Z')
/** Of a file in which each row comes once. */
const FIRST: RowsBefore = { count: () => 1, noteColumns () {} }
/** Of a file that has the row twice already. */
const THIRD: RowsBefore = { ...FIRST, count: () => 3 }
const UUID = '018e94a1-2f3b-7c4d-8e5f-0123456789ab'

function rejects (map: MapRow, row: unknown): string {
  try {
    map(row, FIRST)
    return 'not rejected'
  } catch (error) {
    if (!(error instanceof RejectedRowError)) throw error
    return error.message
  }
}

t.test('PostHog: an event, with objects nested as in JSON Lines or as texts as in Parquet and CSV', async (t) => {
  const map = createPosthogMapper(TARGET)
  const properties = { amount: 12.5, $set: { plan: 'pro' } }
  const event = { uuid: UUID, event: 'order paid', distinct_id: 'ann', elements_chain: 'button:text="Buy"', team_id: 7, person_id: 'p' }
  const expected = [{
    uuid: UUID, event: 'order paid', distinct_id: 'ann', timestamp: AT, properties: { ...properties, $elements_chain: 'button:text="Buy"' },
    json: '{"amount":12.5,"$set":{"plan":"pro"},"$elements_chain":"button:text=\\"Buy\\""}'
  }]

  t.same(map({ ...event, properties, timestamp: '2024-03-31T10:00:00.250000+00:00' }, FIRST), expected)
  t.same(map({ ...event, properties: JSON.stringify(properties), timestamp: '2024-03-31 10:00:00.250000' }, FIRST), expected)
  t.same(map({ ...event, properties: JSON.stringify(properties), timestamp: new Date(AT) }, FIRST), expected)
  t.equal(JSON.stringify(map({ ...event, properties: '{"id":12345678901234567890}', timestamp: AT }, FIRST)[0]!.properties['id']), '12345678901234567890')
})

t.test('a uuid is read as capture reads it, so that an event that is imported and captured counts once', async (t) => {
  const posthog = createPosthogMapper(TARGET)
  const files = createMapper({ event: 'event', timestamp: 'timestamp', distinct_id: 'distinct_id', uuid: 'uuid' }, TARGET)
  const uuidOf = (map: MapRow, uuid: unknown, before = FIRST): string =>
    map({ uuid, event: 'e', distinct_id: 'a', timestamp: AT, properties: {} }, before)[0]!.uuid

  for (const form of [UUID, UUID.toUpperCase(), UUID.replaceAll('-', ''), `{${UUID}}`, `urn:uuid:${UUID}`]) t.equal(uuidOf(posthog, form), UUID, form)
  for (const other of ['order-17', 17, 17.5]) {
    t.equal(uuidOf(files, other), formatUuid(readUuid(other, TARGET.project)!), String(other))
    t.equal(uuidOf(files, other, THIRD), uuidOf(files, other), 'however often it comes')
  }
  for (const none of [undefined, null, '', '00000000-0000-0000-0000-000000000000', '{00000000-0000-0000-0000-000000000000}']) {
    t.not(uuidOf(files, none, THIRD), uuidOf(files, none), 'of the row and its number')
  }
})

t.test('PostHog: a person is its id, with which its distinct ids are merged; a deleted one is skipped', async (t) => {
  const map = createPosthogMapper(TARGET)
  const row = { team_id: 1, distinct_id: 'ann', person_id: UUID, properties: '{"plan":"pro"}', created_at: '2024-03-31 10:00:00.25', is_deleted: false }

  t.match(map(row, FIRST), [{
    event: '$merge_dangerously', distinct_id: UUID, timestamp: AT, properties: { alias: 'ann', $set: { plan: 'pro' }, $mark_identified: false }
  }])
  t.equal(map({ ...row, is_identified: 'true' }, FIRST)[0]!.properties['$mark_identified'], undefined)
  t.equal(map(row, FIRST)[0]!.uuid, map(row, THIRD)[0]!.uuid)
  t.not(map({ ...row, person_version: 1 }, FIRST)[0]!.uuid, map({ ...row, person_version: 2 }, FIRST)[0]!.uuid)
  t.not(map({ ...row, properties: '{"plan":"free"}' }, FIRST)[0]!.uuid, map(row, FIRST)[0]!.uuid)
  t.same(map({ ...row, is_deleted: true }, FIRST), [])
})

t.test('Mixpanel: the insert id, the distinct id, the time and the name are the uuid', async (t) => {
  const map = createMixpanelMapper({ now: NOW, timeZone: 'UTC' })
  const properties = { time: 1711879200, distinct_id: 'ann', $insert_id: 'abc', $city: 'Berlin', mp_lib: 'web', plan: 'pro' }
  const [event] = map({ event: 'Signed up', properties }, FIRST)

  t.match(event, {
    event: 'Signed up', distinct_id: 'ann', timestamp: 1711879200000, properties: { $geoip_city_name: 'Berlin', $lib: 'web', plan: 'pro' }
  })
  t.equal(event!.properties['time'], undefined)
  t.equal(map({ event: 'Signed up', properties }, THIRD)[0]!.uuid, event!.uuid)
  t.not(map({ event: 'Signed up', properties: { ...properties, $insert_id: 'abd' } }, FIRST)[0]!.uuid, event!.uuid)
})

t.test('Mixpanel: device and user are merged once a day, and merges of old projects stay merges', async (t) => {
  const map = createMixpanelMapper({ now: NOW, timeZone: 'UTC' })
  const login = { event: 'login', properties: { time: 1711879200, distinct_id: 'ann', $device_id: 'd1', $user_id: 'ann', $insert_id: '1' } }

  t.match(map(login, FIRST), [
    { event: '$identify', distinct_id: 'ann', timestamp: Date.parse('2024-03-31'), properties: { $anon_distinct_id: '$device:d1' } },
    { event: 'login', distinct_id: 'ann', properties: { $device_id: 'd1', $user_id: 'ann' } }
  ])
  t.equal(map(login, FIRST).length, 1)
  t.match(map({ event: '$identify', properties: { time: 1711879200, distinct_id: 'x', $identified_id: 'ann', $anon_id: 'anon' } }, FIRST),
    [{ event: '$identify', distinct_id: 'ann', properties: { $anon_distinct_id: 'anon' } }])
  t.match(map({ event: '$merge', properties: { time: 1711879200, distinct_id: 'x', $distinct_ids: ['ann', 'anna'] } }, FIRST),
    [{ event: '$merge_dangerously', distinct_id: 'ann', properties: { alias: 'anna' } }])
})

t.test('Mixpanel: times of an old project are the wall clock of its zone', async (t) => {
  const map = createMixpanelMapper({ now: NOW, timeZone: 'Europe/Berlin' })
  const at = (wall: string): string => new Date(map({
    event: 'e', properties: { time: Date.parse(`${wall}Z`) / 1000, distinct_id: 'a' }
  }, FIRST)[0]!.timestamp).toISOString()

  t.equal(at('2024-01-15T12:00:00'), '2024-01-15T11:00:00.000Z')
  t.equal(at('2024-07-15T00:30:00'), '2024-07-14T22:30:00.000Z')
})

t.test('wall clocks are read across changes of the clock', async (t) => {
  for (const [zone, wall, utc] of [
    ['Europe/Berlin', '2024-03-31T01:59:59', '2024-03-31T00:59:59'], ['Europe/Berlin', '2024-03-31T02:30:00', '2024-03-31T01:30:00'],
    ['Europe/Berlin', '2024-03-31T03:00:00', '2024-03-31T01:00:00'], ['Europe/Berlin', '2024-10-27T02:30:00', '2024-10-27T00:30:00'],
    ['Europe/Berlin', '2024-10-27T03:00:00', '2024-10-27T02:00:00'], ['America/Santiago', '2024-09-08T01:30:00', '2024-09-08T04:30:00'],
    ['Asia/Kathmandu', '2024-06-01T05:45:00', '2024-06-01T00:00:00'], ['UTC', '2024-06-01T05:45:00', '2024-06-01T05:45:00']
  ] as const) t.equal(new Date(fromWallClock(Date.parse(`${wall}Z`), zone)).toISOString(), `${utc}.000Z`, `${zone} ${wall}`)
})

t.test('Amplitude: fields become properties, those of the user $set, and its groups $groups', async (t) => {
  const map = createAmplitudeMapper(TARGET)
  const row = {
    uuid: UUID, event_type: '[Amplitude] Page Viewed', event_time: '2024-03-31 10:00:00.250000', user_id: 'ann', device_id: 'd1',
    amplitude_id: 123, ip_address: '203.0.113.7', os_name: 'iOS', city: 'Berlin', session_id: 1711879200000,
    event_properties: { path: '/' }, user_properties: { plan: 'pro' }, groups: { org: ['acme', 'other'] }
  }

  t.match(map(row, FIRST), [
    {
      uuid: uuidOf('identify', 'ann', 'd1', String(Date.parse('2024-03-31'))),
      event: '$identify', distinct_id: 'ann', timestamp: Date.parse('2024-03-31'), properties: { $anon_distinct_id: 'd1' }
    },
    {
      uuid: UUID, event: '$pageview', distinct_id: 'ann', timestamp: AT,
      properties: {
        path: '/', $ip: '203.0.113.7', $device_id: 'd1', $os: 'iOS', $geoip_city_name: 'Berlin', $session_id: 1711879200000,
        $set: { plan: 'pro' }, $groups: { org: 'acme' }
      }
    }
  ])
  t.match(map({ ...row, user_id: null }, FIRST), [{ distinct_id: 'd1' }])
  t.match(map({ ...row, user_id: null, device_id: '' }, FIRST), [{ distinct_id: '123' }])
})

t.test('files: columns are mapped as given, guessed by their names, or asked for', async (t) => {
  t.same(completeMapping([], ['Event_Name', 'user_id', 'ts', 'amount']), { event: 'Event_Name', timestamp: 'ts', distinct_id: 'user_id' })
  t.same(completeMapping(['event=what', 'timestamp=at', 'distinct_id=who', 'uuid=key'], ['what', 'at', 'who', 'key']),
    { event: 'what', timestamp: 'at', distinct_id: 'who', uuid: 'key' })
  t.throws(() => completeMapping([], ['a', 'user_id']), /no column found for event and timestamp; name them with --map event=<column> --map timestamp=<column>. Columns: a, user_id/)
  t.throws(() => completeMapping(['event=b'], ['a']), /no column b; columns: a/)
  t.throws(() => completeMapping(['event=a', 'event=b'], ['a', 'b']), /--map event=b: event is a already/)
  t.throws(() => completeMapping(['colour=a'], ['a']), /expected one of event/)

  const map = createMapper({ event: 'what', timestamp: 'at', distinct_id: 'who' }, TARGET)
  const row = { what: 'paid', at: '2024-03-31T10:00:00.250Z', who: 7, amount: '3', note: '' }
  t.match(map(row, FIRST), [{ event: 'paid', distinct_id: '7', timestamp: AT, properties: { amount: '3', note: undefined } }])
  t.equal(map(row, FIRST)[0]!.uuid, map(row, FIRST)[0]!.uuid)
  t.not(map(row, FIRST)[0]!.uuid, map(row, THIRD)[0]!.uuid, 'equal rows are two events')
})

t.test('what cannot be stored as it is says so, and has the ids that are stored', async (t) => {
  const map = createMapper({ event: 'what', timestamp: 'at', distinct_id: 'who', properties: 'more' }, TARGET)
  const row = { what: 'paid', at: AT, who: 'a\0b', note: 'x' }
  t.match(map(row, FIRST), [{ distinct_id: 'a\ufffdb', isAltered: true }])
  for (const more of [{ half: ['\ud800'] }, { large: { n: Infinity } }, { '\udc00': 1 }]) t.match(map({ ...row, who: 'a', more }, FIRST), [{ isAltered: true }])
  t.equal(map({ ...row, who: 'a', more: { n: 1e308, text: '✓' } }, FIRST)[0]!.isAltered, undefined)
  t.match(createIdentify()('a\0', 'b', AT), [{ distinct_id: 'a\ufffd' }])
  t.throws(() => map({ ...row, note: 'x'.repeat(19_990_000) }, FIRST), new RejectedRowError('properties have more than 19990000 bytes, which no request has room for'))
  t.ok(map({ ...row, note: 'x'.repeat(19_000_000) }, FIRST))
})

t.test('names that every object of JavaScript has are names like any other', async (t) => {
  const map = createMapper({ event: 'what', timestamp: 'at', distinct_id: 'who' }, TARGET)
  const [first] = map(JSON.parse(`{"what": "e", "at": ${AT}, "who": "a", "__proto__": "kept"}`), FIRST)
  t.equal(JSON.stringify(first!.properties), '{"__proto__":"kept"}')
  const mixpanel = createMixpanelMapper({ now: NOW, timeZone: 'UTC' })
  t.match(mixpanel({ event: 'e', properties: { time: AT, distinct_id: 'a', constructor: 1 } }, FIRST), [{ properties: { constructor: 1 } }])
  const amplitude = createAmplitudeMapper(TARGET)
  t.match(amplitude({ event_type: 'toString', event_time: AT, user_id: 'a' }, FIRST), [{ event: 'toString' }])
})

t.test('times are read in every notation of these products', async (t) => {
  for (const value of [
    '2024-03-31T10:00:00.250Z', '2024-03-31 10:00:00.250', '2024-03-31 12:00:00.250123+02', '2024-03-31T12:00:00.25+02:00', '1711879200250',
    1711879200250, 1711879200250123, 1711879200.25, new Date(AT)
  ]) t.equal(readTime(value, 'at', NOW), AT, String(value))
  t.equal(readTime('2024-03-31', 'at', NOW), Date.parse('2024-03-31'))
  t.equal(readTime('2024-02-29T23:00:00-08:00', 'at', NOW), Date.parse('2024-03-01T07:00:00Z'))
  for (const value of [
    '2024-02-30T00:00:00Z', '2024-04-31 12:00:00+00:00', '2023-02-29', '2024-06-31T10:00:00.123456', '2024-02-029', '2024-00-10', '2024-01-00'
  ]) t.throws(() => readTime(value, 'at', NOW), new RejectedRowError('at is not a time'), value)
})

t.test('PostHog: a column that a file has not is named once, in place of each row', async (t) => {
  requireColumns(['uuid', 'event', 'distinct_id', 'timestamp', 'properties', 'person_id'])
  requireColumns(['person_id', 'distinct_id', 'properties', 'created_at'])
  requireColumns(['person_id', 'distinct_id', 'properties', '_inserted_at'])
  for (const [columns, message] of [
    [['event', 'distinct_id', 'timestamp'], 'no column properties; columns: event, distinct_id, timestamp'],
    [['event', 'distinct_id', 'person_id'], 'no column timestamp and properties; columns: event, distinct_id, person_id'],
    [['person_id', 'distinct_id', 'properties'], 'no column created_at; columns: person_id, distinct_id, properties']
  ] as const) t.throws(() => { requireColumns(columns) }, new RejectedRowError(message))
})

t.test('a flag of PostHog with a field that is not known, at any depth, is refused', async (t) => {
  const names = { cohorts: new Map(), flags: new Map(), groupTypes: new Map(), hasSameTimezone: true }
  const carry = (more: object, variant: object = {}): unknown => {
    const variants = [{ key: 'a', name: 'A', rollout_percentage: 100, ...variant }]
    return toFlag({ id: 1, key: 'f', active: true, filters: { groups: [], multivariate: { variants } }, ...more }, names, { withContinuity: false, notes: [] })
  }
  const decidesNothing = {
    experiment_set_metadata: [], last_called_at: '2026-01-01T00:00:00Z', is_eligible_for_experiment: true, creation_context: 'feature_flags',
    evaluation_contexts_match_mode: 'any', evaluation_tags: [], later: null
  }
  t.match(carry(decidesNothing, { description: 'First' }), { key: 'f', active: true })
  t.throws(() => carry({ brand_new_field: 7 }), { message: 'the flag has unsupported fields: brand_new_field' })
  t.throws(() => carry({}, { weight: 7 }), { message: 'a variant has unsupported fields: weight' })
})

t.test('a list of PostHog of which a file has none of the items is not complete', async (t) => {
  const page = (count: number): object => ({ count, next: 'https://us.posthog.com/api/projects/1/feature_flags/?offset=100', previous: null, results: [] })
  const problemsOf = (name: string, content: unknown): string[] => readPosthogProject([{ name, content }]).problems

  t.same(problemsOf('feature_flags.json', page(300)), ['feature_flags: the files have 0 of 300; also save the pages behind "next"'])
  t.match(problemsOf('flags.json', page(300)), [/^flags\.json is not recognized: expected the project or a page of feature_flags, /])
  t.same(problemsOf('flags.json', page(0)), [])
  t.same(problemsOf('flags.json', []), [])
  const last = { name: 'feature_flags-2.json', content: page(1) }
  t.same(readPosthogProject([{ name: '1.json', content: [{ id: 1, key: 'f', filters: {}, active: true }] }, last]).problems, [])
  const flag = { id: 1, key: 'f', filters: {}, active: true }
  t.same(problemsOf('flags.json', [flag, null, 'f']), ['flags.json: 2 of 3 items are not objects'])
})

t.test('an item that lacks a field of its list in the API of PostHog is not taken, and the field is named', (t) => {
  const problemsOf = (name: string, item: object): string[] =>
    readPosthogProject([{ name, content: { count: 1, results: [item] } }]).problems
  const flag = { id: 1, key: 'f', filters: {}, active: true }

  for (const [name, item, list, missing] of [
    ['1.json', { ...flag, active: undefined }, 'feature_flags', 'active'],
    ['feature_flags.json', { id: 1, key: 'f' }, 'feature_flags', 'filters, active'],
    ['cohorts.json', { id: 1, name: 'Paying', filters: {} }, 'cohorts', 'is_static'],
    ['event_definitions.json', { name: 'seen' }, 'event_definitions', 'last_seen_at'],
    ['1.json', { group_type: 'org' }, 'groups_types', 'group_type_index']
  ] as const) t.same(problemsOf(name, item), [`${name} is not recognized: as a page of ${list} it lacks ${missing}, which PostHog's API returns`])
  t.match(problemsOf('1.json', { id: 1 }), [/^1\.json is not recognized: expected the project or a page of feature_flags, /])
  t.same(problemsOf('flags.json', flag), [])
  t.end()
})

t.test('a row that is no event says which field is wrong', async (t) => {
  const posthog = createPosthogMapper(TARGET)
  const good = { uuid: UUID, event: 'e', distinct_id: 'a', timestamp: AT, properties: {} }

  for (const [row, reason] of [
    [null, 'the row is not an object'], ['text', 'the row is not an object'], [{ ...good, event: '' }, 'event is missing'],
    [{ ...good, event: {} }, 'event is not a text'], [{ ...good, distinct_id: ' ' }, 'distinct_id is not a text'],
    [{ ...good, timestamp: 'soon' }, 'timestamp is not a time'], [{ ...good, timestamp: '1999-12-31' }, 'timestamp is before 2000'],
    [{ ...good, timestamp: '2027-01-01' }, 'timestamp is in the future'], [{ ...good, properties: '{' }, 'properties is not JSON'],
    [{ ...good, properties: [] }, 'properties is not an object'], [{ ...good, event: 'x'.repeat(201) }, 'event has more than 200 characters']
  ] as const) t.equal(rejects(posthog, row), reason)
  t.equal(rejects(createAmplitudeMapper(TARGET), { event_type: 'e', event_time: AT }), 'user_id, device_id and amplitude_id are missing')
  t.equal(rejects(createMixpanelMapper({ now: NOW, timeZone: 'UTC' }), { event: 'e', properties: { distinct_id: 'a' } }), 'properties.time is missing')
})
