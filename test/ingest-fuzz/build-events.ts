/** A seeded source of numbers (xorshift32), so that a failing run can be repeated. */
export interface Random {
  /** A whole number from 0 to below `end`. */
  below (end: number): number
  pick <T>(list: readonly T[]): T
  /** True once in `times`. */
  once (times: number): boolean
}

export function createRandom (seed: number): Random {
  let state = seed | 0 || 1
  const below = (end: number): number => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) % end
  }
  return { below, pick: (list) => list[below(list.length)] as never, once: (times) => below(times) === 0 }
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
export function buildEvent (random: Random, ordinal: number): FuzzEvent {
  if (random.once(25)) return { json: random.pick(['null', '5', '"text"', '[]', '[{}]', 'true']), ordinal, isStorable: false }
  const name = buildName(random)
  const id = buildDistinctId(random, ordinal)
  const isBadProperties = random.once(30)
  const fields = [name.json, ...id.fields, `"uuid":${buildUuid(random, ordinal)}`]
  if (!random.once(3)) fields.push(`"timestamp":${random.pick(TIMES)}`)
  if (random.once(8)) fields.push(`"offset":${random.pick(['2500', '-5', '"x"', '1e300', 'null'])}`)
  if (random.once(8)) fields.push(`"${random.pick(['$set', '$set_once', '$unset'])}":${buildValue(random, 2)}`)
  if (random.once(20)) fields.push('"event2":1,"__proto__":{"event":"polluted"},"constructor":null')
  fields.push(isBadProperties
    ? `"properties":${random.pick(['[]', '"x"', '5', 'true'])}`
    : `"properties":{${[...id.properties, ...buildProperties(random), `"n":${ordinal}`].join(',')}}`)
  shuffle(random, fields)
  return { json: `{${fields.join(',')}}`, ordinal, isStorable: name.isGood && id.isGood && !isBadProperties }
}

function buildName (random: Random): { json: string, isGood: boolean } {
  if (random.once(15)) return { json: `"event":${random.pick(['""', 'null', '5', '{}', '[]', 'false'])}`, isGood: false }
  if (random.once(30)) return { json: '"evnt":"misspelt"', isGood: false }
  const name = random.pick(['$pageview', '$identify', '$create_alias', '$groupidentify', '$exception', 'order paid', 'ü'.repeat(300),
    'nul\0name', '\ud800', '$$plugin_metrics'])
  return { json: `"event":${JSON.stringify(name)}`, isGood: true }
}

interface FuzzId {
  fields: string[]
  properties: string[]
  isGood: boolean
}

function buildDistinctId (random: Random, ordinal: number): FuzzId {
  if (random.once(20)) {
    const json = random.pick(['""', 'null', '"  "', '"\\t\\n"'])
    return { fields: [`"distinct_id":${json}`], properties: [], isGood: false }
  }
  if (random.once(40)) return { fields: [], properties: [], isGood: false }
  const json = random.pick([`"user-${ordinal % 100}"`, `${ordinal}`, 'true', '0', '{"id":1}', '["a"]', '"a\\u0000b"', '"\\ud800"',
    JSON.stringify('x'.repeat(250) + '😀')])
  const where = random.below(4)
  if (where === 0) return { fields: [], properties: [`"distinct_id":${json}`], isGood: true }
  return { fields: [`"${where === 1 ? '$distinct_id' : 'distinct_id'}":${json}`], properties: [], isGood: true }
}

/** All different, so that no two events are one. */
function buildUuid (random: Random, ordinal: number): string {
  const digits = ordinal.toString(16).padStart(12, '0')
  switch (random.below(8)) {
    case 0: return random.pick(['null', '""', '"00000000-0000-0000-0000-000000000000"'])
    case 1: return `"order-${ordinal}"`
    case 2: return String(ordinal)
    case 3: return `{"id":${ordinal}}`
    case 4: return `"{0193A5B2-7C1D-4E8F-9ABC-${digits}}"`
    default: return `"0193a5b2-7c1d-7e8f-9abc-${digits}"`
  }
}

function buildProperties (random: Random): string[] {
  return Array.from({ length: random.below(8) }, () => `${buildKey(random)}:${buildValue(random, 3)}`)
}

function buildKey (random: Random): string {
  return JSON.stringify(random.pick(['a', '$browser', '$ip', '$groups', '$set', '$group_type', '$group_key', '$group_set', '$current_url',
    'created_at', 'utm_source', '__proto__', 'constructor', 'toString', '', '0', '17', 'nul\0key', '\ud800', 'k'.repeat(300),
    '$anon_distinct_id', 'alias', '$process_person_profile', '$ignore_sent_at', '$session_id', 'token2', '$unset']))
}

function buildValue (random: Random, depth: number): string {
  if (random.once(3000)) return '['.repeat(10_000) + ']'.repeat(10_000)
  if (random.once(3000)) return JSON.stringify('long '.repeat(200_000))
  if (random.once(3000)) return `{${Array.from({ length: 10_000 }, (_, i) => `"key ${i}":${i}`).join(',')}}`
  const kind = random.below(depth === 0 ? 2 : 4)
  if (kind === 0) return random.pick(SCALARS)
  if (kind === 1) return JSON.stringify(random.pick(TEXTS))
  const values = Array.from({ length: random.below(4) }, () => buildValue(random, depth - 1))
  return kind === 2 ? `[${values.join(',')}]` : `{${values.map((value) => `${buildKey(random)}:${value}`).join(',')}}`
}

function shuffle (random: Random, list: unknown[]): void {
  for (let i = list.length - 1; i > 0; i--) {
    const j = random.below(i + 1)
    ;[list[i], list[j]] = [list[j], list[i]]
  }
}
