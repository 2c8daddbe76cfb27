import { createHmac, randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { createProject } from '../../api/projects/project-routes.ts'
import { makeEvents, NOW } from '../prediction/random-traffic.ts'
import { createStackProject } from '../start-stack.ts'
import { waitFor } from '../support/wait-for.ts'

// It makes projects of its own.
const stack = await createStackProject(t)

const NAMES = ['order paid', 'signed up', 'page', '$identify']
const SEED = 24

/** Each asks something that part of the random events meet. */
const SCHEMAS: Record<string, object> = {
  'order paid': { properties: { a: { type: ['string', 'null'] }, b: { not: { type: 'number' } } } },
  'signed up': { required: ['a'], properties: { a: { type: ['number', 'boolean', 'object'] } } },
  $identify: { maxProperties: 2 }
}

/**
 * These say when and where a row was received and stored, and which project it is of: two projects cannot be equal in
 * them. `schema_version` is compared apart, as it says that an event was checked.
 */
const OWN_COLUMNS = ['inserted_at', 'insert_token', 'received_at', 'project_id', 'person_id', 'schema_version']

/** Hashes are keyed by project: this hashed property has few values, whose hashes are known. */
const EMAILS = ['ann@example.com', 'bob@example.org', 'eve@example.net']

interface Project { id: number, apiKey: string }

const newProject = async (name: string): Promise<Project> => await createProject(stack.sql, { name })

async function call (method: string, path: string, body?: object): Promise<any> {
  const response = await fetch(`${stack.url}/api/projects/${path}`, {
    method,
    headers: { authorization: `Bearer ${stack.personalApiKey}`, ...body && { 'content-type': 'application/json' } },
    ...body && { body: JSON.stringify(body) }
  })
  const answer = await response.json() as any
  if (response.status >= 300) throw new Error(`${method} ${path}: ${response.status} ${JSON.stringify(answer)}`)
  return answer
}

async function send ({ apiKey }: Project, bodies: readonly string[], isHistorical = false): Promise<void> {
  for (let first = 0; first < bodies.length; first += 100) {
    const body = `{"api_key":"${apiKey}","historical_migration":${isHistorical},"batch":[${bodies.slice(first, first + 100).join(',')}]}`
    const response = await fetch(`${stack.url}/batch/`, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
    if (response.status !== 200) throw new Error(`got ${response.status}: ${await response.text()}`)
    await response.arrayBuffer()
  }
}

/** Random events with a property that can be hashed, and a place for rules that must not run twice. */
function makeBodies (events: number): string[] {
  return [...makeEvents({ seed: SEED, events, names: NAMES })].flat().map(({ body, ordinal }) => {
    const email = ordinal % 3 === 0 ? '' : `,"email":"${EMAILS[ordinal % EMAILS.length]}"`
    return `${body.slice(0, -2)}${body.endsWith('{}}') ? '' : ','}"step":${ordinal % 2}${email}}}`
  })
}

async function letters ({ id }: Project, filter = ''): Promise<number> {
  return (await call('GET', `${id}/dead_letters/?stage=schema&limit=1${filter}`)).count
}

/** Stores schemas in mode `quarantine`; resolves when ingest enforces all of them. */
async function enforce (project: Project): Promise<Map<string, number>> {
  const ids = new Map<string, number>()
  // All schemas of a project are exchanged at once: with the last one, the others are there, too.
  for (const [event, schema] of [...Object.entries(SCHEMAS), ['probe', { required: ['x'] }] as const]) {
    const { id } = await call('POST', `${project.id}/event_schemas/`, { event, schema, mode: 'quarantine', active_version: 1 })
    ids.set(event, id)
  }
  await waitFor(async () => {
    await send(project, ['{"event":"probe","distinct_id":"d","properties":{}}'])
    return await letters(project, '&event=probe') > 0
  })
  await call('POST', `${project.id}/dead_letters/purge`, { stage: 'schema', event: 'probe', limit: 1000 })
  return ids
}

async function storedOf ({ id }: Project): Promise<number> {
  const [row] = await stack.select<{ n: number }>("SELECT toUInt32(count()) AS n FROM events WHERE project_id = {id:UInt32} AND event != 'probe'", { id })
  return row!.n
}

/** Waits until exactly this many are stored. */
async function waitUntilStored (project: Project, events: number): Promise<void> {
  await waitFor(async () => await storedOf(project) >= events, { everyMs: 100 })
    .catch(async (cause: unknown) => { throw new Error(`${await storedOf(project)} of ${events} are stored`, { cause }) })
  t.equal(await storedOf(project), events)
}

/** A checksum over all rows and all columns that can be equal, and over what the views count. */
async function checksum ({ id }: Project): Promise<object> {
  const secret = (await stack.sql<{ secret: Uint8Array }[]>`SELECT secret FROM rule_keys`)[0]!.secret
  const columns = await stack.select<{ name: string }>(
    "SELECT name FROM system.columns WHERE database = currentDatabase() AND table = 'events' ORDER BY position")
  const compared = columns.map(({ name }) => name).filter((name) => !OWN_COLUMNS.includes(name))
  t.ok(compared.length > 25, `${compared.length} columns`)
  const properties = EMAILS.reduce((sql, email) => {
    const digest = (text: string): string => createHmac('sha256', secret).update(`${id}:${text}`).digest('hex')
    const digits = digest(email).slice(0, 24)
    const hash = digits + digest(`hash:${digits}`).slice(0, 8)
    return `replaceAll(${sql}, '${hash}', 'hash of ${email}')`
  }, 'properties')
  const [rows] = await stack.select<object>(`
    SELECT toUInt32(count()) AS rows, toString(sum(cityHash64(${compared.map((name) => name === 'properties' ? properties : name).join(', ')}))) AS sum,
      toUInt32(countIf(position(properties, 'hash of') > 0)) AS spelt
    FROM events WHERE project_id = {id:UInt32} AND event != 'probe'`, { id })
  const views = await stack.select<object>(`
    SELECT toString(sum(cityHash64(event, property, type, n))) AS sum FROM (
      SELECT event, property, type, sum(count) AS n FROM event_property_counts
      WHERE project_id = {id:UInt32} AND event != 'probe' GROUP BY event, property, type)`, { id })
  return { ...rows, views }
}

/** How many events each version says it checked; what was replayed was not. */
async function versionsOf ({ id }: Project): Promise<Record<string, number>> {
  const rows = await stack.select<{ version: number, n: number }>(
    "SELECT schema_version AS version, toUInt32(count()) AS n FROM events WHERE project_id = {id:UInt32} AND event != 'probe' GROUP BY version", { id })
  return Object.fromEntries(rows.map(({ version, n }) => [version, n]))
}

/**
 * Sends the same to a project without a schema, and to one with some; then fixes one schema, disables another, and
 * replays what was quarantined.
 *
 * @param expected  Events that are stored in the end.
 */
async function compare (
  bodies: readonly string[], { plain, checked, expected }: { plain: Project, checked: Project, expected: number }
): Promise<void> {
  const schemas = await enforce(checked)
  await send(plain, bodies)
  const from = Date.now()
  await send(checked, bodies)
  const to = Date.now()
  await waitUntilStored(plain, expected)
  const quarantined = await letters(checked)
  t.ok(quarantined > bodies.length / 20 && quarantined < expected, `${quarantined} of ${expected} are quarantined`)
  await waitUntilStored(checked, expected - quarantined)
  const before = await checksum(checked)
  const { 1: met = 0 } = await versionsOf(checked)
  t.ok(met > 0, `${met} met their schema`)

  await call('PATCH', `${checked.id}/event_schemas/${schemas.get('order paid')}`, { schema: {}, active_version: 2 })
  await call('PATCH', `${checked.id}/event_schemas/${schemas.get('signed up')}`, { active_version: null })
  t.match(await call('POST', `${checked.id}/dead_letters/replay`, { stage: 'schema', limit: 5000 }), { matched: quarantined, replayed: quarantined })
  await waitUntilStored(checked, expected)

  t.same(await letters(checked), 0)
  const wanted = await checksum(plain)
  t.notSame(before, wanted, 'the checksum can tell')
  // A view is filled a moment after the table that it reads.
  await waitFor(async () => isDeepStrictEqual(await checksum(checked), wanted)).catch(() => {})
  t.same(await checksum(checked), wanted)
  t.same(await versionsOf(plain), { 0: expected })
  t.same(await versionsOf(checked), { 0: expected - met, 1: met }, 'a replayed event is of no version, as if there had been no schema')
  const [late] = await stack.select<{ n: number }>(
    "SELECT toUInt32(count()) AS n FROM events WHERE project_id = {id:UInt32} AND event != 'probe' AND NOT (toUnixTimestamp64Milli(received_at) BETWEEN {from:Int64} AND {to:Int64})",
    { id: checked.id, from, to })
  t.equal(late!.n, 0, 'a replayed event was received when it was sent')
}

t.test('quarantine, fix and replay leave the table as it is without a schema', async (t) => {
  t.ok(NOW < Date.now())
  const bodies = makeBodies(900)
  await compare(bodies, { plain: await newProject('plain'), checked: await newProject('checked'), expected: bodies.length })
})

t.test('also with rules, which do not run again', async (t) => {
  const [plain, checked] = [await newProject('plain with rules'), await newProject('checked with rules')]
  const step = (value: number): object => ({ type: 'property', key: 'step', value })
  // In this order, the second run of both would make another value than the first.
  const rules: Record<string, object> = {
    second: { condition: step(1), actions: [{ type: 'set_property', property: 'step', value: 2 }] },
    first: { condition: step(0), actions: [{ type: 'set_property', property: 'step', value: 1 }] },
    clean: {
      condition: null,
      actions: [{ type: 'hash_property', property: 'email' }, { type: 'truncate_ip' }, { type: 'remove_property', property: 'utm_medium' }]
    },
    sample: { condition: { type: 'event', operator: 'is_not', value: 'probe' }, actions: [{ type: 'sample', rate: 0.5 }] }
  }
  for (const { id } of [plain, checked]) {
    for (const [name, rule] of Object.entries(rules)) await call('POST', `${id}/rules/`, { name, ...rule, active_version: 1 })
  }
  // Rules are read with the schemas: those of the second project are there when its schemas are.
  await waitFor(async () => {
    await send(plain, ['{"event":"probe","distinct_id":"d","properties":{"step":0}}'])
    const [row] = await stack.select<{ n: number }>("SELECT toUInt32(count()) AS n FROM events WHERE project_id = {id:UInt32} AND properties = '{\"step\":1}'", { id: plain.id })
    return row!.n > 0
  })
  const bodies = makeBodies(1200)
  const weighed = async ({ id }: Project): Promise<object[]> => await stack.select(`
    SELECT event, sample_weight AS weight, extract(properties, '"step":([0-9])') AS step, position(properties, '"email"') > 0 AS hashed,
      position(properties, '@') > 0 AS readable, ip, toUInt32(count()) AS n
    FROM events WHERE project_id = {id:UInt32} AND event != 'probe' GROUP BY ALL ORDER BY ALL`, { id })
  const kept = await countKept(bodies)

  await compare(bodies, { plain, checked, expected: kept })

  t.ok(kept < bodies.length * 0.7)
  const groups = await weighed(checked)
  t.same(groups, await weighed(plain))
  const all = groups as { weight: number, step: string, readable: number, ip: string }[]
  t.same([...new Set(all.map(({ weight }) => weight))].sort(), [1, 2], 'who is who is never sampled')
  t.same([...new Set(all.map(({ step }) => step))].sort(), ['1', '2'])
  t.ok(all.every(({ ip }) => ip === '' || /\.0$|::$/.test(ip)), 'no whole address')
})

t.test('what came again by the other route meanwhile is stored once', async (t) => {
  const at = new Date(Date.now() - 2 * 86_400_000).toISOString()
  for (const isHistorical of [true, false]) {
    const project = await newProject(isHistorical ? 'imported first' : 'captured first')
    const schemas = await enforce(project)
    const toBody = (event: string): string => JSON.stringify({ uuid: randomUUID(), event, distinct_id: 'ann', timestamp: at, properties: {} })
    const bodies = Array.from({ length: 5 }, () => toBody('signed up'))
    await send(project, bodies, isHistorical)
    await waitFor(async () => await letters(project) === 5)
    await call('PATCH', `${project.id}/event_schemas/${schemas.get('signed up')}`, { active_version: null })
    await waitFor(async () => {
      await send(project, bodies, !isHistorical)
      return await storedOf(project) >= 5
    }, { everyMs: 500 })

    await call('POST', `${project.id}/dead_letters/replay`, { stage: 'schema', limit: 100 })
    // It follows the letters through their partition.
    await send(project, [toBody('page')], isHistorical)
    await waitUntilStored(project, 6)
    const [volume] = await stack.select<{ n: number }>(
      "SELECT toUInt32(sum(volume)) AS n FROM event_volumes WHERE project_id = {id:UInt32} AND event = 'signed up'", { id: project.id })
    t.equal(volume!.n, 5)
  }
})

/** How many of these events a project stores with a rate of one half. */
async function countKept (bodies: readonly string[]): Promise<number> {
  const { shareOf } = await import('../../engines/rules/apply-rules.ts')
  return bodies.map((body) => /"event":"([^"]+)","distinct_id":"(\d+)"/.exec(body) as RegExpExecArray)
    .filter(([, event, id = '']) => event === '$identify' || shareOf(id) < 0.5).length
}
