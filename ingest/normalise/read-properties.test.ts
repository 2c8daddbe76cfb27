import t from 'tap'
import { collectGarbage } from '../../test/support/collect-garbage.ts'
import { PROMOTED_PROPERTIES } from '../event.ts'
import { NO_LIMITS } from '../../test/support/plain-normaliser.ts'
import { DescribedNames } from './described-names.ts'
import { createPropertyReader, type ReadProperties } from './read-properties.ts'

const NOW = Date.UTC(2026, 10, 21)
type ReadOne = (event: string, properties: Record<string, unknown>) => ReadProperties

function createReader (limits = NO_LIMITS): ReadOne {
  const readProperties = createPropertyReader(() => NOW, new DescribedNames(limits, { now: () => NOW }))
  return (event, properties) => readProperties(1, event, properties)
}

const read = createReader()
const describe = (event: string, properties: Record<string, unknown>): string => read(event, properties).types
const entries = (event: string, properties: object): string[] =>
  describe(event, properties as Record<string, unknown>).split('\0').filter((entry) => entry !== '')

const types: [string, unknown, string][] = [
  ['plan', 'pro', 'S'], ['plan', '42', 'S'], ['plan', '', 'S'],
  ['amount', 5, 'N'], ['amount', -1.5, 'N'],
  ['flag', true, 'B'], ['flag', 'true', 'B'], ['flag', ' FALSE ', 'B'], ['flag', 'True', 'S'], ['flag', 'trueish', 'S'],
  ['when', '2026-11-21', 'D'], ['when', '2026/11/21 10:00', 'D'], ['when', '21-11-2026', 'D'],
  ['when', '2026-11-21T10:00:00.123+03:00', 'D'], ['when', 'Sat, 21 Nov 2026 10:00:00 GMT', 'D'],
  ['when', '2026-11-21x', 'S'], ['when', '1234567890', 'S'], ['when', 'version 2026-11-21', 'S'],
  ['created_at', NOW / 1000, 'D'], ['created_at', NOW, 'D'], ['created_at', 5, 'N'], ['created_at', NOW / 1000 + 0.5, 'N'],
  ['updatedAt', NOW / 1000, 'D'], ['amount', NOW / 1000, 'N'],
  ['utm_source', true, 'S'], ['$initial_utm_medium', 5, 'S'], ['$feature/x', true, 'S'], ['$feature_flag_response', false, 'S'],
  ['$survey_response_1', '2026-11-21', 'S'],
  ['none', null, '?'], ['list', [1], '?'], ['object', {}, '?']
]

for (const [name, value, type] of types) {
  t.test(`${name}: ${JSON.stringify(value)} is ${type}`, async (t) => {
    t.same(entries('e', { [name]: value }), [`e${type}${name}`])
  })
}

t.test('person properties are described beside those of the event, groups by their type', async (t) => {
  t.same(entries('e', { a: 1, $set: { b: 'x' }, $set_once: { c: true }, $unset: ['d'], $groups: { g: 'k' }, $group_0: 'k' }),
    ['eNa', 'pBc', 'pSb'])
  t.same(entries('$groupidentify', { $group_type: 'company', $group_key: 'k', $group_set: { size: 5 }, other: 1 }),
    ['gNcompany\x01size'])
})

t.test('events of one shape share one text, whatever was described before', async (t) => {
  const first = describe('e', { a: 1, b: 'x' })
  for (let i = 0; i < 100; i++) describe('e', { a: 1, [`k${i}`]: i })

  t.equal(describe('other', { a: 2, b: 'y' }), first)
  t.same(entries('e', { b: 'x', a: 1 }), ['eSb', 'eNa'])
})

t.test('names are made harmless, overlong ones and odd events are skipped', async (t) => {
  t.same(entries('e', { 'a\0b\x01c': 1, ['x'.repeat(201)]: 1, ['é'.repeat(101)]: 1, ok: 1, '\ud800': 1 }),
    ['eNa\ufffdb\x01c', 'eNok', 'eN\ufffd'])
  t.same(entries('$groupidentify', { $group_type: 'a\0b\x01c', $group_set: { 'd\x01e': 1 } }), ['gNa\ufffdb\ufffdc\x01d\ufffde'])
  t.same(entries('$$plugin_metrics', { a: 1 }), [])
  t.same(entries('e', Object.fromEntries(Array.from({ length: 10_001 }, (_, i) => [`k${i}`, i]))), [])
  t.equal(entries('e', Object.fromEntries(Array.from({ length: 9000 }, (_, i) => [`k${i}`, i]))).length, 9000)
  t.same(entries('e', JSON.parse('{"__proto__": 1, "constructor": "x", "hasOwnProperty": true}') as object),
    ['eN__proto__', 'eSconstructor', 'eBhasOwnProperty'])
})

t.test('a group whose type would be repeated too often is not described, its promoted values are read', async (t) => {
  const group = (type: string, names: number): ReturnType<typeof read> => read('$groupidentify', {
    $group_type: type, $os: 'Linux', $group_set: Object.fromEntries(Array.from({ length: names }, (_, i) => [`k${i}`, i]))
  })
  const described = (type: string, names: number): number => group(type, names).types.split('\0').filter(Boolean).length

  t.equal(described('organization', 600), 600)
  t.equal(described('日'.repeat(200), 13), 13)
  const long = group('日'.repeat(200), 590)
  t.match(long, { types: '', undescribed: '590 properties of a group' })
  t.equal(long.promoted[PROMOTED_PROPERTIES.indexOf('$os')], 'Linux')
  t.equal(group('organization', 600).undescribed, null)
})

t.test('the cache of shapes is bounded and never changes results', async (t) => {
  const fresh = createReader()
  for (let i = 0; i < 50_000; i++) {
    const text = fresh('e', { [`key${i}`]: i, b: true }).types
    if (text !== `eNkey${i}\0eBb`) t.fail(text)
  }
  t.pass()
})

t.test('memory of events with thousands of names is bounded, too', async (t) => {
  const fresh = createReader()
  const many = Object.fromEntries(Array.from({ length: 2000 }, (_, i) => [`${'x'.repeat(150)}${i}`, i]))
  collectGarbage()
  const before = process.memoryUsage().heapUsed
  // Each is described by a text of 300 KB of its own: 90 MB together.
  for (let i = 0; i < 300; i++) fresh('e', { ...many, [`last ${i}`]: i })
  collectGarbage()

  t.ok(process.memoryUsage().heapUsed - before < 45e6, `${Math.round((process.memoryUsage().heapUsed - before) / 1e6)} MB`)
})

t.test('promoted properties are read whatever else there is, and only from the event itself', async (t) => {
  const properties = { x: 1, $browser: 'Firefox', $set: { $os: 'Linux' }, $browser_version: 129, $host: null, $lib: true }
  for (const event of ['e', '$groupidentify', '$$plugin_metrics']) {
    const { promoted } = read(event, properties)
    const found = PROMOTED_PROPERTIES.flatMap((name, i) => promoted[i] === '' ? [] : [[name, promoted[i]]])
    t.same(found, [['$browser', 'Firefox'], ['$browser_version', '129'], ['$lib', 'true']])
  }
})
