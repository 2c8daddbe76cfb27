import zlib from 'node:zlib'
import fc from 'fast-check'
import t from 'tap'
import { addFlags, ask, createTestDecide, type TestDecide } from '../../testing/create-test-decide.ts'

const RUNS = 1500

/** Statuses for valid and invalid requests. */
const EXPECTED: ReadonlySet<number> = new Set([200, 400, 401, 413])

async function addEveryOperator (decide: TestDecide): Promise<void> {
  const operators: Array<[string, unknown]> = [
    ['exact', ['a', true, 5]], ['is_not', null], ['icontains', 'a'], ['regex', '^(a|b)*c'], ['gt', 5], ['between', [1, 2]],
    ['is_date_before', '-7d'], ['is_date_after', '2024-01-01'], ['semver_gte', '1.2.3'], ['semver_wildcard', '1.*'],
    ['icontains_multi', ['x', 'y']], ['is_not_set', null]
  ]
  await addFlags(decide, operators.map(([operator, value]) => ({
    key: operator, filters: { groups: [{ properties: [{ key: 'p', operator, value, type: 'person' }], rollout_percentage: 50 }] }
  })))
}

/** Field names that the endpoints read, and some that they do not. */
const fields = [
  'distinct_id', '$distinct_id', 'groups', '$groups', 'person_properties', 'group_properties', 'disable_flags',
  '$anon_distinct_id', '$device_id', 'flag_keys_to_evaluate', 'evaluation_runtime', 'token', 'x', '__proto__', 'constructor'
]

t.test('whatever the body is, the answer is never a server error', async (t) => {
  const decide = await createTestDecide(t)
  await addEveryOperator(decide)
  const value = fc.oneof(fc.jsonValue({ maxDepth: 3 }), fc.constant('\ud800'), fc.constant('a\0b'), fc.constant(1e308),
    fc.dictionary(fc.constantFrom('p', 'company', '__proto__', 'toString'), fc.jsonValue({ maxDepth: 2 })))
  const object = fc.dictionary(fc.constantFrom(...fields), value)
    .map((body) => JSON.stringify({ api_key: decide.projectKey, distinct_id: 'u', ...body }))
  const bytes = fc.uint8Array({ maxLength: 200 }).map((array) => Buffer.from(array))
  const body = fc.oneof(
    { weight: 5, arbitrary: object.map((json) => Buffer.from(json)) },
    { weight: 1, arbitrary: object.map((json) => zlib.gzipSync(json)) },
    { weight: 1, arbitrary: object.chain((json) => fc.nat(json.length).map((end) => Buffer.from(json.slice(0, end)))) },
    { weight: 1, arbitrary: fc.jsonValue().map((json) => Buffer.from(JSON.stringify(json))) },
    { weight: 1, arbitrary: object.map((json) => Buffer.from(`data=${encodeURIComponent(Buffer.from(json).toString('base64'))}`)) },
    { weight: 1, arbitrary: bytes }
  )
  const path = fc.constantFrom('/decide/', '/decide/?v=3', '/flags/?v=2', '/flags?v=1&config=true', '/decide?v=99&compression=lz64')
  const type = fc.constantFrom('application/json', 'text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data', 'x')
  const seen: Record<number, number> = {}

  await fc.assert(fc.asyncProperty(path, type, body, async (url, contentType, sent) => {
    const { status, body: answer } = await ask(decide, url, sent, { 'content-type': contentType })
    seen[status] = (seen[status] ?? 0) + 1
    if (!EXPECTED.has(status)) throw new Error(`${status} ${JSON.stringify(answer)}`)
    if (status !== 200 && typeof answer.type !== 'string') throw new Error('not the shape of an error')
  }), { numRuns: RUNS, seed: 4 })

  t.comment(JSON.stringify(seen))
  t.ok((seen[200] ?? 0) > RUNS / 10 && (seen[400] ?? 0) > RUNS / 10, 'both kinds came up')
})

t.test('whatever the filters are, the other flags are computed', async (t) => {
  const decide = await createTestDecide(t)
  const word = fc.constantFrom('groups', 'properties', 'multivariate', 'variants', 'payloads', 'key', 'value', 'type', 'operator',
    'rollout_percentage', 'variant', 'aggregation_group_type_index', 'holdout', 'super_groups', 'id', 'person', 'flag', 'cohort', 'regex')
  const { filters } = fc.letrec((tie) => ({
    filters: fc.oneof({ maxDepth: 5, withCrossShrink: false }, fc.constantFrom(null, 0, true, 'a', 50), word,
      fc.array(tie('filters'), { maxLength: 3 }), fc.dictionary(word, tie('filters'), { maxKeys: 5 }))
  }))
  const samples = fc.sample(filters, { numRuns: 400, seed: 4 })
    .map((sample) => (typeof sample === 'object' && sample !== null ? sample : { groups: sample }))
  await addFlags(decide, [...samples.map((sample, i) => ({ key: `f${i}`, filters: sample })), { key: 'good' }])

  const { status, body } = await ask(decide, '/flags/?v=2', { distinct_id: 'u', person_properties: { a: 1, key: 'x' } })

  t.equal(status, 200)
  t.equal(Object.keys(body.flags).length, samples.length + 1)
  t.match(body.flags.good, { enabled: true })
  const definitions = await ask(decide, `/flags/definitions?token=${decide.projectKey}&send_cohorts`, undefined,
    { authorization: `Bearer ${decide.personalKey}` })
  t.equal(definitions.status, 200)
})
