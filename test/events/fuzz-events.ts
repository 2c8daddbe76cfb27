import { createRandom, pickOne, shuffle } from '../support/random.ts'

/** A seeded source of choices, so that a failing run can be repeated. */
export interface Choices {
  /** A whole number from 0 to below `end`. */
  below (end: number): number
  pick <T>(list: readonly T[]): T
  /** True once in `times`. */
  once (times: number): boolean
  shuffle <T>(list: readonly T[]): T[]
}

export function createChoices (seed: number): Choices {
  const random = createRandom(seed)
  const below = (end: number): number => Math.floor(random() * end)
  return {
    below,
    pick: (list) => pickOne(list, random),
    once: (times) => below(times) === 0,
    shuffle: (list) => shuffle(list, random)
  }
}

/** An event as JSON text (it may hold what no object can: repeated keys, huge numbers) and what must become of it. */
export interface FuzzEvent {
  json: string
  /** Its number among all events; property `n` of the stored one. */
  ordinal: number
  isStorable: boolean
}

const TEXTS = ['plain', '', ' ', 'é日本😀', 'a\0b', '\ud800', 'x\udc00y', '\u2028', '"quoted\\"', '\r\n\t', 'null', '0', '\n\n',
  '--', 'x'.repeat(5000), '../../etc', '<script>', "'; DROP TABLE events; --", '\x01\x02', '\ufeffbom']
const SCALARS = ['null', 'true', 'false', '0', '-0', '1e308', '9007199254740993', '123456789012345678901234567890', '-1.5e-300']
const TIMES = ['"2026-11-20T10:00:00.000Z"', '"1970-01-01T00:00:00Z"', '"2099-12-31"', '"0001-01-01"', '"yesterday"', '""', 'null', '{}',
  '1795000000', '1795000000000', '-5', '"2026-02-30T00:00:00Z"', '"2026-11-20 10:00"', '"Fri, 20 Nov 2026 10:00:00 GMT"', 'true']

/** Builds an event with one or two oddities, or none. */
export function buildEvent (choices: Choices, ordinal: number): FuzzEvent {
  if (choices.once(25)) return { json: choices.pick(['null', '5', '"text"', '[]', '[{}]', 'true']), ordinal, isStorable: false }
  const name = buildName(choices)
  const id = buildDistinctId(choices, ordinal)
  const isBadProperties = choices.once(30)
  const fields = [name.json, ...id.fields, `"uuid":${buildUuid(choices, ordinal)}`]
  if (!choices.once(3)) fields.push(`"timestamp":${choices.pick(TIMES)}`)
  if (choices.once(8)) fields.push(`"offset":${choices.pick(['2500', '-5', '"x"', '1e300', 'null'])}`)
  if (choices.once(8)) fields.push(`"${choices.pick(['$set', '$set_once', '$unset'])}":${buildValue(choices, 2)}`)
  if (choices.once(20)) fields.push('"event2":1,"__proto__":{"event":"polluted"},"constructor":null')
  fields.push(isBadProperties
    ? `"properties":${choices.pick(['[1]', '"x"', '5', 'true'])}`
    : `"properties":{${[...id.properties, ...buildProperties(choices), `"n":${ordinal}`].join(',')}}`)
  return { json: `{${choices.shuffle(fields).join(',')}}`, ordinal, isStorable: name.isGood && id.isGood && !isBadProperties }
}

function buildName (choices: Choices): { json: string, isGood: boolean } {
  if (choices.once(15)) return { json: `"event":${choices.pick(['""', 'null', '5', '{}', '[]', 'false'])}`, isGood: false }
  if (choices.once(30)) return { json: '"evnt":"misspelt"', isGood: false }
  const name = choices.pick(['$pageview', '$identify', '$create_alias', '$groupidentify', '$exception', 'order paid', 'ü'.repeat(300),
    'nul\0name', '\ud800', '$$plugin_metrics'])
  return { json: `"event":${JSON.stringify(name)}`, isGood: true }
}

interface FuzzId {
  fields: string[]
  properties: string[]
  isGood: boolean
}

function buildDistinctId (choices: Choices, ordinal: number): FuzzId {
  if (choices.once(20)) {
    const json = choices.pick(['""', 'null', '"  "', '"\\t\\n"'])
    return { fields: [`"distinct_id":${json}`], properties: [], isGood: false }
  }
  if (choices.once(40)) return { fields: [], properties: [], isGood: false }
  const json = choices.pick([`"user-${ordinal % 100}"`, `${ordinal}`, 'true', '0', '{"id":1}', '["a"]', '"a\\u0000b"', '"\\ud800"',
    JSON.stringify('x'.repeat(250) + '😀')])
  const where = choices.below(4)
  if (where === 0) return { fields: [], properties: [`"distinct_id":${json}`], isGood: true }
  return { fields: [`"${where === 1 ? '$distinct_id' : 'distinct_id'}":${json}`], properties: [], isGood: true }
}

/** All different, so that no two events are one. */
function buildUuid (choices: Choices, ordinal: number): string {
  const digits = ordinal.toString(16).padStart(12, '0')
  switch (choices.below(8)) {
    case 0: return choices.pick(['null', '""', '"00000000-0000-0000-0000-000000000000"'])
    case 1: return `"order-${ordinal}"`
    case 2: return String(ordinal)
    case 3: return `{"id":${ordinal}}`
    case 4: return `"{0193A5B2-7C1D-4E8F-9ABC-${digits}}"`
    default: return `"0193a5b2-7c1d-7e8f-9abc-${digits}"`
  }
}

function buildProperties (choices: Choices): string[] {
  return Array.from({ length: choices.below(8) }, () => `${buildKey(choices)}:${buildValue(choices, 3)}`)
}

function buildKey (choices: Choices): string {
  return JSON.stringify(choices.pick(['a', '$browser', '$ip', '$groups', '$set', '$group_type', '$group_key', '$group_set', '$current_url',
    'created_at', 'utm_source', '__proto__', 'constructor', 'toString', '', '0', '17', 'nul\0key', '\ud800', 'k'.repeat(300),
    '$anon_distinct_id', 'alias', '$process_person_profile', '$ignore_sent_at', '$session_id', 'token2', '$unset']))
}

function buildValue (choices: Choices, depth: number): string {
  if (choices.once(10_000)) return '['.repeat(10_000) + ']'.repeat(10_000)
  if (choices.once(10_000)) return JSON.stringify('long '.repeat(200_000))
  if (choices.once(10_000)) return `{${Array.from({ length: 10_000 }, (_, i) => `"key ${i}":${i}`).join(',')}}`
  const kind = choices.below(depth === 0 ? 2 : 4)
  if (kind === 0) return choices.pick(SCALARS)
  if (kind === 1) return JSON.stringify(choices.pick(TEXTS))
  const values = Array.from({ length: choices.below(4) }, () => buildValue(choices, depth - 1))
  return kind === 2 ? `[${values.join(',')}]` : `{${values.map((value) => `${buildKey(choices)}:${value}`).join(',')}}`
}
