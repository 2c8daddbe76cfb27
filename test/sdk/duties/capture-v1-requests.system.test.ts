/** What a server owes the requests of Capture V1 (harness-cases.ts), each duty a test. */
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { waitFor } from '../../support/wait-for.ts'
import { type Answer, type Request, startDutyServer, type StoredRow } from './duty-server.ts'

const PATH = '/i/v1/analytics/events'
const HOUR = 3_600_000
const AT = '2026-11-20T10:00:00.250Z'

t.jobs = 8

const server = await startDutyServer(t)
const { uuid } = server

type Event = Record<string, unknown> & { uuid: string }

function duty (title: string, check: (t: Test, visitor: string) => Promise<void>): void {
  void t.test(title, { buffered: true }, async (t) => { await check(t, server.visitor()) })
}

function event (visitor: string, change: object = {}): Event {
  return { event: 'order paid', uuid: uuid(), distinct_id: visitor, timestamp: new Date().toISOString(), options: {}, properties: { amount: 5 }, ...change }
}

async function send (batch: unknown, headers: Record<string, string> = {}, more: object = {}, encode?: Request['encode']): Promise<Answer> {
  return await server.post(PATH, { created_at: new Date().toISOString(), batch, ...more }, {
    headers: {
      authorization: `Bearer ${server.key}`,
      'posthog-sdk-info': 'posthog-made/1.2.3',
      'posthog-attempt': '1',
      'posthog-request-id': '0193a5b2-7c1d-7e8f-9abc-def012345678',
      'posthog-request-timestamp': new Date().toISOString(),
      ...headers
    },
    ...encode !== undefined && { encode }
  })
}

/** Sends one event and gives the row of it. */
async function stored (
  visitor: string, change: object, headers: Record<string, string> = {}
): Promise<StoredRow | undefined> {
  await send([event(visitor, change)], headers)
  return (await server.storedOf(visitor))[0]
}

duty('V1: an event is taken by POST at its path, with and without a slash', async (t, visitor) => {
  t.match(await send([event(visitor)]), { status: 200 })
  t.match(await fetch(server.url + PATH), { status: 405 })
  t.match(await server.storedOf(visitor), { length: 1 })
})

duty('V1: its body is refused at the older paths, where the key would be in it', async (t, visitor) => {
  for (const path of ['/batch/', '/capture/', '/e/']) {
    const answer = await server.post(path, { created_at: AT, batch: [event(visitor)] }, { headers: { authorization: `Bearer ${server.key}` } })
    t.match(answer, { status: 401, body: { code: String } }, path)
  }
  t.same(await server.storedOf(visitor), [])
})

duty('V1: the key is taken from the header, and without one nothing is stored', async (t, visitor) => {
  for (const authorization of ['', server.key, `Basic ${server.key}`, 'Bearer phc_nobody']) {
    t.match(await send([event(visitor)], { authorization }), { status: 401, body: { code: 'invalid_api_key' } }, authorization)
  }
  t.same(await server.storedOf(visitor), [])
})

duty('V1: a body of JSON is answered with JSON', async (t, visitor) => {
  const { headers } = await send([event(visitor)], { 'content-type': 'application/json' })
  t.match(headers.get('content-type'), /^application\/json/)
})

duty('V1: name and version of the SDK are taken from the header', async (t, visitor) => {
  t.match((await stored(visitor, {}))?.properties, { $lib: 'posthog-made', $lib_version: '1.2.3' })
})

duty('V1: a request is taken whatever attempt it says to be, or none', async (t, visitor) => {
  for (const attempt of ['1', '7', '0', '-1', 'x', '']) {
    t.match(await send([event(visitor)], { 'posthog-attempt': attempt }), { status: 200 }, attempt)
  }
  t.match(await server.storedOf(visitor), { length: 6 })
})

duty('V1: the id of a request is echoed, cut when it is long', async (t, visitor) => {
  const ids = ['0193a5b2-7c1d-7e8f-9abc-def012345678', 'not a uuid', 'x'.repeat(500)]
  const echoed = await Promise.all(ids.map(async (id) =>
    (await send([event(visitor)], { 'posthog-request-id': id })).headers.get('posthog-request-id')))
  t.same(echoed, ids.map((id) => id.slice(0, 200)))
})

duty('V1: the time of a request corrects the clock of its events, and one that is not a valid time is 400', async (t, visitor) => {
  const happened = Date.now() - 60_000
  const row = await stored(visitor, { timestamp: new Date(happened - HOUR).toISOString() },
    { 'posthog-request-timestamp': new Date(Date.now() - HOUR).toISOString() })
  t.ok(Math.abs(Number(row?.time) - happened) < 20_000)
  t.match(await send([event(visitor)], { 'posthog-request-timestamp': 'now' }), { status: 400, body: { attr: 'posthog-request-timestamp' } })
})

