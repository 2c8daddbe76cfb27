import { randomUUID } from 'node:crypto'
import t from 'tap'
import { createTestClickHouse, createTestPostgres } from '../../../test/support/test-stores.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { parseStoredJson } from '../../../engines/body/parse-json.ts'
import { stringifyJson } from '../../../engines/body/stringify-json.ts'
import { fieldsOf } from '../../../engines/fields.ts'
import { queryRows } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { type EventFilter, matchesErased, toErasedEvents } from '../../../schema/wire/erased-ids.ts'
import { personUuid } from '../../../schema/wire/identity.ts'
import { toCopyTime } from '../../../schema/wire/persons-copies.ts'
import { copyAnonymised } from './copy-anonymised.ts'
import {
  allOf, announceRemoval, beginRemoval, completeRemoval, countRemaining, isRemovalOpen, listRetentionRemovals,
  type RemovalDeps, type RemovedEvents, startRemoval
} from './event-removals.ts'

const OLD: RemovedEvents = { kind: 'days', params: { ids: [1], before: '2026-02-01' } }

async function makeDeps (t: Parameters<typeof createTestClickHouse>[0]): Promise<RemovalDeps> {
  const [{ client: clickhouse }, { sql }] = await Promise.all([createTestClickHouse(t), createTestPostgres(t)])
  return { clickhouse, sql }
}

async function readLedger ({ clickhouse }: RemovalDeps): Promise<unknown[]> {
  return await queryRows(clickhouse, `
    SELECT formatDateTime(minute, '%H:%i') AS at, toUInt32(sum(begun)) AS begun, toUInt32(sum(done)) AS done
    FROM (
      SELECT minute, source, max(deletions_begun) AS begun, max(deletions_done) AS done
      FROM ledger_by_source GROUP BY minute, source
    )
    GROUP BY minute ORDER BY minute`)
}

t.test('a removal is counted once, however often it is begun, and done when nothing of it is left', async (t) => {
  const deps = await makeDeps(t)
  const time = '2026-01-02 03:04:05'
  await deps.clickhouse.insert({
    table: 'events',
    format: 'JSONEachRow',
    values: [time, time, '2026-01-02 03:05:59.999', '2026-03-01 00:00:00'].map((at) => ({
      project_id: 1, uuid: randomUUID(), event: 'e', distinct_id: 'u', timestamp: at, received_at: at, inserted_at: at
    }))
  })
  const removal = (await beginRemoval(deps, 'old', OLD))!

  t.equal(await announceRemoval(deps, removal), 3)
  t.equal(await completeRemoval(deps, removal), false)
  // As after a crash: the same removal, although its subject now means something else.
  const again = (await beginRemoval(deps, 'old', { kind: 'days', params: { ids: [1], before: '2026-12-01' } }))!
  t.same([again.id, again.until, again.params], [removal.id, removal.until, removal.params])
  t.equal(await announceRemoval(deps, again), 3)
  t.same(await readLedger(deps), [{ at: '03:04', begun: 2, done: 0 }, { at: '03:05', begun: 1, done: 0 }])

  await startRemoval(deps, again, { marks: true })
  await waitFor(async () => await completeRemoval(deps, again))
  // Whoever counted before it ended.
  await startRemoval(deps, again, { marks: true })
  const mutations = await queryRows(deps.clickhouse, "SELECT 1 FROM system.mutations WHERE database = currentDatabase() AND table = 'events'")
  t.equal(mutations.length, 1, 'no further mutation rewrites every part')
  t.equal(await announceRemoval(deps, again), 0, 'a slow process that counts once more changes nothing')
  t.same(await readLedger(deps), [{ at: '03:04', begun: 2, done: 2 }, { at: '03:05', begun: 1, done: 1 }])
  t.same(await queryRows(deps.clickhouse, 'SELECT toUInt32(count()) AS count FROM events'), [{ count: 1 }])
  t.equal(await isRemovalOpen(deps.sql, 'old'), false)
})

t.test('a removal that ClickHouse is still busy with is not started again', async (t) => {
  const deps = await makeDeps(t)
  const at = '2026-01-02 03:04:05'
  await deps.clickhouse.insert({
    table: 'events', format: 'JSONEachRow',
    values: [{ project_id: 1, uuid: randomUUID(), event: 'e', distinct_id: 'u', timestamp: at, received_at: at, inserted_at: at }]
  })
  const removal = (await beginRemoval(deps, 'old', OLD))!
  await announceRemoval(deps, removal)
  await deps.clickhouse.command({ query: 'SYSTEM STOP MERGES events' })
  for (const marks of [false, false, true]) await startRemoval(deps, removal, { marks })
  t.equal((await queryRows(deps.clickhouse, "SELECT 1 FROM system.mutations WHERE database = currentDatabase() AND table = 'events' AND NOT is_done")).length, 1)
  await deps.clickhouse.command({ query: 'SYSTEM START MERGES events' })
  await waitFor(async () => await completeRemoval(deps, removal))
})

