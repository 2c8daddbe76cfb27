import zlib from 'node:zlib'
import t from 'tap'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { takePersonsUpdates, takePublishedEvents } from '../testing/read-published-events.ts'
import { PROJECT_KEY, startTestIngest } from '../testing/start-test-ingest.ts'

/** Blanks between two tokens of JSON change only the size: more than a small body has on the wire or inflated. */
const PADDING = ' '.repeat(1_100_000)

/** Where the padding goes. */
const PAD = '\0'

interface Case {
  name: string
  /** The JSON text; padded behind it unless it says where. */
  text: string
  wrap?: (json: string) => string | Buffer
  path?: string
  headers?: Record<string, string>
}

let ids = 0

/** An event whose columns do not depend on when it is sent. */
function event (changes: object = {}): Record<string, unknown> {
  const id = String(++ids).padStart(12, '0')
  return {
    event: 'e', distinct_id: `d${id}`, uuid: `0193a5b2-7c1d-4e8f-9abc-${id}`, timestamp: '2026-11-01T10:00:00.5Z', properties: { a: 1 }, ...changes
  }
}

const keyed = { api_key: PROJECT_KEY }
const json = JSON.stringify

function batch (events: unknown[], fields: object = {}): string {
  return json({ ...keyed, ...fields, batch: events })
}

/** An array of events with padding between them: two pieces of a large body. */
function apart (first: unknown, second: unknown): string {
  return `[${json(first)},${PAD}${json(second)}]`
}

const good: Case[] = [
  { name: 'one event', text: json(event(keyed)) },
  { name: 'an array of events', text: json([event({ token: PROJECT_KEY }), event()]) },
  { name: 'a batch', text: batch([event(), event()]) },
  { name: 'an import', text: batch([event()], { historical_migration: true }) },
  { name: 'an event with a field batch', text: json(event({ ...keyed, batch: 5 })) },
  { name: 'the last of repeated fields', text: `{"batch":5,"api_key":"x",${batch([event()]).slice(1)}` },
  { name: 'a byte order mark before an event', text: `\ufeff${json(event(keyed))}` },
  { name: 'a byte order mark before a batch', text: `\ufeff${batch([event()])}` },
  { name: 'NaN, a long number and a lone surrogate', text: batch([event()]).replace('"a":1', '"a":NaN,"b":9007199254740993,"c":"\\ud800"') },
  { name: 'bytes that are not UTF-8', text: batch([event({ properties: { a: 'x\u00e9' } })]), wrap: (text) => Buffer.from(text, 'latin1') },
  { name: 'a field named __proto__', text: batch([event()]).replace('"a":1', '"__proto__":{"b":2}') },
  { name: 'events in two pieces', text: apart(event({ token: PROJECT_KEY }), event({ token: PROJECT_KEY })) },
  { name: 'the key in the second piece', text: apart(event(), event({ token: PROJECT_KEY })), path: '/batch?api_key=ignored' },
  { name: 'the key in the query', text: apart(event(), event()), path: `/batch?api_key=${PROJECT_KEY}` },
  { name: 'keys of events beside a key of the body', text: batch([event({ token: 'x' }), event({ token: 'y' })]) },
  { name: 'a batch without events', text: batch([]) },
  { name: 'no event name, under engage', text: json({ ...event({ ...keyed, $set: { a: 1 } }), event: undefined }), path: '/engage/' },
  { name: 'no answer wanted', text: json(event(keyed)), path: '/e/?beacon=1' },
  { name: 'no address wanted', text: json(event(keyed)), path: '/e/?ip=0' },
  // So wrong a clock puts the event before the earliest time, whenever it is sent.
  { name: 'a time of sending', text: batch([event()], { sent_at: '2100-01-01T00:00:00Z' }) },
  {
    name: 'persons, groups and a merge', text: batch([
      event({ $set: { plan: 'a' } }), event({ properties: { $groups: { shape: 'round' } } }),
      event({ event: '$groupidentify', properties: { $group_type: 'shape', $group_key: 'round', $group_set: { corners: 0 } } }),
      event({ event: '$identify', properties: { $anon_distinct_id: 'anonymous' } })
    ])
  },
  {
    name: 'each way to be no event', text: batch([
      null, 'x', {}, event({ event: 5 }), event({ event: '' }), event({ distinct_id: '' }), event({ properties: 'x' }), event()
    ])
  },
  { name: 'gzip', text: batch([event()]), wrap: (text) => zlib.gzipSync(text) },
  { name: 'zstd', text: batch([event()]), wrap: (text) => zlib.zstdCompressSync(text), headers: { 'content-encoding': 'zstd' } },
  { name: 'base64', text: batch([event()]), wrap: (text) => Buffer.from(text).toString('base64') },
  { name: 'a form', text: batch([event()]), wrap: (text) => new URLSearchParams({ data: Buffer.from(text).toString('base64') }).toString() }
]