duty('V1: the user agent tells visitors without cookies apart', async (t) => {
  const cookieless = ['Firefox', 'Safari'].map((agent) => [agent, event('$posthog_cookieless', { options: { cookieless_mode: true } })] as const)
  for (const [agent, event] of cookieless) await send([event], { 'user-agent': agent })
  const ids = await untilStored(cookieless.map(([, { uuid }]) => uuid))

  t.match(ids, [/^cookieless_/, /^cookieless_/])
  t.not(ids[0], ids[1])
})

/** Distinct ids under which events are stored. */
async function untilStored (uuids: string[]): Promise<string[]> {
  return await waitFor(async () => {
    const rows = await server.stack.select<{ id: string }>('SELECT distinct_id AS id FROM events WHERE project_id = {project:UInt32} AND uuid IN {uuids:Array(UUID)}', { uuids, project: server.stack.project })
    return rows.length === uuids.length && rows.map(({ id }) => id)
  })
}

duty('V1: a batch is taken with the time of its making, and an empty one is 400', async (t, visitor) => {
  t.match(await send([event(visitor)], {}, { created_at: AT }), { status: 200 })
  t.match(await send([]), { status: 400, body: { code: 'empty_batch' } })
  t.match(await server.storedOf(visitor), { length: 1 })
})

duty('V1: a key in the body does not stand for the one in the header', async (t, visitor) => {
  const more = { api_key: server.key, token: server.key }
  t.match(await send([event(visitor)], { authorization: '' }, more), { status: 401 })
  t.same(await server.storedOf(visitor), [])
})

duty('V1: a time of sending in the body corrects nothing', async (t, visitor) => {
  await send([event(visitor, { timestamp: AT })], {}, { sent_at: new Date(Date.now() - HOUR).toISOString() })
  t.ok(Math.abs(Number((await server.storedOf(visitor))[0]?.time) - Date.parse(AT)) < 20_000)
})

const OPTIONS = { disable_skew_correction: true }

/** Stored form of an event, alone and in a batch: title, fields sent, fields of its row. */
const KEPT: [string, object, (t: Test, row: StoredRow | undefined, sent: Event) => void][] = [
  ['name, uuid, distinct id and time are stored', { timestamp: AT, options: OPTIONS }, (t, row, { uuid, distinct_id: visitor }) => {
    t.match(row, { event: 'order paid', uuid, distinct_id: visitor, time: Date.parse(AT) })
  }],
  ['the uuid is stored as it came', {}, (t, row, { uuid }) => { t.equal(row?.uuid, uuid) }],
  ['the time is stored to the millisecond', { timestamp: '2026-11-20T10:00:00.123Z', options: OPTIONS }, (t, row) => {
    t.equal(row?.time, Date.parse('2026-11-20T10:00:00.123Z'))
  }],
  ['the distinct id is stored as it came', {}, (t, row, { distinct_id: visitor }) => { t.equal(row?.distinct_id, visitor) }],
  ['a distinct id among the properties does not count', { properties: { distinct_id: 'another' } }, (t, row, { distinct_id: visitor }) => {
    t.match(row, { distinct_id: visitor, properties: { distinct_id: 'another' } })
  }],
  ['properties of every shape are stored as they were sent', { properties: { a: [1, null, { b: '✓' }], c: { d: {} }, e: 1.5, f: false } }, (t, row) => {
    t.match(row?.properties, { a: [1, null, { b: '✓' }], c: { d: {} }, e: 1.5, f: false })
  }],
  ['$set is stored as an object', { properties: { $set: { plan: 'pro' } } }, (t, row) => { t.match(row?.properties, { $set: { plan: 'pro' } }) }],
  ['$set_once is stored as an object', { properties: { $set_once: { first: 1 } } }, (t, row) => { t.match(row?.properties, { $set_once: { first: 1 } }) }],
  ['$groups is stored as an object, and as the groups of the event', { properties: { $groups: { company: 'acme' } } }, (t, row) => {
    t.match(row, { groups: { company: 'acme' }, properties: { $groups: { company: 'acme' } } })
  }]
]

for (const [title, change, check] of KEPT) {
  for (const size of [1, 5]) {
    duty(`V1, ${size === 1 ? 'one event' : 'each event of a batch'}: ${title}`, async (t, visitor) => {
      const events = Array.from({ length: size }, () => event(visitor, change))
      const { status, body } = await send(events)
      const rows = await server.storedOf(visitor)

      t.same([status, Object.keys(body.results).length, rows.length], [200, size, size])
      for (const sent of events) check(t, rows.find(({ uuid }) => uuid === sent.uuid), sent)
    })
  }
}

