import fc from 'fast-check'
import t from 'tap'
import { runCaptured } from '../../cli/testing/run-captured.ts'
import { hashIdentifier } from '../../engines/flags/rollout-hash.ts'
import { isIllegalDistinctId } from '../../pipeline/persons/merge-persons.ts'
import { createStackProject, waitUntilKnown } from '../start-stack.ts'
import { withoutSettings } from '../support/environments.ts'
import { waitFor } from '../support/wait-for.ts'

/** One id: how clients may write it in JSON, and what must be stored of it everywhere. */
interface Identity {
  /** JSON texts that all mean this id. */
  spellings: readonly string[]
  stored: string
}

const unit = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom('a', 'Z', ' ', '7', 'é', 'e\u0301', '日', '😀', '👨‍👩‍👧', '\u{1f1e9}\u{1f1ea}') },
  { weight: 1, arbitrary: fc.constantFrom('\0', '\x01', '\ud800', '\udc00', '\uffff', '\u2028', '\t', '"', '\\', '\u200d') },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }) }
)

function textOf (lengths: readonly number[]): fc.Arbitrary<string> {
  const length = fc.oneof(fc.constantFrom(...lengths), fc.integer({ min: 1, max: 40 }))
  return fc.tuple(fc.array(unit, { minLength: 1, maxLength: 12 }), length).map(([units, count]) => {
    const characters = [...units.join('')]
    return Array.from({ length: count }, (_, i) => characters[i % characters.length]).join('')
  })
}

/** JSON as JavaScript writes it, as Python does, and with a form of the same string that only escapes. */
function spellText (text: string): string[] {
  const json = JSON.stringify(text)
  const escape = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  // eslint-disable-next-line no-control-regex
  const python = json.replace(/[^\x00-\x7f]/g, escape)
  return [json, python, `"${text.replace(/[^]/g, escape)}"`]
}

const whole = fc.oneof(
  fc.bigInt(-(10n ** 30n), 10n ** 30n), fc.bigInt(2n ** 53n, 2n ** 53n + 200n), fc.bigInt(1n, 100_000n)
).map((number): Identity => {
  const digits = String(number)
  const isSafe = Number.isSafeInteger(Number(digits))
  const exact = isSafe ? [`${digits}.0`, `${digits}e0`] : []
  return { stored: digits, spellings: [digits, `"${digits}"`, ...exact] }
})

const fraction = fc.double({ noNaN: true, noDefaultInfinity: true, min: 0.001, max: 1e6, minExcluded: true })
  .filter((number) => !Number.isInteger(number))
  .map((number): Identity => ({ stored: String(number), spellings: [String(number), number.toExponential(), `"${number}"`] }))

/** Stored form of a string, by a plain implementation. */
function storedText (sent: string, limit: number): string {
  return [...sent].slice(0, limit).map((character) =>
    character === '\0' || /^[\ud800-\udfff]$/.test(character) ? '\ufffd' : character).join('')
}

/** Different distinct ids; each may be merged. */
function makeDistinctIds (count: number, seed: number): Identity[] {
  const text = textOf([99, 100, 101, 150, 199, 200, 201, 400])
    .map((sent): Identity => ({ stored: storedText(sent, 200), spellings: spellText(sent) }))
  const number = fc.oneof({ weight: 2, arbitrary: whole }, { weight: 1, arbitrary: fraction })
  return pick(fc.oneof(text, number).filter(({ stored }) => !isIllegalDistinctId(stored)), count, seed)
}

/** Different group keys, many of which are equal in their first 200 characters. */
function makeGroupKeys (count: number, seed: number): Identity[] {
  const text = fc.tuple(fc.constantFrom('', 'k'.repeat(200), '😀'.repeat(200)), textOf([199, 200, 201, 399, 400, 401]))
    .map(([start, rest]): Identity => {
      return { stored: storedText(start + rest, 400), spellings: spellText(start + rest) }
    })
  return pick(fc.oneof({ weight: 3, arbitrary: text }, { weight: 1, arbitrary: whole }), count, seed)
}

/** Different names of events, properties and group types; short enough to be described as a property. */
function makeNames (count: number, seed: number): Identity[] {
  const text = textOf([1, 40]).map((sent): Identity => ({ stored: storedText(sent, 200), spellings: spellText(sent) }))
  return pick(text.filter(({ stored }) => stored.trim() !== '' && !stored.startsWith('$')), count, seed)
}

