import fc from 'fast-check'
import t from 'tap'
import { createTestClickHouse } from '../support/test-stores.ts'
import { parseJson } from '../../engines/body/parse-json.ts'
import { activateSchema } from '../../platform/directory/active-schemas.ts'
import { checkStoredEvents } from '../../api/enforcement/schemas/check-stored-events.ts'
import { type CompiledSchema, compileSchema } from '../../engines/json-schema/compile-schema.ts'
import { generalise } from '../../engines/json-schema/describe-failure.ts'
import type { SchemaPrediction } from '../../api/enforcement/schemas/prediction.ts'
import { randomContract, randomNamedContract, randomOddProperties, randomSchema } from '../../engines/json-schema/testing/random-schemas.ts'
import { storedValuesOf } from '../../api/enforcement/schemas/stored-values.ts'
import { needsOf } from '../../api/enforcement/schemas/value-needs.ts'
import type { NormalisedEvent } from '../../ingest/normalise/normalise-event.ts'
import { checkSchema } from '../../ingest/capture/check-schema.ts'
import type { RequestContext, SentEvent } from '../../ingest/event.ts'
import { createPlainNormaliser } from '../support/plain-normaliser.ts'

/** As a script, more: `MILLRACE_TEST_SCHEMAS=500 npx node test/prediction/schema-hindsight.test.ts`. */
const EVENTS = Number(process.env.MILLRACE_TEST_STORED_EVENTS ?? 300)
const SCHEMAS = Number(process.env.MILLRACE_TEST_SCHEMAS ?? 20)

const NOW = Date.UTC(2026, 10, 21)

const context: RequestContext = {
  project: { id: 1, anonymizeIps: true }, requestId: 'r', receivedAt: NOW, sentAt: null, ip: '',
  historical: false, visitor: { address: '', userAgent: '' }, warnings: null, isAttemptTime: false
}

/** JSON that ingest changes on its way into the table, or that engines read in different ways. */
const odd = fc.constantFrom(
  '"\\ud800"', '"\\u0000"', '12345678901234567890', '-9223372036854775809', '100000000000000000000', '1e20', '1e400', '-0', 'NaN', '1.0',
  '123456789012345.00000000000000001', '{"__proto__":1}', `${'['.repeat(1500)}${']'.repeat(1500)}`)

const sent = fc.tuple(randomOddProperties, fc.option(odd, { freq: 4 }), fc.constantFrom('a', 'b', 'created_at', 'utm_medium'))
  .map(([properties, value, name]) => {
    const { [name]: _, ...others } = properties
    if (value === null) return JSON.stringify(properties)
    return `{${[JSON.stringify(others).slice(1, -1), `"${name}":${value}`].filter((part) => part !== '').join(',')}}`
  })

const normalise = createPlainNormaliser({ now: () => NOW })

function normaliseEvent (body: string): NormalisedEvent {
  const event = parseJson(`{"event":"e","distinct_id":"d","properties":${body}}`, true) as SentEvent
  const normalised = normalise(event, context)
  if (typeof normalised === 'string') throw new Error(normalised)
  return normalised
}

t.test('what is predicted from stored shapes and values is what ingest does, on every event', async (t) => {
  const clickhouse = await createTestClickHouse(t)
  const events = fc.sample(sent, EVENTS).map(normaliseEvent)
  const stored = events.map(({ row }, index) => ({
    project_id: 1, uuid: `01900000-0000-7000-8000-${String(index).padStart(12, '0')}`, event: 'e', distinct_id: 'd',
    timestamp: new Date(NOW - index * 60_000).toISOString().slice(0, 23), lib: index % 3 === 0 ? 'web' : 'ios', lib_version: '1', properties: row.properties,
    // Rows that others have written have no shape.
    property_types: index % 20 === 0 ? '' : row.propertyTypes
  }))
  await clickhouse.client.insert({ table: 'events', format: 'JSONEachRow', values: stored })
  const query = { projectId: 1, event: 'e', days: 365, limit: 1e7, now: NOW }
  const counts = { byValues: 0, met: 0, failed: 0 }
  const named = Math.ceil(SCHEMAS * 0.6)
  const others = Math.ceil((SCHEMAS - named) / 2)
  const schemas = [
    ...fc.sample(randomNamedContract, named), ...fc.sample(randomContract, others), ...fc.sample(randomSchema, others)
  ]
  for (const schema of schemas) {
    const compiled = compileSchema(schema)
    if (storedValuesOf(needsOf(compiled.schema)) !== null) counts.byValues++
    const enforced = enforce(events, compiled)
    const predicted = await checkStoredEvents(clickhouse.client, compiled, query)
    counts.met += predicted.met
    if (predicted.failures.some(({ samples }) => samples.length === 0)) t.fail(`a failure without samples: ${JSON.stringify(schema)}`)
    counts.failed += predicted.failed
    if (JSON.stringify(summaryOf(predicted)) === JSON.stringify(enforced)) continue
    t.same(summaryOf(predicted), enforced, JSON.stringify(schema))
    return
  }
  t.comment(counts)
  t.ok(counts.byValues > SCHEMAS / 4, `${counts.byValues} of ${schemas.length} by single values`)
  t.ok(counts.met > 0 && counts.failed > 0, JSON.stringify(counts))
})

t.test('events whose values are too many to be counted by them are judged one by one, also some of an hour', async (t) => {
  const { client } = await createTestClickHouse(t)
  // Every tenth names the property inside an object as well.
  await client.command({
    query: `INSERT INTO events (project_id, uuid, event, distinct_id, timestamp, properties, property_types)
      SELECT 1, generateUUIDv4(number), 'e', 'd', fromUnixTimestamp64Milli({now: Int64}),
        concat('{"o":', if(number % 10 = 0, '{"n":0}', 'null'), ',"n":', toString(number), '}'), 'e?o\\0eNn'
      FROM numbers(25000)`,
    query_params: { now: NOW - 1000 }
  })
  const compiled = compileSchema({ properties: { n: { minimum: 1000 } } })
  const query = { projectId: 1, event: 'e', days: 1, now: NOW }

  const whole = await checkStoredEvents(client, compiled, { ...query, limit: 1e6 })
  const some = await checkStoredEvents(client, compiled, { ...query, limit: 24_500 })

  t.match(whole, { events: 25_000, failed: 1000, complete: true })
  t.equal(some.events, 24_500)
  t.ok(some.failed >= 500 && some.failed <= 1000, `${some.failed} failed`)
})

/** What ingest says about each event, added up. */
function enforce (events: readonly NormalisedEvent[], compiled: CompiledSchema): Summary {
  const active = activateSchema({ id: 1, event: 'e', version: 1, mode: 'observe', text: '' }, compiled)
  const kinds = new Map<string, number>()
  let failed = 0
  for (const normalised of events) {
    const failure = checkSchema(active, normalised)
    if (failure !== null) failed++
    const failures = failure === null ? [] : compiled.failuresOf(normalised.properties, 'sent')
    for (const kind of new Set(failures.map(({ path, keyword }) => `${generalise(path)} ${keyword}`))) {
      kinds.set(kind, (kinds.get(kind) ?? 0) + 1)
    }
  }
  return { events: events.length, failed, kinds: [...kinds].sort() }
}

interface Summary {
  events: number
  failed: number
  kinds: [string, number][]
}

function summaryOf ({ events, failed, failures }: SchemaPrediction): Summary {
  return { events, failed, kinds: failures.map(({ path, keyword, events }): [string, number] => [`${path} ${keyword}`, events]).sort() }
}