duty('V1: a time of another zone is stored as its instant', async (t, visitor) => {
  t.equal((await stored(visitor, { timestamp: '2026-11-20T15:30:00.250+05:30', options: OPTIONS }))?.time, Date.parse(AT))
})

for (const size of [1, 5]) {
  duty(`V1, ${size === 1 ? 'one event' : 'an event of a batch'}: without a uuid it cannot be answered, and nothing is stored`, async (t, visitor) => {
    const events = Array.from({ length: size }, () => event(visitor))
    const { uuid: _left, ...without } = events[0]!
    t.match(await send([...events.slice(1), without]), { status: 400, body: { code: 'invalid_uuid' } })
    t.same(await server.storedOf(visitor), [])
  })
}

const ENCODINGS = { gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync, zstd: zstdCompressSync }

for (const [encoding, encode] of Object.entries(ENCODINGS)) {
  duty(`V1: a body in ${encoding} is read`, async (t, visitor) => {
    t.match(await send([event(visitor)], { 'content-encoding': encoding }, {}, encode), { status: 200 })
    t.match(await server.storedOf(visitor), { length: 1 })
  })
}

duty('V1: a body without encoding is read', async (t, visitor) => {
  t.match(await send([event(visitor)]), { status: 200 })
  t.match(await server.storedOf(visitor), { length: 1 })
})

duty('V1: a body that is not what its encoding says is 400 for good', async (t, visitor) => {
  for (const encode of [(json: string) => gzipSync(json).subarray(0, -12), (json: string) => Buffer.from(`\x1f\x8b${json}`, 'latin1')]) {
    const { status, headers, body } = await send([event(visitor)], { 'content-encoding': 'gzip' }, {}, encode)
    t.match([status, headers.get('retry-after'), body], [400, null, { code: String }])
  }
  t.same(await server.storedOf(visitor), [])
})

duty('V1: an event may say that its visitor has no cookies', async (t) => {
  const sent = event('$posthog_cookieless', { options: { cookieless_mode: true } })
  await send([sent], { 'user-agent': 'Opera' })
  t.match(await untilStored([sent.uuid]), [/^cookieless_[\w-]{22}$/])
})

duty('V1: an event may say that its clock is right', async (t, visitor) => {
  const row = await stored(visitor, { timestamp: AT, options: OPTIONS }, { 'posthog-request-timestamp': new Date(Date.now() - HOUR).toISOString() })
  t.equal(row?.time, Date.parse(AT))
})

for (const [option, property, value] of [['process_person_profile', '$process_person_profile', false], ['product_tour_id', '$product_tour_id', 'tour 7']] as const) {
  duty(`V1: the option ${option} becomes the property that other SDKs send`, async (t, visitor) => {
    t.equal((await stored(visitor, { options: { [option]: value } }))?.properties[property], value)
  })
}

duty('V1: options that are left out add no properties', async (t, visitor) => {
  const row = await stored(visitor, { options: undefined, properties: { amount: 5 } })
  t.same(Object.keys(row?.properties ?? {}).filter((name) => !['amount', '$lib', '$lib_version', '$ip'].includes(name)), [])
})

duty('V1: each event of a batch has its own options', async (t, visitor) => {
  await send(['a', 'b', undefined].map((tour) => event(visitor, { options: tour === undefined ? {} : { product_tour_id: tour } })))
  t.same((await server.storedOf(visitor)).map(({ properties }) => properties.$product_tour_id ?? '').sort(), ['', 'a', 'b'])
})

duty('V1: $geoip_disable is stored as it was sent', async (t, visitor) => {
  t.match((await stored(visitor, { properties: { $geoip_disable: true } }))?.properties, { $geoip_disable: true })
})

for (const [title, more] of [['a batch that says to be an import is stored', { historical_migration: true }], ['a batch that does not say so is stored', {}]] as const) {
  duty(`V1: ${title} with the times of its events`, async (t, visitor) => {
    await send([event(visitor, { timestamp: '2026-06-01T00:00:00.000Z', options: OPTIONS })], {}, more)
    t.match(await untilRows(visitor), [{ time: Date.parse('2026-06-01T00:00:00.000Z') }])
  })
}

/** An import is in partitions of its own, which nothing live waits for. */
async function untilRows (visitor: string): Promise<StoredRow[]> {
  return await waitFor(async () => {
    const rows = await server.storedOf(visitor)
    return rows.length > 0 && rows
  })
}

t.end()