t.test('the books tell removals of one id apart, as after an older Postgres was restored', async (t) => {
  const deps = await makeDeps(t)
  const insert = async (): Promise<void> => {
    const at = '2026-01-02 03:04:05'
    await deps.clickhouse.insert({
      table: 'events', format: 'JSONEachRow',
      values: [{
        project_id: 1, uuid: randomUUID(), event: 'e', distinct_id: 'u', timestamp: at, received_at: at, inserted_at: at
      }]
    })
  }
  await insert()
  const first = (await beginRemoval(deps, 'old', OLD))!
  await announceRemoval(deps, first)
  await startRemoval(deps, first, { marks: true })
  await waitFor(async () => await completeRemoval(deps, first))

  await deps.sql`ALTER TABLE event_removals ALTER COLUMN id RESTART`
  await insert()
  const second = (await beginRemoval(deps, 'old', OLD))!
  await announceRemoval(deps, second)

  t.equal(second.id, first.id)
  t.same(await readLedger(deps), [{ at: '03:04', begun: 2, done: 1 }])
})

t.test('leaves events alone that are being inserted while it counts', async (t) => {
  const deps = await makeDeps(t)
  const insert = deps.clickhouse.command({
    query: `INSERT INTO events (project_id, uuid, event, distinct_id, timestamp, received_at)
      SELECT 1, generateUUIDv4(), 'e', 'u', '2026-01-02 00:00:00', '2026-01-02 00:00:00'
      FROM numbers(3) WHERE sleepEachRow(1) = 0`
  })
  await waitFor(async () => (await queryRows(deps.clickhouse, `SELECT 1 FROM system.processes
    WHERE query_kind = 'Insert' AND current_database = currentDatabase()`)).length > 0)

  const removal = (await beginRemoval(deps, 'old', OLD))!
  await insert

  t.equal(await announceRemoval(deps, removal), 0)
  t.equal(await completeRemoval(deps, removal), true)
  t.equal(await announceRemoval(deps, (await beginRemoval(deps, 'old', OLD))!), 3)
})

t.test('a removal that may take the same events waits', async (t) => {
  const deps = await makeDeps(t)
  const [one, other] = [randomUUID(), randomUUID()]
  const person = (uuid: string, project = 1): RemovedEvents =>
    ({ kind: 'person', params: { project, uuids: [uuid], requested: 0 } })

  t.ok(await beginRemoval(deps, 'person:1', person(one)))
  t.equal(await beginRemoval(deps, 'person:2', person(one)), null)
  t.ok(await beginRemoval(deps, 'person:3', person(other)))
  t.ok(await beginRemoval(deps, 'person:4', person(one, 2)))
  t.equal(await beginRemoval(deps, 'old', OLD), null)
  t.same(await listRetentionRemovals(deps.sql), [])
})

t.test('a removal by filter takes the events that ingest leaves out', async (t) => {
  const deps = await makeDeps(t)
  const events = ['paid', 'seen'].flatMap((event) => ['jo', 'al'].flatMap((distinctId) => [1, 2, 3].map((day) => ({
    event, distinctId, timestamp: Date.UTC(2026, 0, day), properties: fieldsOf(parseStoredJson(day === 1 ? '{"plan": "pro", "note": null, "n": 12345678901234567890123, "x": 1e21}' : `{"plan": ${day}, "note": null}`)), groups: ['team', `t${day}`]
  }))))
  await deps.clickhouse.insert({
    table: 'events',
    format: 'JSONEachRow',
    values: events.map(({ event, distinctId, timestamp, properties, groups: [type = '', key] }) => ({
      project_id: 1, uuid: randomUUID(), event, distinct_id: distinctId, timestamp: toCopyTime(timestamp), received_at: '2026-01-05 00:00:00',
      properties: stringifyJson(properties), groups: { [type]: key }
    }))
  })
  const filters: [EventFilter, number][] = [
    [{ event: 'paid' }, 6], [{ event: 'paid', persons: [personUuid(1, 'jo')] }, 3], [{ property: 'plan', value: 'pro' }, 4],
    [{ property: 'plan', value: '2' }, 4], [{ property: 'note' }, 12], [{ property: 'none' }, 0], [{ property: 'constructor' }, 0],
    [{ property: 'n', value: '12345678901234567890123' }, 4], [{ property: 'x', value: '1e21' }, 4],
    [{ groupType: 'team', groupKey: 't3', event: 'seen' }, 2], [{ from: Date.UTC(2026, 0, 2), to: Date.UTC(2026, 0, 3) }, 4]
  ]
  for (const [filter, count] of filters) {
    const erased = toErasedEvents(filter, 1)
    t.equal(await countRemaining(deps, allOf({ kind: 'filter', params: { project: 1, filter: erased, requested: Date.now() } })), count, JSON.stringify(filter))
    t.equal(events.filter((event) => matchesErased(erased, 1, event)).length, count)
  }
  const timeless = { event: 'paid', distinctId: 'jo', timestamp: NaN, properties: {}, groups: [] }
  const matches = (filter: EventFilter): boolean => matchesErased(toErasedEvents(filter, 1), 1, timeless)
  t.same([matches({ to: 1 }), matches({ from: 1 }), matches({ event: 'paid' })], [false, false, true], 'an event in a letter may have no time')
})

