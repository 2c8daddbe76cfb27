/** Names that every object of JavaScript has, wherever users may choose a name: nothing is lost, and nothing throws. */
import t from 'tap'
import { compileFlagSet, tryFlags } from '../../engines/flags/evaluate-flags.ts'
import { NO_FACTS } from '../../engines/flags/subject.ts'
import { buildDefinitions, buildFlag, buildSubject } from '../../engines/flags/testing/build-definitions.ts'
import { createTestApi } from '../../api/testing/create-test-api.ts'
import { storePublishedFrames } from '../../ingest/testing/read-published-events.ts'
import { PROJECT_KEY, startTestIngest } from '../../ingest/testing/start-test-ingest.ts'
import { createTestClickHouse } from '../support/test-stores.ts'
import { PROTOTYPE_NAMES } from '../support/prototype-names.ts'
import { createRandom, pickOne } from '../support/random.ts'

/** For a campaign: `MILLRACE_TEST_FUZZ_REQUESTS=20000 MILLRACE_TEST_FUZZ_SEED=1`. */
const EVENTS = Number(process.env.MILLRACE_TEST_FUZZ_REQUESTS ?? 1000)
const SEED = Number(process.env.MILLRACE_TEST_FUZZ_SEED ?? 20_261_125)

const random = createRandom(SEED)
const pick = (): string => pickOne(PROTOTYPE_NAMES, random)

t.comment({ seed: SEED, names: PROTOTYPE_NAMES.length, events: EVENTS })

/** An object as text: `__proto__` is a key like any other there. */
function object (entries: Array<[string, unknown]>): string {
  return `{${[...new Map(entries)].map(([name, value]) => `${JSON.stringify(name)}:${typeof value === 'string' ? value : JSON.stringify(value)}`).join()}}`
}

const text = (value: string): string => JSON.stringify(value)

t.test('as names of events, properties, persons and groups they are stored as any other', async (t) => {
  const ingest = await startTestIngest(t)
  const clickhouse = await createTestClickHouse(t)
  const sent = Array.from({ length: EVENTS }, (_, n) =>
    ({ event: pick(), distinctId: pick(), names: new Set([pick(), pick(), pick()]), group: pick(), key: pick(), n }))
  for (let from = 0; from < sent.length; from += 50) {
    const batch = sent.slice(from, from + 50).map(({ event, distinctId, names, group, key, n }) => object([
      ['event', text(event)], ['distinct_id', text(distinctId)], ['timestamp', text('2026-11-20T10:00:00Z')], ['properties', object([
        ['n', n], ['$groups', object([[group, text(key)]])], ['$set', object([[group, text(key)]])], ['$set_once', object([[key, n]])], ['$unset', [key]],
        ...[...names].map((name): [string, unknown] => [name, random() < 0.3 ? object([[name, text(name)]]) : n])
      ])]
    ]))
    const body = `{"api_key":${text(PROJECT_KEY)},"batch":[${batch.join()}]}`
    const answer = await ingest.post(pickOne(['/batch/', `/batch/?${pick()}=${pick()}`], random), body, { headers: { [`x-${pick()}`]: pick() } })
    t.equal(answer.status, 200, await answer.text())
  }
  for (const name of PROTOTYPE_NAMES) {
    const broken = await ingest.post(`/e/?compression=${name}`, 'no json at all', { headers: { 'content-type': 'text/plain' } })
    t.equal(broken.status, 400, `compression ${name}: ${await broken.text()}`)
  }

  await storePublishedFrames(ingest.connection, clickhouse)
  const result = await clickhouse.client.query({
    query: `SELECT JSONExtractUInt(properties, 'n') AS n, event, distinct_id, JSONExtractKeys(properties), mapKeys(groups), mapValues(groups)
      FROM events ORDER BY n`,
    format: 'JSONCompactEachRow'
  })
  const rows = await result.json<[string, string, string, string[], string[], string[]]>()
  t.equal(rows.length, sent.length)
  let lost = 0
  for (const [i, [n, event, distinctId, names, [group], [key]]] of rows.entries()) {
    const expected = sent[i]!
    const isSame = Number(n) === expected.n && event === expected.event && distinctId === expected.distinctId
    const isWhole = [...expected.names].every((name) => names.includes(name))
    if (!isSame || !isWhole || group !== expected.group || key !== expected.key) lost++
  }
  t.equal(lost, 0)
  t.equal(await ingest.metric('millrace_ingest_events_dropped_total{reason="not_storable"}'), 0)
})

t.test('as keys of flags, variants and properties they have what was written, and nothing of an object', async (t) => {
  for (let n = 0; n < EVENTS / 4; n++) {
    const [variant, paid, key] = [pick(), pick(), pick()]
    const payloads = JSON.parse(object([[paid, text('payload')]])) as object
    const filters = { multivariate: { variants: [{ key: variant, rollout_percentage: 100 }] }, payloads, groups: [{ properties: [{ key, value: 'yes', type: 'person', operator: 'exact' }], rollout_percentage: 100 }] }
    const set = compileFlagSet(buildDefinitions([buildFlag(pick(), filters)]))
    const on = (personOverrides: Record<string, unknown>): unknown =>
      tryFlags(set, buildSubject(pick(), { stored: NO_FACTS, personOverrides }), [0])!.outcomes[0]
    const given = JSON.parse(object([[key, text('yes')]])) as Record<string, unknown>
    t.match(on(given), { value: variant, payload: variant === paid ? 'payload' : undefined })
    t.match(on({}), { value: false })
  }
})

t.test('as names in requests of the management API they are taken or refused', async (t) => {
  const { client } = await createTestClickHouse(t)
  const api = await createTestApi(t, { clickhouse: client })
  for (const name of PROTOTYPE_NAMES) {
    const answers = [
      await api.call('POST', '~/saved_queries', { name, query: `SELECT 'paid', {${name}:String} FROM events`, parameters: {} }),
      await api.call('POST', '~/feature_flags', { key: name, filters: { groups: [{ properties: [{ key: name, value: name, type: 'person', operator: name }] }] } }),
      await api.call('POST', '~/feature_flags', { key: `${name}-2`, filters: { groups: [{ properties: [], rollout_percentage: 5 }], multivariate: { variants: [{ key: name, rollout_percentage: 100 }] } } }),
      await api.call('POST', '~/event_rules', { name, condition: { type: 'event', values: [name] }, actions: [{ type: 'remove_property', property: name }] }),
      await api.call('POST', '~/event_schemas', { event: name, schema: { properties: { [name]: { type: 'string' } }, required: [name] } }),
      await api.call('POST', '~/event_schemas', { event: `${name} 2`, schema: { [name]: 1, properties: { a: { type: name, format: name } } } }),
      await api.call('POST', '~/experiments', { name, feature_flag_key: name, parameters: { [name]: 1 } }),
      await api.call('GET', `~/event_definitions/?search=${name}&ordering=${name}&${name}=1`), await api.call('GET', `~/persons/?${name}=${name}`)
    ]
    for (const { status, body } of answers) t.ok(status < 500, `${name}: ${status} ${JSON.stringify(body).slice(0, 200)}`)
  }
  t.match((await api.call('GET', '~/saved_queries/')).body, { count: PROTOTYPE_NAMES.length })
})
