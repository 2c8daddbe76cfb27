import t from 'tap'
import { createLogger } from '../../../platform/logger.ts'
import { createTestClickHouse, createTestPostgres } from '../../../test/support/test-stores.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { startQueueingEvents } from './queue-events.ts'

const logger = createLogger({ component: 'test', level: 'silent' })
const [{ sql }, { client: clickhouse }] = await Promise.all([createTestPostgres(t), createTestClickHouse(t)])
const [{ id: project }] = await sql<[{ id: number }]>`INSERT INTO projects (name) VALUES ('test') RETURNING id`
const START = Date.parse('2026-05-04T10:00:00Z')

async function addTarget (kind: string, fields: { events?: string[], each_event?: boolean }): Promise<number> {
  const { events = [], ...rest } = fields
  const row = { project_id: project, name: `${kind} ${Math.random()}`, kind, url: 'http://example.com', events: sql.json(events), updated_at: new Date(START), ...rest }
  return (await sql<[{ id: number }]>`INSERT INTO targets ${sql(row)} RETURNING id`)[0].id
}

const text = (at: number): string => new Date(at).toISOString().slice(0, -1).replace('T', ' ')
let made = 0
const event = (receivedAt: number, fields: Record<string, unknown> = {}): Record<string, unknown> => ({
  project_id: project, uuid: `00000000-0000-4000-8000-${String(++made * 7919 % 100_000).padStart(12, '0')}`, event: 'paid', distinct_id: 'ann',
  timestamp: text(receivedAt), received_at: text(receivedAt), properties: '{"amount":12345678901234567890}', ...fields
})

async function insert (events: Record<string, unknown>[]): Promise<void> {
  await clickhouse.insert({ table: 'events', format: 'JSONEachRow', values: events, clickhouse_settings: { insert_deduplication_token: crypto.randomUUID(), async_insert: 0 } })
}

async function completeThrough (at: number): Promise<void> {
  await clickhouse.command({ query: "INSERT INTO watermark_reached SELECT 0, {through: DateTime64(3)}, tuple(now64(3), '')", query_params: { through: new Date(at) } })
}

async function queuedFor (target: number): Promise<{ type: string, data: string, text: string }[]> {
  return await sql`SELECT type, data, text FROM notifications WHERE target_id = ${target} ORDER BY sequence`
}

let statements = 0
/** Time of receipt that was read, of one reading after the other, in hours. */
let hoursRead = 0
const counting = {
  async query (options: Parameters<typeof clickhouse.query>[0]) {
    statements++
    const { names = [], least = 0, through = 0 } = options.query_params ?? {}
    if (String(names).includes('hanging')) await new Promise(() => {})
    hoursRead += (Number(through) - Number(least)) / 3_600_000
    return await clickhouse.query(options)
  }
}
const queueing = startQueueingEvents({
  sql, clickhouse: counting as unknown as typeof clickhouse, leads: () => true, publicUrl: 'http://millrace.example', roundMs: 20, logger
})
t.teardown(async () => await queueing.stop())

t.test('without targets ClickHouse is not asked', async (t) => {
  await insert([event(START)])
  await completeThrough(START + 1)
  await new Promise((resolve) => setTimeout(resolve, 200))
  t.equal(statements, 0)
})

t.test('each event comes once, in order of receipt, up to the watermark, also many of one millisecond', async (t) => {
  const target = await addTarget('webhook', { events: ['paid', 'left'], each_event: true })
  // More than one reading of one millisecond, and some that are stored twice.
  const many = Array.from({ length: 350 }, () => event(START + 1000))
  await insert([...many, ...many.slice(0, 20), event(START + 5000, { event: 'left' }), event(START + 500, { event: 'other' }), event(START - 1)])
  await insert([event(START + 999)])
  await completeThrough(START + 5000)
  await waitFor(async () => (await queuedFor(target)).length >= 352)
  await insert([event(START + 5001)])
  await completeThrough(START + 6000)
  await waitFor(async () => (await queuedFor(target)).length >= 354)
  await new Promise((resolve) => setTimeout(resolve, 200))

  const queued = await queuedFor(target)
  t.equal(queued.length, 354)
  const sent = queued.map(({ data }) => JSON.parse(data))
  t.equal(new Set(sent.map(({ uuid }) => uuid)).size, 354)
  t.same(sent.map(({ received_at: at }) => at), sent.map(({ received_at: at }) => at).toSorted())
  t.match(queued[0], { type: 'event', data: '"properties":{"amount":12345678901234567890}', text: 'paid: ann {"amount":12345678901234567890}' })
  await sql`DELETE FROM targets`
})

