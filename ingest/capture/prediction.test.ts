import fc from 'fast-check'
import t from 'tap'
import { hasLongNumber, parseJson } from '../../engines/body/parse-json.ts'
import { stringifyJson } from '../../engines/body/stringify-json.ts'
import { compileSchema } from '../../engines/json-schema/compile-schema.ts'
import { randomProperties, randomSchema } from '../../engines/json-schema/testing/random-schemas.ts'
import { applyRules } from '../../engines/rules/apply-rules.ts'
import { randomRule, RULED_EVENTS } from '../../engines/rules/testing/random-rules.ts'
import { compileRules, type KeyedRules } from '../enforcement/active-rules.ts'
import type { ActiveSchema } from '../enforcement/active-schemas.ts'
import { createPlainNormaliser } from '../../test/support/plain-normaliser.ts'
import type { Dropped, RequestContext, SentEvent } from '../event.ts'
import type { NormalisedEvent } from '../normalise/normalise-event.ts'
import { checkSchema } from './take-event.ts'

/** A script runs a million: `MILLRACE_TEST_EVENTS=1000000 npx node ingest/capture/prediction.test.ts`. */
const EVENTS = Number(process.env.MILLRACE_TEST_EVENTS ?? 10_000)
const RULES = 50
const SCHEMAS = 500
const EVENTS_PER_SET = 500

const ADDRESSES = ['', '10.1.2.3', '192.0.2.9', '2001:db8::7'] as const

/** JSON that ingest changes on its way into the table. */
const odd = fc.constantFrom('"\\ud800"', '12345678901234567890', '-9223372036854775809', '1e400', '1e20', '-0', 'NaN', '[12345678901234567]')

const normalise = createPlainNormaliser()

function contextOf (ip: string, rules?: KeyedRules): RequestContext {
  return {
    project: { id: 1, anonymizeIps: false, ...rules !== undefined && { rules } }, requestId: 'r', receivedAt: Date.UTC(2026, 10, 21),
    sentAt: null, ip, historical: false, visitor: { address: ip, userAgent: '' }, isAttemptTime: false
  }
}

const sentEvent = fc.record({
  name: fc.constantFrom(...RULED_EVENTS),
  id: fc.integer({ min: 1, max: 300 }),
  properties: fc.tuple(randomProperties, fc.option(odd, { freq: 5 }), fc.constantFrom('a', 'b', '$set')).map(([properties, value, name]) => {
    const text = JSON.stringify(properties)
    return value === null ? text : `{${[text.slice(1, -1), `"${name}":${value}`].filter((part) => part !== '').join(',')}}`
  }),
  ip: fc.constantFrom(...ADDRESSES)
})

t.test('what a check of the table predicts is what rules and schemas do, on every event', async (t) => {
  const counts = { events: 0, dropped: 0, sampled: 0, changed: 0, untouched: 0, failed: 0 }
  const sets = Math.max(1, Math.ceil(EVENTS / EVENTS_PER_SET))
  // Of each, ten are drawn for every set: together they are as many as a large project has.
  const schemas = fc.sample(randomSchema, Math.min(SCHEMAS, sets * 10)).map((schema) => compileSchema(schema))

  fc.assert(fc.property(
    fc.array(randomRule, { minLength: 1, maxLength: RULES, size: 'max' }),
    fc.array(sentEvent, { minLength: EVENTS_PER_SET, maxLength: EVENTS_PER_SET }),
    (definitions, events) => {
      const rules = compileRules({
        secret: new Uint8Array(32),
        rules: definitions.map((definition, index) => ({ id: index, name: `rule ${index}`, version: 1, text: JSON.stringify(definition) }))
      }, 1)
      for (const { name, id, properties, ip } of events) {
        const body = `{"event":"${name}","distinct_id":"${id}","uuid":"018f3c1e-8d2a-7cc3-9e4b-5a6b7c8d9e0f","timestamp":"2026-11-21","properties":${properties}}`
        const parse = (): SentEvent => parseJson(body, true) as SentEvent
        const context = contextOf(ip, rules)
        const enforced = normalise(parse(), context)
        const stored = normalise(parse(), contextOf(ip)) as NormalisedEvent
        const text = stored.row.properties
        const predicted = applyRules(rules.rules, {
          event: stored.row.event, distinctId: stored.row.distinctId, receivedAt: stored.row.receivedAt, ip,
          properties: parseJson(text, hasLongNumber(Buffer.from(text))) as Record<string, unknown>
        }, 'stored')
        counts.events++
        const difference = compare(enforced, { predicted, text })
        if (difference !== null) throw new Error(`${body} from ${ip}: ${difference}`)
        if ('kind' in enforced) {
          counts[predicted?.kind === 'dropped' ? 'dropped' : 'sampled']++
          continue
        }
        counts[predicted === null ? 'untouched' : 'changed']++
        // Rules run first, so schemas check their output.
        const compiled = schemas[counts.events % schemas.length]!
        const failure = checkSchema({ id: 1, event: name, version: 1, mode: 'observe', text: '', check: compiled.check }, enforced)
        const again = compiled.check(JSON.parse(enforced.row.properties) as Record<string, unknown>, 'stored')
        if (failure !== null) counts.failed++
        if (failure?.path !== again?.path || failure?.keyword !== again?.keyword) throw new Error(`${body}: ${JSON.stringify([failure, again])}`)
        const { uuid, event, distinctId, timestamp } = enforced.row
        const identity = JSON.stringify([uuid, event, distinctId, timestamp])
        if (identity !== JSON.stringify([stored.row.uuid, stored.row.event, stored.row.distinctId, stored.row.timestamp])) throw new Error(`${body}: another event`)
      }
    }
  ), { numRuns: sets, endOnFailure: true })

  t.ok(counts.events >= EVENTS)
  for (const [kind, count] of Object.entries(counts)) t.ok(count > EVENTS / 200, `${kind}: ${count}`)
})

/** What differs between what ingest did and what was predicted; null: nothing. */
function compare (
  enforced: NormalisedEvent | Dropped, { predicted, text }: { predicted: ReturnType<typeof applyRules>, text: string }
): string | null {
  if ('kind' in enforced) return enforced.reason === `rule_${predicted?.kind}` ? null : `${enforced.reason}, predicted ${predicted?.kind ?? 'stored'}`
  if (predicted !== null && predicted.kind !== 'stored') return `stored, predicted ${predicted.kind}`
  const expected = predicted === null ? text : stringifyJson(predicted.properties)
  if (enforced.row.properties !== expected) return `${enforced.row.properties} is stored, predicted ${expected}`
  return enforced.row.sampleWeight === (predicted?.weight ?? 1) ? null : `weight ${enforced.row.sampleWeight}, predicted ${predicted?.weight}`
}

const EVENTS_PER_SCHEMA = 20

const context: RequestContext = {
  project: { id: 1, anonymizeIps: true, schemas: new Map() }, requestId: 'r', receivedAt: Date.UTC(2026, 10, 21), sentAt: null, ip: '',
  historical: false, visitor: { address: '', userAgent: '' }, isAttemptTime: false
}

t.test('what a check of the table predicts is what ingest does, on every event', async (t) => {
  const normalise = createPlainNormaliser()
  const sent = fc.tuple(randomProperties, fc.option(fc.oneof(odd, fc.constant('{"__proto__":1}')), { freq: 5 }), fc.constantFrom('a', 'b', '$ip', '$set'))
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