/** Distinct ones by their stored form. */
function pick (identities: fc.Arbitrary<Identity>, count: number, seed: number): Identity[] {
  const byStored = new Map<string, Identity>()
  for (const identity of fc.sample(identities, { numRuns: count * 3, seed })) byStored.set(identity.stored, identity)
  return [...byStored.values()].slice(0, count)
}

/**
 * Each id goes through the whole system, in one spelling after the other: as the id of an event, of `$create_alias`,
 * `$identify` and `$groupidentify`, in a request for flags, on the command line. All must speak of the same person
 * and the same group, in ClickHouse and Postgres, and no two ids of the same one. Longer: set the numbers.
 */
const COUNT = Number(process.env.MILLRACE_TEST_IDENTITIES ?? 40)
const SEED = Number(process.env.MILLRACE_TEST_SEED ?? 17)

t.comment(`${COUNT} identities, seed ${SEED}`)

const ids = makeDistinctIds(COUNT, SEED)
const keys = makeGroupKeys(ids.length, SEED + 1)
const names = makeNames(Math.ceil(COUNT / 2), SEED + 2)
/** Group types whose spelling differs from their stored form. */
const TYPES: Identity[] = [
  { spellings: ['"company"'], stored: 'company' },
  { spellings: ['"t\\u0000\\u0001😀"', '"t\\u0000\\u0001\\ud83d\\ude00"'], stored: 't\ufffd\ufffd😀' },
  { spellings: [`"${'日'.repeat(201)}"`], stored: '日'.repeat(200) }
]

const stack = await createStackProject(t)
const { project, sql, select } = stack
await waitUntilKnown(stack)

/** The spelling of a turn; each turn takes another. */
const spell = ({ spellings }: Identity, turn: number): string => spellings[turn % spellings.length] as string
/** A long number of its own for each person; as doubles, neighbours would be equal. */
const longOf = (i: number): string => String(9007199254740993n + 2n * BigInt(i))
const typeOf = (i: number): Identity => TYPES[i % TYPES.length] as Identity

async function post (path: string, body: string): Promise<any> {
  const response = await fetch(stack.url + path, { method: 'POST', body, headers: { 'content-type': 'application/json' } })
  if (response.status !== 200) throw new Error(`${path} ${response.status} ${await response.text()} to ${body.slice(0, 300)}`)
  return await response.json()
}