t.test('Slack gets one message a minute for each definition that posts to it', async (t) => {
  await sql`INSERT INTO event_definitions ${sql([{ project_id: project, name: 'signed up', post_to_slack: true, last_updated_at: new Date(START) }])}`
  await insert([event(START + 10_000, { event: 'signed up' }), ...Array.from({ length: 5 }, () => event(START + 10_000))])
  await completeThrough(START + 11_000)
  // Now: before, a round could count what the first test left.
  const target = await addTarget('slack', { events: ['paid'] })
  const other = await addTarget('webhook', { events: [] })
  await waitFor(async () => (await queuedFor(target)).length === 2)
  const [, paid] = (await queuedFor(target)).toSorted((one, two) => two.text.localeCompare(one.text))
  t.match(paid?.text, /^paid: 358 received from .*Z to 2026-05-04T10:00:11.000Z\n- ann .*\n.*\n.*\nhttp:\/\/millrace.example\/console\/projects\/\d+\/stored\?event=paid$/)

  await insert([event(START + 20_000, { event: 'signed up' })])
  await completeThrough(START + 40_000)
  await insert([event(START + 50_000, { event: 'signed up' })])
  await completeThrough(START + 70_000)
  await new Promise((resolve) => setTimeout(resolve, 200))
  t.equal((await queuedFor(target)).length, 2, 'the minute has not passed')
  await completeThrough(START + 71_000)
  await waitFor(async () => (await queuedFor(target)).length === 3)
  t.match(JSON.parse((await queuedFor(target))[2]!.data), { event: 'signed up', count: 2 })
  t.same(await queuedFor(other), [])
  await sql`DELETE FROM targets`
})

t.test('a full queue and a disabled target leave events where they are', async (t) => {
  const full = await addTarget('webhook', { events: ['much'], each_event: true })
  await insert(Array.from({ length: 1500 }, (_, index) => event(START + 100_000 + index, { event: 'much' })))
  await completeThrough(START + 200_000)
  await waitFor(async () => (await queuedFor(full)).length >= 1000)
  await new Promise((resolve) => setTimeout(resolve, 200))
  t.ok((await queuedFor(full)).length <= 1100)
  await sql`UPDATE targets SET enabled = false WHERE id = ${full}`
  const before = await queuedFor(full)
  await sql`DELETE FROM notifications WHERE target_id = ${full}`
  await new Promise((resolve) => setTimeout(resolve, 200))
  t.same(await queuedFor(full), [])
  await sql`UPDATE targets SET enabled = true WHERE id = ${full}`
  await waitFor(async () => (await queuedFor(full)).length >= 1500 - before.length)
  const uuids = [...before, ...await queuedFor(full)].map(({ data }) => JSON.parse(data).uuid)
  t.equal(new Set(uuids).size, 1500)
})

t.test('what a target missed in days is read about once, and a target whose events are slow to read delays no other', async (t) => {
  const HOUR = 3_600_000
  const hanging = await addTarget('webhook', { events: ['hanging'], each_event: true })
  const target = await addTarget('webhook', { events: ['rare'], each_event: true })
  await insert(Array.from({ length: 800 }, (_, index) => event(START + 300_000 + index * HOUR / 8, { event: 'rare' })))
  hoursRead = 0
  await completeThrough(START + 100 * HOUR + 300_000)
  await waitFor(async () => (await queuedFor(target)).length === 800)
  t.equal(new Set((await queuedFor(target)).map(({ data }) => JSON.parse(data).uuid)).size, 800)
  t.ok(hoursRead < 350, `${hoursRead} hours of 100`)
  t.same(await queuedFor(hanging), [])
})