t.test('a filter by a person with more former ids than a URL has room for is removed in parts', async (t) => {
  const deps = await makeDeps(t)
  const at = '2026-01-02 03:04:05'
  await deps.clickhouse.insert({
    table: 'events', format: 'JSONEachRow',
    values: ['former 0', 'former 24999', 'former 24999', 'other'].map((id) =>
      ({ project_id: 1, uuid: randomUUID(), event: 'e', distinct_id: id, timestamp: at, received_at: at, inserted_at: at }))
  })
  const persons = Array.from({ length: 25_000 }, (_, i) => personUuid(1, `former ${i}`))
  const filter = toErasedEvents({ persons }, 1)
  const removal = (await beginRemoval(deps, 'person:1', { kind: 'filter', params: { project: 1, filter, requested: Date.now() } }))!

  t.equal(await announceRemoval(deps, removal), 3)
  await startRemoval(deps, removal, { marks: true })
  await waitFor(async () => await completeRemoval(deps, removal))
  t.same(await readLedger(deps), [{ at: '03:04', begun: 3, done: 3 }])
  t.same(await queryRows(deps.clickhouse, 'SELECT distinct_id FROM events'), [{ distinct_id: 'other' }])
})

t.test('events are copied under random ids once, also when some have been removed since', async (t) => {
  const deps = await makeDeps(t)
  const insert = async (first: string, count: number, at: string): Promise<unknown> => await deps.clickhouse.insert({
    table: 'events', format: 'JSONEachRow',
    values: Array.from({ length: count }, () => ({
      project_id: 1, uuid: first + randomUUID().slice(1), event: 'e', distinct_id: 'jo', timestamp: at, received_at: at, inserted_at: at, properties: '{}'
    }))
  })
  await insert('0', 1000, '2026-01-02 00:00:00')
  await insert('f', 2, '2026-02-02 00:00:00')
  const removal = (await beginRemoval(deps, 'person:1', { kind: 'person', params: { project: 1, uuids: [personUuid(1, 'jo')], requested: Date.now() } }))!
  const by = { ids: { jo: randomUUID() }, removed: [] }
  const counts = async (): Promise<unknown> => await queryRows(deps.clickhouse, `
    SELECT toString(day) AS day, toUInt32(sum(volume)) AS volume FROM event_volumes_by_day GROUP BY day ORDER BY day`)
  const copied = [{ day: '2026-01-02', volume: 2000 }, { day: '2026-02-02', volume: 4 }]
  const rows = async (): Promise<unknown> => await queryRows(deps.clickhouse, `
    SELECT toYYYYMM(timestamp) AS month, toUInt32(count()) AS rows FROM events WHERE distinct_id != 'jo' GROUP BY month ORDER BY month SETTINGS final = 0`)
  const stored = [{ month: 202601, rows: 1000 }, { month: 202602, rows: 2 }]

  // Merges would make one row of two with the same uuid.
  await deps.clickhouse.command({ query: 'ALTER TABLE events MODIFY SETTING max_bytes_to_merge_at_max_space_in_pool = 1' })
  await copyAnonymised(deps, removal, by)
  t.same([await rows(), await counts()], [stored, copied])
  await deps.clickhouse.command({ query: "ALTER TABLE events DELETE WHERE distinct_id = 'jo' AND toYYYYMM(timestamp) = 202601 SETTINGS mutations_sync = 2" })
  await copyAnonymised(deps, removal, by)
  t.same([await rows(), await counts()], [stored, copied])
})
