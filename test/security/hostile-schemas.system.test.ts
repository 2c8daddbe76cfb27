import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { createTestApi } from '../../api/testing/create-test-api.ts'
import { createReadActiveSchemas } from '../../ingest/enforcement/active-schemas.ts'
import { SCHEMA_LIMITS } from '../../engines/json-schema/schema-place.ts'
import { createLogger } from '../../platform/logger.ts'

/** CPU of parsing some megabytes of JSON on this machine, in milliseconds: a process may not be blocked for longer. */
const MAX_BLOCKED_MS = 8 * measureParsing()

function measureParsing (): number {
  const text = JSON.stringify(Array.from({ length: 200_000 }, (_, index) => ({ name: `name ${index}` })))
  const times = Array.from({ length: 5 }, () => {
    const before = cpuMs()
    JSON.parse(text)
    return cpuMs() - before
  })
  return Math.min(...times)
}

/**
 * Measures how long the turns of the event loop are while something happens, in CPU time: that of other processes does
 * not count.
 */
async function longestTurn (work: () => Promise<unknown>): Promise<number> {
  let longest = 0
  let isOver = false
  let last = cpuMs()
  const watch = (): void => {
    const now = cpuMs()
    longest = Math.max(longest, now - last)
    last = now
    if (!isOver) setImmediate(watch)
  }
  setImmediate(watch)
  await work()
  isOver = true
  await nextTurn()
  return longest
}