const refused: Case[] = [
  { name: 'no key', text: json(event()) },
  { name: 'an unknown key', text: json(event({ api_key: 'phc_none' })) },
  { name: 'an unknown personal key', text: json(event({ api_key: 'phx_none' })) },
  { name: 'an empty array', text: '[]' },
  { name: 'different keys', text: json([event({ token: PROJECT_KEY }), event({ token: 'x' })]) },
  { name: 'another key in the second piece', text: apart(event({ token: PROJECT_KEY }), event({ token: 'x' })) },
  { name: 'different keys beside an empty key', text: `{"api_key":"","batch":${apart(event({ token: PROJECT_KEY }), event({ token: 'x' }))}}` },
  { name: 'a batch that is an object', text: json({ ...keyed, batch: {} }) },
  { name: 'a batch that is null', text: json({ ...keyed, batch: null }) },
  { name: 'a batch that is an array no more', text: `${batch([event()]).slice(0, -1)},"batch":5}` },
  { name: 'a string', text: '"x"' },
  { name: 'no JSON', text: 'hello!' },
  { name: 'a body cut off', text: batch([event(), event()]).slice(0, -3) },
  { name: 'a body that goes on', text: `${batch([event()])}x` },
  { name: 'an error inside an event', text: batch([event()]).replace('"a":1', '"a":01') },
  { name: 'an error inside an event of the second piece', text: apart(event({ token: PROJECT_KEY }), event()).replace(/"a":1\}\}\]$/, '"a":1x}}]') },
  { name: 'a line break inside a string', text: batch([event()]).replace('"e"', '"\n"') },
  { name: 'brackets that do not match', text: batch([event()]).replace('{"a":1}', '{"a":[1}]') },
  { name: 'an error inside a long field beside the batch', text: `{"x":[${'1,'.repeat(4000)}],${batch([event()]).slice(1)}` },
  { name: 'gzip that is cut off', text: batch([event()]), wrap: (text) => zlib.gzipSync(text).subarray(0, -9) },
  { name: 'no gzip', text: 'hello!', path: '/batch?compression=gzip' },
  { name: 'no base64', text: '%%%%', path: '/batch?compression=base64' }
]

const [ingest, clickhouse] = await Promise.all([startTestIngest(t), createTestClickHouse(t)])

async function send ({ text, wrap, path = '/batch', headers = {} }: Case, padding: string): Promise<unknown> {
  const padded = text.includes(PAD) ? text.replace(PAD, padding) : text + padding
  const before = await readCounters()
  const answer = await ingest.post(path, wrap?.(padded) ?? padded, { headers })
  const body = await answer.text()
  const after = await readCounters()
  const counted = Object.fromEntries([...after].map(([name, value]) => [name, value - (before.get(name) ?? 0)]))
  return { status: answer.status, type: answer.headers.get('content-type'), body, counted }
}

/** Counters of requests and events. */
async function readCounters (): Promise<Map<string, number>> {
  const text = await (await fetch(`${ingest.url}/metrics`)).text()
  const lines = text.match(/^millrace_ingest_(?:events_|requests_|throttled_).*$/gm) ?? []
  return new Map(lines.map((line): [string, number] => [line.replace(/ .*$/, ''), Number(line.replace(/^.* /, ''))]))
}

/** What the cases published, in an order of its own. */
async function takePublished (): Promise<{ rows: unknown[], updates: string[] }> {
  const updates = (await takePersonsUpdates(ingest.connection)).map((update) => JSON.stringify(update)).sort()
  const rows = await takePublishedEvents(ingest.connection, clickhouse)
  return { rows: rows.map(({ received_at: _, inserted_at: __, ...row }) => row), updates }
}

t.test('a body is answered, published and counted alike, small on the event loop and large in a thread', async (t) => {
  const small = new Map<string, unknown>()
  for (const sent of [...good, ...refused]) small.set(sent.name, await send(sent, ''))
  const smallPublished = await takePublished()

  for (const sent of [...good, ...refused]) t.same(await send(sent, PADDING), small.get(sent.name), sent.name)
  const largePublished = await takePublished()

  t.same(largePublished, smallPublished)
  for (const { name } of good) t.match(small.get(name), { status: name === 'no answer wanted' ? 204 : 200 }, name)
  for (const { name } of refused) t.match(small.get(name), { status: /^40[01]$/, body: /"code":"[a-z_0-9]+"/ }, name)
  t.equal(smallPublished.rows.length, 34)
})

t.test('events that can be kept nowhere are answered 503, of small bodies and of large ones', async (t) => {
  const ingest = await startTestIngest(t, { MILLRACE_SPOOL_MAX_BYTES: '1' })
  const sent = batch([event()])
  await ingest.nats.kill('SIGSTOP')

  for (const padding of ['', PADDING]) {
    const answer = await ingest.post('/batch', sent + padding)
    t.match([answer.status, answer.headers.get('retry-after'), await answer.json()], [503, '5', { code: 'stream_unavailable' }])
  }
  t.equal(await ingest.metric('millrace_ingest_events_accepted_total'), 2)
  await ingest.nats.kill('SIGCONT')
})
