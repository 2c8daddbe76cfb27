import t from 'tap'
import { stringifyJson } from '../../engines/body/stringify-json.ts'
import { PROJECT_KEY, startTestIngest } from '../../ingest/testing/start-test-ingest.ts'
import { storePublishedFrames } from '../../ingest/testing/read-published-events.ts'
import { storeWarnings } from '../../pipeline/accounting/store-warnings.ts'
import { startPersons } from '../../pipeline/persons/start-persons.ts'
import { countDeadLetters } from '../../api/events/dead-letters/list-dead-letters.ts'
import { createLogger } from '../../platform/logger.ts'
import { createMetrics } from '../../platform/metrics.ts'
import { MAX_PROPERTY_DEPTH } from '../../engines/body/property-depth.ts'
import { createRandom, pickOne, type Random } from '../support/random.ts'
import { createTestClickHouse } from '../support/test-stores.ts'
import { waitFor } from '../support/wait-for.ts'

const SEED = Number(process.env.MILLRACE_TEST_SEED ?? 39)
const EVENTS = 250
const logger = createLogger({ component: 'test', level: 'silent' })

/** Around our limit, that of Python and that of ClickHouse, and beyond that of Postgres. */
const LEVELS = [1, 199, 200, 201, 205, 994, 1021, 1022, 1023, 1024, 5000, 20_000]
const PLACES = ['property', '$set', 'top $set', '$set_once', '$groups', '$group_set', 'timestamp', '$unset'] as const

interface Sent { place: (typeof PLACES)[number], levels: number, event: Record<string, unknown> }

/** A value with arrays and objects in each other, and text beside them. */
function nest (levels: number, random: Random): unknown {
  let value: unknown = 1
  for (let level = 0; level < levels; level++) {
    const text = level < 3 ? 'x'.repeat(1 + Math.floor(random() * 40)) : 'x'
    value = random() < 0.5 ? [text, value] : { text, value }
  }
  return value
}

/** Everything but the deep value is to be kept: `marker` says of which event. */
function makeEvent (marker: number, random: Random): Sent {
  const place = pickOne(PLACES, random)
  const levels = pickOne(LEVELS, random)
  const deep = nest(levels, random)
  const id = `person ${marker}`
  const properties: Record<string, unknown> = { marker, $anon_distinct_id: `anonymous ${marker}`, $set: { marker } }
  const event: Record<string, unknown> = { event: '$identify', distinct_id: id, timestamp: '2026-11-01T00:00:00Z', properties }
  switch (place) {
    case 'property': properties.deep = deep; break
    case '$set': properties.$set = { marker, deep }; break
    case 'top $set': event.$set = { marker, deep }; break
    case '$set_once': properties.$set_once = { deep }; break
    case '$groups': properties.$groups = { team: `team ${marker}`, deep }; break
    case '$group_set':
      event.event = '$groupidentify'
      Object.assign(properties, { $group_type: 'company', $group_key: `company ${marker}`, $group_set: { marker, deep } })
      break
    case 'timestamp': event.timestamp = deep; break
    case '$unset': properties.$unset = ['nothing', deep]; break
  }
  return { place, levels, event }
}

/** Whether a value is to be kept. In a list it is one level deeper, and groups need a text. */
function fits ({ place, levels }: Sent): boolean {
  return levels + (place === '$unset' ? 1 : 0) <= MAX_PROPERTY_DEPTH
}

t.test(`fuzz: values of any depth at any place; seed ${SEED}`, async (t) => {
  const [ingest, clickhouse] = await Promise.all([startTestIngest(t), createTestClickHouse(t)])
  const { connection, postgres: { sql } } = ingest
  const persons = startPersons({
    connection, sql, clickhouse: clickhouse.client, logger, metrics: createMetrics('test'), membership: { id: 'only', living: () => ['only'] }
  })
  t.teardown(async () => await persons.stop())
  const random = createRandom(SEED)
  const sent = Array.from({ length: EVENTS }, (_, marker) => makeEvent(marker, random))

  // Alone; in small bodies; in large ones, which a thread takes.
  for (let at = 0; at < EVENTS;) {
    const batch = sent.slice(at, at += pickOne([1, 5, 40], random)).map(({ event }) => event)
    t.equal((await ingest.post('/batch/', stringifyJson({ api_key: PROJECT_KEY, batch }))).status, 200)
  }

  const tooDeep = sent.filter((each) => !fits(each))
  const byPlace = PLACES.map((place) => [place, tooDeep.filter((each) => each.place === place).length])
  t.comment({ events: EVENTS, tooDeep: tooDeep.length, ...Object.fromEntries(byPlace) })
  await storePublishedFrames(connection, clickhouse)
  const select = async <T>(query: string): Promise<T[]> =>
    await (await clickhouse.client.query({ query, format: 'JSONEachRow' })).json<T>()
  const stored = await select<{ marker: number, deep: number, originalTime: number }>(`SELECT JSONExtractInt(properties, 'marker')::Int32 AS marker,
    JSONHas(properties, 'deep') AS deep, JSONHas(properties, '$original_timestamp') AS originalTime FROM events ORDER BY marker`)
  t.same(stored.map(({ marker }) => marker), sent.map((_, marker) => marker), 'the engine reads the properties of every event')
  t.same(stored.map(({ deep }) => deep === 1), sent.map((each) => each.place === 'property' && fits(each)))
  t.same(stored.map(({ originalTime }) => originalTime === 1), sent.map((each) => each.place === 'timestamp' && fits(each)))

  const identified = sent.flatMap(({ event }, marker) => event.event === '$identify' ? [marker] : [])
  const read = async () => await sql<{ marker: number, deep: boolean, ids: string[] }[]>`
    SELECT (properties->>'marker')::integer AS marker, properties ? 'deep' AS deep, array_agg(distinct_id ORDER BY distinct_id) AS ids
    FROM persons JOIN person_distinct_ids ON person_id = persons.id GROUP BY persons.id, 1, 2 ORDER BY 1`
  await waitFor(async () => (await read()).length >= identified.length)
  t.same((await read()).map(({ marker, deep, ids }) => ({ marker, deep, ids })), identified.map((marker) => {
    const each = sent[marker]!
    return { marker, deep: ['$set', 'top $set', '$set_once'].includes(each.place) && fits(each), ids: [`anonymous ${marker}`, `person ${marker}`] }
  }), 'every person is changed and merged')
  const groups = await sql<{ marker: number, deep: boolean }[]>`
    SELECT (properties->>'marker')::integer AS marker, properties ? 'deep' AS deep FROM groups WHERE properties ? 'marker' ORDER BY 1`
  t.same([...groups], sent.flatMap((each, marker) => each.place === '$group_set' ? [{ marker, deep: fits(each) }] : []))

  t.equal(await countDeadLetters(connection), 0)
  await storeWarnings({ connection, clickhouse: clickhouse.client, logger })
  t.match(await select("SELECT sum(count)::Int32 AS count FROM ingestion_warnings WHERE project_id = 1 AND reason = 'property_too_deep'"),
    [{ count: tooDeep.length }], 'one warning for each event')
})