function cpuMs (): number {
  // Of a thread it is known only at each tick of the system.
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

const nested = (levels: number, open: string, close: string, inner = '{}'): string => `${open.repeat(levels)}${inner}${close.repeat(levels)}`

const fill = (bytes: number, each: (index: number) => string): string => {
  let text = ''
  for (let index = 0; text.length < bytes; index++) text += `${index === 0 ? '' : ','}${each(index)}`
  return text
}

/** Schemas that nobody writes by accident, as JSON text, and the field that is refused. */
const HOSTILE: Record<string, [schema: string, attr: RegExp]> = {
  'deep in properties': [nested(2000, '{"properties":{"a":', '}}'), /^schema(__properties__a)+/],
  'deep in not': [nested(8000, '{"not":', '}'), /^schema(__not)+/],
  'deep in items': [nested(8000, '{"items":', '}'), /^schema(__items)*/],
  'deep in allOf': [nested(5000, '{"allOf":[', ']}'), /^schema(__allOf__0)+/],
  'deep in a keyword that is not known': [`{"unknown":${nested(20_000, '[', ']', '')}}`, /^schema__unknown/],
  'huge: many properties': [`{"properties":{${fill(500_000, (index) => `"p${index}":{"type":"string"}`)}}}`, /^schema/],
  'huge: one text': [`{"description":"${'x'.repeat(500_000)}"}`, /^schema/],
  'huge: values': [`{"properties":{"a":{"enum":[${fill(500_000, String)}]}}}`, /^schema/],
  'many subschemas': [`{"allOf":[${fill(60_000, () => 'true')}]}`, /^schema/],
  'many values': [`{"properties":{"a":{"enum":[${fill(10_000, String)}]}}}`, /^schema__properties__a__enum/],
  'a recursive $ref': ['{"$defs":{"a":{"properties":{"a":{"$ref":"#/$defs/a"}}}},"$ref":"#/$defs/a"}', /^schema__\$defs__a.*__\$ref/],
  'two that refer to each other': ['{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}', /^schema__\$defs__.*__\$ref/],
  'a $ref to everything': ['{"properties":{"a":{"$ref":"#"}}}', /^schema__properties__a__\$ref/],
  '$ref doubled thirty times': [
    `{"$defs":{${fill(1, () => Array.from({ length: 30 }, (_, n) => `"d${n}":{"allOf":[{"$ref":"#/$defs/d${n + 1}"},{"$ref":"#/$defs/d${n + 1}"}]}`).join(','))},"d30":{}},"$ref":"#/$defs/d0"}`,
    /^schema__\$defs/],
  'a pattern that backtracks for ever elsewhere, with look-ahead': ['{"properties":{"a":{"pattern":"^(?=(a+)+$)"}}}', /^schema__properties__a__pattern/],
  'a back-reference': ['{"properties":{"a":{"pattern":"(a*)*\\\\1"}}}', /^schema__properties__a__pattern/],
  'repetitions in repetitions': ['{"properties":{"a":{"pattern":"((((a{1,99}){1,99}){1,99}){1,99})"}}}', /^schema__properties__a__pattern/],
  'a repetition of a million': ['{"properties":{"a":{"pattern":"(a?){1000000}"}}}', /^schema__properties__a__pattern/],
  'classes of everything, repeated': ['{"properties":{"a":{"pattern":"([\\\\p{L}\\\\p{N}]{9}){300}"}}}', /^schema__properties__a__pattern/],
  'parentheses all the way': [`{"properties":{"a":{"pattern":"${'('.repeat(20_000)}"}}}`, /^schema__properties__a__pattern/],
  '__proto__ as a property': ['{"properties":{"__proto__":{"type":"string"}}}', /^schema__properties____proto__$/],
  '__proto__ as a definition': ['{"$defs":{"__proto__":{"type":"string"}}}', /^schema__\$defs____proto__$/],
  '__proto__ that is required': ['{"required":["__proto__"]}', /^schema__required__0/],
  'constructor.prototype': ['{"constructor":{"prototype":{"type":"string"}}}', /^schema__constructor__prototype$/]
}

const properties = (count: number, each: (index: number) => object): object =>
  ({ properties: Object.fromEntries(Array.from({ length: count }, (_, index) => [`p${index}`, each(index)])) })

/** Nearly as much as the limits allow, of each kind: these are taken, and every ingest process compiles them. */
const LARGEST: Record<string, object> = {
  'patterns with many instructions': properties(11, () => ({ pattern: '(a?b){199}' })),
  'a pattern that is referred to': { $defs: { a: { pattern: '(a?b){199}' } }, ...properties(10, () => ({ $ref: '#/$defs/a' })) },
  'many patterns': properties(250, () => ({ pattern: '[a-z]+$' })),
  'classes of Unicode': properties(70, () => ({ pattern: '\\p{L}\\p{N}\\p{S}\\p{P}' })),
  'classes of Unicode in both cases': properties(5, () => ({ pattern: `(?i)${'[\\p{L}\\p{S}]'.repeat(35)}` })),
  'alternatives in alternatives': properties(50, () => ({ anyOf: Array.from({ length: 9 }, () => ({ items: { type: 'string' } })) })),
  'many values': properties(8, () => ({ enum: Array.from({ length: SCHEMA_LIMITS.values }, (_, value) => value) })),
  'many names': {
    required: Array.from({ length: 900 }, (_, index) => `name ${index}`),
    dependentRequired: { a: Array.from({ length: 900 }, (_, index) => `name ${index}`) }
  }
}

/** The shortest of several tries: first-time compilation and garbage collection are unrelated to the schema. */
async function blockedMs (work: () => Promise<unknown>): Promise<number> {
  let shortest = Infinity
  for (let tries = 0; tries < 5 && shortest >= MAX_BLOCKED_MS; tries++) {
    shortest = Math.min(shortest, await longestTurn(work))
  }
  return shortest
}

t.test('hostile schemas are refused with the name of the field, and nobody waits', async (t) => {
  const api = await createTestApi(t)
  // The first request of a process loads and compiles what all share.
  await api.call('POST', '~/event_schemas/', { event: 'first', schema: { properties: { a: { pattern: '^(a|b)+$' } } } })
  for (const [name, [schema, attr]] of Object.entries(HOSTILE)) {
    let answer: { statusCode: number, json: () => any } | undefined
    const ms = await blockedMs(async () => {
      answer = await api.app.inject({
        method: 'POST', url: `/api/projects/${api.projectId}/event_schemas/`, payload: `{"event":"e","schema":${schema}}`,
        headers: { authorization: `Bearer ${api.key}`, 'content-type': 'application/json' }
      })
    })
    t.equal(answer!.statusCode, 400, name)
    t.match(answer!.json(), { type: 'validation_error', attr }, name)
    t.ok(ms < MAX_BLOCKED_MS, `${name}: ${ms.toFixed(1)} ms`)
  }
  t.match(await api.call('GET', '~/event_schemas/'), { body: { count: 1 } })
  const tooLarge = { status: 413, body: { code: 'request_too_large', attr: 'body' } }
  const schema = { description: 'x'.repeat(600_000) }
  t.match(await api.call('POST', '~/event_schemas/', { event: 'e', schema }), tooLarge, 'a larger body is not read')
  t.match(await api.call('PATCH', '~/event_schemas/1', { schema }), tooLarge)
  t.match(await api.call('POST', '~/event_schemas/1/check', { schema }), tooLarge)
})

t.test('the largest schemas that are taken block neither the API nor those who read all of them', async (t) => {
  const api = await createTestApi(t)
  await api.call('POST', '~/event_schemas/', { event: 'first', schema: { properties: { a: { pattern: '^(a|b)+$' } } } })
  for (const [event, schema] of Object.entries(LARGEST)) {
    const { status, body } = await api.call('POST', '~/event_schemas/', { event, schema, active_version: 1 })
    t.equal(status, 201, `${event}: ${JSON.stringify(body).slice(0, 200)}`)
    const ms = await blockedMs(async () => await api.call('PATCH', `~/event_schemas/${body.id}`, { schema, description: event }))
    t.ok(ms < MAX_BLOCKED_MS, `${event}: ${ms.toFixed(1)} ms`)
  }
  const logger = createLogger({ component: 'test', level: 'silent' })
  const ms = await blockedMs(async () => {
    const active = await createReadActiveSchemas(api.sql, logger)()
    t.equal(active.get(api.projectId)?.size, Object.keys(LARGEST).length)
  })
  t.ok(ms < MAX_BLOCKED_MS, `a process that reads all of them: ${ms.toFixed(1)} ms`)
})
