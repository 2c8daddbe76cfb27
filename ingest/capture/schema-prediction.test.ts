import fc from 'fast-check'
import t from 'tap'
import { compileSchema } from '../../engines/json-schema/compile-schema.ts'
import { randomProperties, randomSchema } from '../../engines/json-schema/testing/random-schemas.ts'
import { parseJson } from '../../engines/body/parse-json.ts'
import type { ActiveSchema } from '../../platform/directory/active-schemas.ts'
import { checkSchema } from './take-event.ts'
import type { RequestContext, SentEvent } from '../event.ts'
import { createPlainNormaliser } from '../../test/support/plain-normaliser.ts'

/** A script runs a million: `MILLRACE_TEST_EVENTS=1000000 npx node ingest/capture/schema-prediction.test.ts`. */
const EVENTS = Number(process.env.MILLRACE_TEST_EVENTS ?? 10_000)
const EVENTS_PER_SCHEMA = 20

const context: RequestContext = {
  project: { id: 1, anonymizeIps: true, schemas: new Map() }, requestId: 'r', receivedAt: Date.UTC(2026, 10, 21), sentAt: null, ip: '',
  historical: false, visitor: { address: '', userAgent: '' }, isAttemptTime: false
}

/** JSON that ingest changes on its way into the table. */
const odd = fc.constantFrom('"\\ud800"', '12345678901234567890', '-9223372036854775809', '1e400', '1e20', '-0', 'NaN', '{"__proto__":1}')

t.test('what a check of the table predicts is what ingest does, on every event', async (t) => {
  const normalise = createPlainNormaliser()
  const sent = fc.tuple(randomProperties, fc.option(odd, { freq: 5 }), fc.constantFrom('a', 'b', '$ip', '$set'))
    .map(([properties, value, name]) => {
      const text = JSON.stringify(properties)
      return value === null ? text : `{${[text.slice(1, -1), `"${name}":${value}`].filter((part) => part !== '').join(',')}}`
    })
  let met = 0
  let events = 0
  const several = fc.array(sent, { minLength: EVENTS_PER_SCHEMA, maxLength: EVENTS_PER_SCHEMA })
  fc.assert(fc.property(randomSchema, several, (schema, bodies) => {
    const compiled = compileSchema(schema)
    const active: ActiveSchema = { id: 1, event: 'e', version: 3, mode: 'observe', text: '', check: compiled.check }
    for (const body of bodies) {
      const event = parseJson(`{"event":"e","distinct_id":"d","timestamp":"soon","properties":${body}}`, true) as SentEvent
      const normalised = normalise(event, context)
      if ('kind' in normalised) throw new Error(normalised.reason)
      const enforced = checkSchema(active, normalised)
      const predicted = compiled.check(JSON.parse(normalised.row.properties) as Record<string, unknown>, 'stored')
      events++
      if (normalised.row.schemaVersion === 3) met++
      const isSame = enforced?.path === predicted?.path && enforced?.keyword === predicted?.keyword
      if (isSame && normalised.row.schemaVersion === (predicted === null ? 3 : -3)) continue
      throw new Error(`${JSON.stringify(schema)} ${body}: ${JSON.stringify([enforced, predicted])}`)
    }
  }), { numRuns: EVENTS / EVENTS_PER_SCHEMA, endOnFailure: true })
  t.ok(events >= EVENTS)
  t.ok(met > EVENTS / 100 && met < EVENTS * 0.99, `${met} of ${events} meet their schema`)
})
