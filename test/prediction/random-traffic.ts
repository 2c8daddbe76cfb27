/** Random schemas, rules and events: the same seed makes the same. */
import fc from 'fast-check'
import {
  randomContract, randomOddProperties, randomProperties, randomSchema
} from '../../engines/json-schema/testing/random-schemas.ts'
import { randomRule, RULED_EVENTS } from '../../engines/rules/testing/random-rules.ts'
import { createRandom, pickOne } from '../support/random.ts'

export interface Traffic {
  /** The name of an event, and the schema of it. */
  schemas: readonly { event: string, schema: object }[]
  rules: readonly object[]
}

/** An event as an SDK sends it. */
export interface RandomEvent {
  ordinal: number
  name: string
  /** JSON: there are texts of which no object can be made. */
  body: string
  /** Address of the client. */
  ip: string
}

/** Later than every event. */
export const NOW = Date.UTC(2026, 10, 21)

const DAY_MS = 86_400_000
/** Few, so that a look back over one name reads little else: the table is in the order of days, then names. */
const DAYS = 3

/** Events that are made at once. */
const CHUNK = 5000

const ADDRESSES = ['', '10.1.2.3', '192.0.2.9', '2001:db8::7'] as const

/** Few, so that schemas and events often name the same; some of them have columns of their own. */
const name = fc.constantFrom('a', 'b', '$lib', 'created_at', 'utm_medium')

/** What schemas of real events ask, beside what `random-schemas.ts` makes. */
const detail = fc.oneof(
  fc.record({ type: fc.constant('string'), format: fc.constantFrom('date-time', 'date', 'email', 'uri', 'uuid') }),
  fc.record({ minLength: fc.nat({ max: 8 }), maxLength: fc.integer({ min: 6, max: 40 }) }, { requiredKeys: [] }),
  fc.record({
    minimum: fc.constantFrom(-1e9, -0.5, 0.1, 0.3, 1), maximum: fc.constantFrom(0.3, 100, 1e9, 2 ** 53, 1e20)
  }, { requiredKeys: [] }),
  fc.record({ exclusiveMinimum: fc.constantFrom(0, 0.30000000000000004), type: fc.constantFrom('number', 'integer') }),
  fc.record({ pattern: fc.constantFrom('^[0-9a-f]{8}-', '\\d+$', '@', '^\\p{L}*$') }),
  fc.record({ enum: fc.constantFrom(['free', 'pro'], ['free', 1, null], ['2026-11-21', 100, 0.1, true]) }),
  fc.record({ $ref: fc.constantFrom('#/$defs/plan', '#/$defs/amount') })
)

const detailedSchema = fc.record({
  $defs: fc.constant({ plan: { enum: ['free', 'pro', ''] }, amount: { type: ['number', 'null'], minimum: 0 } }),
  properties: fc.dictionary(name, detail, { minKeys: 1, maxKeys: 4 }),
  required: fc.uniqueArray(name, { maxLength: 2 })
})

const detailedValue = fc.oneof(
  fc.constantFrom('free', 'pro', '2026-11-21', '2026-11-21T10:00:00Z', 'ann@example.com', 'https://example.com/a?b', 100, 0.1, 0.3, 2 ** 53),
  fc.string({ maxLength: 12, unit: 'grapheme' }), fc.uuid(), fc.integer(), fc.nat({ max: 100 }), fc.double(), fc.boolean(), fc.constant(null))

const detailedProperties = fc.dictionary(name, detailedValue, { maxKeys: 5, noNullPrototype: true })

/** JSON that ingest changes on its way into the table, or that engines read in different ways. */
const odd = fc.constantFrom(
  '"\\ud800"', '"\\u0000"', '12345678901234567890', '-9223372036854775809', '100000000000000000000', '1e20', '1e400', '-0', 'NaN', '1.0',
  '123456789012345.00000000000000001', '{"__proto__":1}', '[12345678901234567]', `${'['.repeat(1500)}${']'.repeat(1500)}`)

const properties = fc.tuple(
  fc.oneof(randomProperties, randomOddProperties, detailedProperties),
  fc.option(odd, { freq: 4 }), fc.constantFrom('a', 'b', 'created_at', 'utm_medium', '$set'),
  fc.option(fc.constantFrom('"192.0.2.77"', '"2001:db8::99"', '"nowhere"', '""', 'null', '5', '{"a":1}'), { freq: 15 })
).map(([sent, value, oddName, address]) => {
  const { [oddName]: replaced, ...others } = sent
  const parts = [JSON.stringify(value === null ? sent : others).slice(1, -1)]
  if (value !== null) parts.push(`"${oddName}":${value}`)
  if (address !== null) parts.push(`"$ip":${address}`)
  return `{${parts.filter((part) => part !== '').join(',')}}`
})

/** Most rules are about few names, as most rules of people are; one in eight is about all. */
function scopeRule (rule: { condition: object | null }, index: number): object {
  if (index % 8 === 7) return rule
  const scope = { type: 'event', operator: 'regex', value: `^[abc]?\\d*${index % 10}$` }
  return { ...rule, condition: { type: 'AND', values: rule.condition === null ? [scope] : [scope, rule.condition] } }
}

/** Makes that many schemas, each of an event of its own, and rules. */
export function makeTraffic ({ seed, schemas, rules }: { seed: number, schemas: number, rules: number }): Traffic {
  const ofValues = Math.ceil(schemas * 0.5)
  const others = Math.ceil((schemas - ofValues) / 2)
  const made = [
    ...fc.sample(randomContract, { numRuns: ofValues, seed }), ...fc.sample(randomSchema, { numRuns: others, seed }),
    ...fc.sample(detailedSchema, { numRuns: schemas - ofValues - others, seed })
  ]
  const random = createRandom(seed)
  // The first names have the most events: each kind of schema gets some of them.
  const mixed = made.map((schema) => ({ schema, at: random() })).sort((one, other) => one.at - other.at)
  return {
    schemas: mixed.map(({ schema }, index) => ({ event: RULED_EVENTS[index] ?? `${'abc'[index % 3]}${index}`, schema })),
    rules: fc.sample(randomRule, { numRuns: rules, seed }).map(scopeRule)
  }
}

/** Makes events of these names in pieces; the first names have most of them. */
export function * makeEvents (
  { seed, events, names }: { seed: number, events: number, names: readonly string[] }
): Generator<RandomEvent[]> {
  for (let first = 0; first < events; first += CHUNK) {
    const random = createRandom(seed + first)
    const numRuns = Math.min(CHUNK, events - first)
    yield fc.sample(properties, { numRuns, seed: seed + first }).map((text, index) => {
      const ordinal = first + index
      const event = names[Math.floor(random() ** 2 * names.length)] as string
      const timestamp = new Date(NOW - 60_000 - Math.floor(random() * DAYS * DAY_MS)).toISOString()
      const uuid = `0193a5b2-7c1d-7e8f-9abc-${ordinal.toString(16).padStart(12, '0')}`
      const distinctId = 1 + Math.floor(random() * 300)
      return {
        ordinal,
        name: event,
        ip: pickOne(ADDRESSES, random),
        body: `{"event":"${event}","distinct_id":"${distinctId}","uuid":"${uuid}","timestamp":"${timestamp}","properties":${text}}`
      }
    })
  }
}