async function manage (method: string, path: string, body?: object): Promise<any> {
  const response = await fetch(path.startsWith('http') ? path : `${stack.url}/api/projects/${project}${path}`, {
    method,
    headers: { authorization: `Bearer ${stack.personalApiKey}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
  if (response.status >= 300) throw new Error(`${method} ${path} ${response.status} ${await response.text()}`)
  return await response.json()
}

/** Python's NaN stands beside every third batch. */
async function send (events: readonly string[]): Promise<void> {
  for (let at = 0; at < events.length; at += 10) {
    const beside = at % 30 === 0 ? ',"x":NaN' : ''
    await post('/batch/', `{"api_key":"${stack.projectApiKey}"${beside},"batch":[${events.slice(at, at + 10).join(',')}]}`)
  }
}

function eventsOf (id: Identity, i: number): { first: string[], second: string[] } {
  const key = keys[i] as Identity
  const [type, typeTurn] = [typeOf(i), Math.floor(i / TYPES.length)]
  const first = [
    `{"event":"$create_alias","distinct_id":"alias-${i}","properties":{"alias":${spell(id, i)}}}`,
    `{"event":"seen","distinct_id":${spell(id, i + 1)},"properties":{"who":${i},"$groups":{${spell(type, typeTurn)}:${spell(key, i)}}}}`,
    `{"event":"$groupidentify","distinct_id":"admin","properties":{"$group_type":${spell(type, typeTurn + 1)},` +
      `"$group_key":${spell(key, i + 1)},"$group_set":{"mark":${i},"from-${i}":1}}}`
  ]
  const second = [
    `{"event":"$identify","distinct_id":${spell(id, i + 2)},"$set":{"mark":${i},"long":${longOf(i)}},` +
      `"properties":{"$anon_distinct_id":"anon-${i}"}}`
  ]
  return { first, second }
}

function eventsOfName (name: Identity, i: number): string[] {
  return [0, 1].map((turn) => `{"event":${spell(name, turn)},"distinct_id":"definer-${i}",` +
    `"properties":{${spell(name, turn + 1)}:1,"$set":{${spell(name, turn + 2)}:1}}}`)
}

/** Whether a rollout of 50 % has an identifier, by the formula of the protocol. */
const isIn = (flag: string, identifier: string): boolean => hashIdentifier(flag, identifier, '') <= 0.5

async function waitUntilStored (events: number): Promise<void> {
  await waitFor(async () => {
    const [stored] = await select<{ rows: string }>(`
      SELECT toString(count()) AS rows FROM events WHERE project_id = ${project}`)
    const [stores] = await sql`SELECT
      (SELECT count(*) FROM persons WHERE project_id = ${project} AND properties ? 'mark') AS persons,
      (SELECT count(*) FROM groups WHERE project_id = ${project}) AS groups,
      (SELECT sum(volume_30_day) FROM event_definitions WHERE project_id = ${project}) AS counted,
      (SELECT count(*) FROM persons_outbox) AS copies`
    return Number(stored?.rows) === events && Number(stores?.['persons']) >= ids.length && stores?.['copies'] === 0 &&
      Number(stores?.['groups']) >= ids.length && Number(stores?.['counted']) === events
  })
}

t.test('capture, $identify, $create_alias and $groupidentify store one id for each', async (t) => {
  t.equal(ids.length, keys.length)
  const sent = ids.map(eventsOf)
  const parts = [sent.flatMap(({ first }) => first), sent.flatMap(({ second }) => second), names.flatMap(eventsOfName)]
  for (const part of parts) await send(part)
  await waitUntilStored(parts.flat().length)

  const events = await select<{ who: string, id: string, groups: object, person: string }>(`
    SELECT JSONExtractRaw(properties, 'who') AS who, distinct_id AS id, groups, toString(person_id) AS person
    FROM events_with_person WHERE project_id = ${project} AND event = 'seen'`)
  const persons = await sql`SELECT uuid, properties ->> 'mark' AS mark, properties ->> 'long' AS long,
    ARRAY(SELECT distinct_id FROM person_distinct_ids WHERE person_id = persons.id) AS ids
    FROM persons WHERE project_id = ${project} AND properties ? 'mark'`
  const groups = await sql`SELECT group_type, group_key, properties ->> 'mark' AS mark
    FROM groups JOIN group_types USING (project_id, group_type_index) WHERE project_id = ${project}`
  const differing = ids.flatMap(({ stored }, i) => {
    const event = events.find(({ who }) => who === String(i))
    const person = persons.find(({ mark }) => mark === String(i))
    const key = keys[i]!.stored
    const group = groups.find((found) => found['group_key'] === key && found['group_type'] === typeOf(i).stored)
    const isOne = event?.id === stored && event.person === person?.['uuid'] && person['long'] === longOf(i) &&
      [...person['ids']].sort().join('\0') === [stored, `alias-${i}`, `anon-${i}`].sort().join('\0') &&
      JSON.stringify(event.groups) === JSON.stringify({ [typeOf(i).stored]: key }) && group?.['mark'] === String(i)
    return isOne ? [] : [{ i, sent: ids[i], key: keys[i], event, person, group }]
  })
  t.same(differing.slice(0, 2), [])
  t.equal(persons.length, ids.length, 'no two are one person')
  t.equal(groups.length, ids.length, 'no two are one group')
})

t.test('flags are computed for the person, the group and the rollout of the id', async (t) => {
  const indexes = new Map((await sql`SELECT group_type, group_type_index FROM group_types WHERE project_id = ${project}`).map(
    (row) => [row['group_type'] as string, row['group_type_index'] as number]))
  const filters: Record<string, object> = { rollout: { groups: [{ properties: [], rollout_percentage: 50 }] } }
  for (const { stored } of TYPES) {
    const aggregation = { aggregation_group_type_index: indexes.get(stored) }
    filters[`rollout-${indexes.get(stored)}`] = { ...aggregation, groups: [{ properties: [], rollout_percentage: 50 }] }
  }
  for (const [i] of ids.entries()) {
    const isPerson = { key: 'mark', value: String(i), type: 'person' }
    const isLong = { key: 'long', value: longOf(i), type: 'person' }
    const isGroup = { key: 'mark', value: String(i), type: 'group', group_type_index: indexes.get(typeOf(i).stored) }
    filters[`person-${i}`] = { groups: [{ properties: [isPerson, isLong] }] }
    filters[`group-${i}`] = { groups: [{ properties: [isGroup] }] }
  }
  for (const [key, value] of Object.entries(filters)) {
    await sql`INSERT INTO feature_flags ${sql({ project_id: project, key, filters: sql.json(value as never) })}`
  }
  const ask = async (path: string, i: number): Promise<any> => {
    const group = `{${spell(typeOf(i), 0)}:${spell(keys[i] as Identity, i + 2)}}`
    return await post(path, `{"token":"${stack.projectApiKey}","distinct_id":${spell(ids[i] as Identity, i + 3)},"groups":${group}` +
      `${i % 3 === 0 ? ',"x":NaN' : ''}}`)
  }
  await waitFor(async () => Object.keys((await ask('/decide/?v=3', 0)).featureFlags).length === Object.keys(filters).length)

  const differing: object[] = []
  for (const [i, { stored }] of ids.entries()) {
    const { featureFlags: flags } = await ask(i % 2 === 0 ? '/decide/?v=3' : '/flags/?v=1', i)
    const key = keys[i]!.stored
    const typeIndex = indexes.get(typeOf(i).stored)
    const on = Object.keys(flags).filter((flag) => /^(person|group)-/.test(flag) && flags[flag] === true).sort()
    const isOne = on.join() === `group-${i},person-${i}` &&
      flags.rollout === isIn('rollout', stored) && flags[`rollout-${typeIndex}`] === isIn(`rollout-${typeIndex}`, key)
    if (!isOne) differing.push({ i, sent: ids[i], key: keys[i], on, rollout: flags.rollout })
  }
  t.same(differing.slice(0, 2), [])
})

t.test('the API finds a person by the id as it was sent', async (t) => {
  const env = { ...withoutSettings(process.env), MILLRACE_URL: stack.url, MILLRACE_KEY: stack.personalApiKey }
  const differing: object[] = []
  for (let i = 0; i < Math.min(ids.length, 8); i++) {
    const sent = ids[i]!.spellings.find((spelling) => spelling.startsWith('"'))
    const id = sent === undefined ? ids[i]!.stored : JSON.parse(sent) as string
    const path = `/api/projects/${project}/persons?${new URLSearchParams({ distinct_id: id })}`
    const { out, err } = await runCaptured(['request', 'GET', path], env)
    const [shown] = out === '' ? [] : JSON.parse(out).results
    const isOne = shown?.properties.mark === i && out.includes(longOf(i))
    if (!isOne) differing.push({ i, id, out, err })
  }
  t.same(differing.slice(0, 2), [])
})

t.test('definitions name events, properties and group types as events and persons do', async (t) => {
  const list = async (path: string): Promise<string[]> =>
    (await manage('GET', `/${path}limit=1000`)).results.map(({ name }: { name: string }) => name)
  const stored = names.map((name) => name.stored).sort()

  const events = (await list('event_definitions/?')).filter((name) => !name.startsWith('$') && name !== 'seen')
  t.same(events.sort(), stored)
  t.same((await list('property_definitions/?type=event&')).filter((name) => stored.includes(name)).sort(), stored)
  const ofPersons = (await list('property_definitions/?type=person&')).filter((name) => !['mark', 'long'].includes(name))
  t.same(ofPersons.sort(), stored)
  const kept = await sql`SELECT DISTINCT jsonb_object_keys(properties) AS name FROM persons WHERE project_id = ${project} AND NOT properties ? 'mark'`
  t.same(kept.map((row) => row['name']).sort(), stored)
  for (const { stored: type } of TYPES) {
    const [row] = await sql`SELECT group_type_index AS index FROM group_types WHERE project_id = ${project} AND group_type = ${type}`
    const own = ids.flatMap((_, i) => typeOf(i).stored === type ? [`from-${i}`] : [])
    const found = await list(`property_definitions/?type=group&group_type_index=${row?.['index']}&`)
    t.same(found.sort(), ['mark', ...own].sort(), type)
  }
})
