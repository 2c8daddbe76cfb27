import { hash, randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { zstdDecompressSync } from 'node:zlib'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import t from 'tap'
import { type ClickHouse, connectClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { deletePerson } from '../../api/persons/delete-person.ts'
import { queueNotifications } from '../../platform/notifications.ts'
import { recordErasure } from '../../api/persons/erase-persons.ts'
import { forgetNotifications } from '../../pipeline/persons/deletion/forget-notifications.ts'
import { formatErasures, toErasedEvents } from '../../schema/wire/erased-ids.ts'
import { appendErasures } from '../../api/persons/erasure-file.ts'
import { eraseAgain } from '../../cli/backup/erase-again.ts'
import { findPersonByDistinctId } from '../../api/persons/find-person.ts'
import { membersSql } from '../../engines/questions/question-sql.ts'
import { personUuid } from '../../schema/wire/identity.ts'
import { fieldsOf } from '../../engines/fields.ts'
import { encodeCopies } from '../../schema/wire/persons-copies.ts'
import type { MergeUpdate } from '../../schema/wire/persons-update.ts'
import { toWarningRow, WARNINGS_TABLE } from '../../schema/wire/ingestion-warnings.ts'
import { EVENTS_STREAM, eventsSubject } from '../../schema/wire/streams.ts'
import { freePort } from '../support/local-ports.ts'
import type { TestContext } from '../support/test-context.ts'
import { createTestPostgres } from '../support/test-stores.ts'
import { PATIENCE_MS, waitFor } from '../support/wait-for.ts'
import type { PersonApplier } from '../../pipeline/persons/start-persons.ts'
import { noCopiesWait, origin, type PersonsStores, readPersons, startPersonsStores } from '../../pipeline/persons/testing/start-persons-stores.ts'

t.test('deletes a person by an id from before its merge, with the events of all its distinct ids', async (t) => {
  const stores = await startWithMergedPerson(t)
  const { sql, clickhouse: { client } } = stores
  const [{ id: target }] = await sql<[{ id: number }]>`
    INSERT INTO targets ${sql({ project_id: 1, name: 'ops', kind: 'webhook', url: 'https://example.com' })} RETURNING id`
  const samples = ['jo', 'ann', 'phone'].map((id) => ({ distinct_id: id }))
  await queueNotifications(sql, target, [
    ...['phone', 'ann'].map((id) => ({ type: 'event' as const, data: JSON.stringify({ distinct_id: id, received_at: '2026-01-01T00:00:00.000Z' }), text: id })),
    { type: 'event', data: '{"distinct_id":"jo","received_at":"2126-01-01T00:00:00.000Z"}', text: 'jo, later' },
    { type: 'events', data: JSON.stringify({ event: 'e', from: '2026-01-01T00:00:00.000Z', samples }), text: 'e: 3\n- jo\n- ann\n- phone\nhttps://example.com' }
  ])

  const copyOf = (id: string): object => ({ project_id: 1, person_id: personUuid(1, id), properties: { name: id } })
  const warning = { project_id: 1, samples: [{ distinct_id: 'ann', value: 'phone' }] }
  const elsewhere = { ...copyOf('jo'), project_id: 2 }
  for (const copies of [[copyOf('jo')], [copyOf('jo'), copyOf('ann'), warning, elsewhere], [copyOf('ann')]]) {
    for (const { rows, rowCount } of encodeCopies(copies.map(fieldsOf))) {
      await sql`INSERT INTO persons_outbox (target, rows, row_count, refused) VALUES ('persons', ${rows}, ${rowCount}, 'no copy of jo fits')`
    }
  }

  const deleted = await deletePerson({ projectId: 1, uuid: personUuid(1, 'phone'), withEvents: true }, deps(stores))

  t.same(deleted, { uuid: personUuid(1, 'jo'), isDone: true })
  t.match(await readPersons(sql, 1), [{ distinctIds: ['ann'] }])
  for (const table of ['persons', 'person_distinct_ids', 'person_overrides']) {
    t.equal(await count(client, table, `person_id != '${personUuid(1, 'ann')}'`), 0, table)
  }
  t.equal(await count(client, 'events', "project_id = 1 AND distinct_id IN ('jo', 'phone')"), 0)
  t.equal(await count(client, 'events', '1'), 3, 'events of others stay, in other projects too')
  t.equal(await count(client, 'event_traces FINAL', "project_id = 1 AND kind = 'deleted'"), 4, 'receipts know that they are deleted')
  t.equal(await findPersonByDistinctId(sql, 1, 'jo'), null)
  const refused = await sql<{ rows: Buffer, count: number, refused: string }[]>`
    SELECT rows, row_count AS count, refused FROM persons_outbox WHERE refused IS NOT NULL ORDER BY id`
  t.same(refused.map(({ rows }) => zstdDecompressSync(rows).toString().trim().split('\n').map((line) => JSON.parse(line) as unknown)),
    [[copyOf('ann'), elsewhere], [copyOf('ann')]], 'nor do refused copies name the person')
  t.match(refused, [{ count: 2, refused: /deleted since/ }, { count: 1, refused: 'no copy of jo fits' }])
  const waiting = async (): Promise<string[]> => (await sql`SELECT text FROM notifications ORDER BY sequence`).map((row) => row['text'])
  await waitFor(async () => (await waiting()).length === 3)
  t.same(await waiting(), ['ann', 'jo, later', 'e: 3\n- ann\nhttps://example.com'])
  t.equal(await deletePerson({ projectId: 1, uuid: personUuid(1, 'jo'), withEvents: true }, deps(stores)), null)
})

t.test('events that a filter erases leave what waits for targets; those whose properties are not there leave it if the rest matches', async (t) => {
  const { sql } = await createTestPostgres(t)
  await sql`INSERT INTO projects (id, name) VALUES (1, 'one')`
  const [{ id: target }] = await sql<[{ id: number }]>`
    INSERT INTO targets ${sql({ project_id: 1, name: 'ops', kind: 'webhook', url: 'https://example.com' })} RETURNING id`
  const at = '2026-01-01T00:00:00.000Z'
  const one = (text: string, fields: object) => ({ type: 'event' as const, text, data: JSON.stringify({ event: 'survey', distinct_id: 'jo', timestamp: at, received_at: at, ...fields }) })
  const samples = ['{"mail":"jo@example.com"}', '{"mail":"ann@example.com"}', null].map((properties) => ({ distinct_id: 'jo', timestamp: at, properties }))
  await queueNotifications(sql, target, [
    one('gone', { properties: { mail: 'jo@example.com' } }), one('gone, too long', { properties: null }),
    one('other mail', { properties: { mail: 'ann@example.com' } }), one('other event', { event: 'order', properties: null }),
    one('later', { received_at: '2126-01-01T00:00:00.000Z', properties: { mail: 'jo@example.com' } }),
    { type: 'events', data: JSON.stringify({ event: 'survey', from: at, samples }), text: 's: 3\n- jo\n- ann\n- long\nhttps://example.com' }
  ])
  const about = sql.json({ kind: 'board', id: 1 })
  await sql`INSERT INTO alerts ${sql({ id: 1, project_id: 1, name: 'daily', about, every: 'day', targets: sql.json([target]) })}`
  await sql`INSERT INTO report_pictures ${sql({ key_hash: 'a', alert_id: 1, shows_sql: false, png: Buffer.from('jo') })}`
  const filter = toErasedEvents({ event: 'survey', property: 'mail', value: 'jo@example.com' }, 1)
  await forgetNotifications(sql, [{ projectId: 1, personUuids: [], withEvents: true, requestedAt: new Date(), filter }])
  t.same((await sql`SELECT text FROM notifications ORDER BY sequence`).map((row) => row['text']),
    ['other mail', 'other event', 'later', 's: 3\n- ann\nhttps://example.com'])
  t.same(await sql`SELECT FROM report_pictures`, [], 'nobody knows who is in a picture')
})

t.test('events that go with a person are counted no more, once, whatever is repeated', async (t) => {
  const stores = await startWithMergedPerson(t)
  const { sql, clickhouse: { client } } = stores
  const event = (distinctId: string, name: string, types: string): object => ({
    project_id: 1, uuid: randomUUID(), event: name, distinct_id: distinctId, property_types: types,
    timestamp: '2026-01-02 03:00:00', received_at: '2026-01-02 03:00:00'
  })
  const types = 'eSplan\0eNamount\0e?tags\0pSemail\0gNcompany\x01seats'
  await client.insert({
    table: 'events', format: 'JSONEachRow',
    values: [event('jo', 'order', types), event('jo', 'order', 'eSplan'), event('phone', 'only hers', 'eSplan'), event('ann', 'order', types)]
  })
  const counts = async (): Promise<unknown[]> => await queryRows(client, `SELECT * FROM (
    SELECT project_id, event, '' AS property, '' AS type, toInt64(sum(volume)) AS n FROM event_volumes_by_day GROUP BY ALL HAVING n != 0
    UNION ALL
    SELECT project_id, event, concat(kind, group_type, property), toString(type), toInt64(sum(count)) AS n FROM event_property_counts
    GROUP BY ALL HAVING n != 0) ORDER BY ALL SETTINGS final = 0`)
  const first = async (): Promise<unknown> => (await queryRows(client, "SELECT min(first_seen) AS f, max(last_seen) AS l FROM event_volumes_by_day WHERE event = 'order'"))[0]
  const seen = await first()

  const [{ id: cohort }] = await sql<[{ id: number }]>`INSERT INTO cohorts (project_id, name, filters) VALUES (1, 'c', '{}') RETURNING id`
  /** A refresh that found the person in the events which are about to be removed. */
  const refresh = async (): Promise<void> => {
    await client.insert({ table: 'cohort_members', format: 'JSONEachRow', values: [{ project_id: 1, cohort_id: cohort, version: Date.now(), person_id: personUuid(1, 'jo'), size: 1 }] })
    await sql`INSERT INTO cohort_people (cohort_id, person) VALUES (${cohort}, ${personUuid(1, 'jo')}) ON CONFLICT DO NOTHING`
  }
  // It fails once after it has counted, before the delete.
  let failures = 0
  const failing = new Proxy(client, {
    get: (target, name) => name === 'command'
      ? async (options: { query: string }) => {
        if (options.query.startsWith('ALTER TABLE events')) await refresh()
        if (failures === 0 && options.query.startsWith('ALTER TABLE events')) { failures++; throw new Error('cut off') }
        return await target.command(options)
      }
      : Reflect.get(target, name).bind?.(target) ?? Reflect.get(target, name)
  })
  const uuid = personUuid(1, 'jo')
  await stores.persons.stop()
  stores.start({ clickhouse: failing })
  await deletePerson({ projectId: 1, uuid, withEvents: true }, deps(stores))
  await waitFor(async () => (await sql`SELECT 1 FROM person_deletions WHERE swept_at IS NOT NULL`).length === 1)

  t.equal(failures, 1)
  t.equal(await count(client, 'cohort_members', `person_id = '${uuid}'`), 0, 'nor is it in a cohort that found it meanwhile')
  t.same([...await sql`SELECT FROM cohort_people`], [])
  t.same(await counts(), [
    [1, 'e', '', '', 2], [1, 'order', '', '', 1], [1, 'order', 'eventamount', 'Numeric', 1], [1, 'order', 'eventplan', 'String', 1],
    [1, 'order', 'eventtags', 'none', 1], [1, 'order', 'groupcompanyseats', 'Numeric', 1], [1, 'order', 'personemail', 'String', 1],
    [2, 'e', '', '', 1]
  ].map(([project, event, property, type, n]) => ({ project_id: project, event, property, type, n })))
  t.same(await first(), seen, 'no earliest and no latest time is made up')
})

t.test('empties the samples of ingestion warnings that name the person, and keeps the counts', async (t) => {
  const stores = await startWithMergedPerson(t)
  const { clickhouse: { client } } = stores
  const sample = { receivedAt: 0, event: 'e', distinctId: '', uuid: '', lib: '', libVersion: '', value: '' }
  const total = { projectId: 1, minute: Date.now() - Date.now() % 60_000, count: 7 } as const
  await client.insert({
    table: WARNINGS_TABLE,
    format: 'JSONEachRow',
    values: [
      toWarningRow('a', { ...total, reason: 'uuid_invalid', samples: [{ ...sample, distinctId: 'phone' }] }),
      toWarningRow('a', { ...total, reason: 'already_identified', samples: [{ ...sample, value: 'jo' }] }),
      toWarningRow('a', { ...total, reason: 'group_cut', samples: [{ ...sample, distinctId: 'ann' }] }),
      toWarningRow('a', { ...total, projectId: 2, reason: 'group_cut', samples: [{ ...sample, distinctId: 'jo' }] })
    ]
  })

  t.match(await deletePerson({ projectId: 1, uuid: personUuid(1, 'jo'), withEvents: false }, deps(stores)), { isDone: true })

  const result = await client.query({
    query: 'SELECT project_id, reason, toUInt8(length(samples)) AS samples, toUInt32(count) AS count FROM ingestion_warnings ORDER BY ALL',
    format: 'JSONCompactEachRow'
  })
  t.strictSame(await result.json(), [
    [1, 'already_identified', 0, 7], [1, 'group_cut', 1, 7], [1, 'uuid_invalid', 0, 7], [2, 'group_cut', 1, 7]
  ])
})

t.test('keeps the events when only the person is deleted; a later event creates a new person', async (t) => {
  const stores = await startWithMergedPerson(t)
  const { sql, clickhouse: { client }, publish, waitUntilApplied } = stores
  const uuid = personUuid(1, 'jo')

  t.match(await deletePerson({ projectId: 1, uuid, withEvents: false }, deps(stores)), { isDone: true })
  t.equal(await count(client, 'events', '1'), 7)
  t.equal(await count(client, 'events_with_person', `person_id = '${uuid}'`), 2, 'the merge is forgotten')

  await publish([{ ...origin(), kind: 'person', distinctId: 'jo', set: { again: true } }])
  await waitUntilApplied()
  await noCopiesWait(stores)
  t.strictSame((await readPersons(sql, 1)).map(({ properties }) => properties), [{}, { again: true }])
  t.equal(await count(client, 'persons FINAL', `person_id = '${uuid}' AND properties LIKE '%again%'`), 1)
})

t.test('finishes a deletion after ClickHouse was unavailable, and deletes events that were in flight', async (t) => {
  const stores = await startWithMergedPerson(t)
  const { sql, clickhouse: { client }, connection } = stores
  const unreachable = connectClickHouse({ url: `http://127.0.0.1:${await freePort()}/none` })
  t.teardown(() => unreachable.close())
  // A message that no consumer has acknowledged yet.
  await jetstream(connection).publish(eventsSubject('live', 0), 'on its way')

  await stores.persons.stop()
  const without = stores.start({ clickhouse: unreachable })

  const begun = await deletePerson({ projectId: 1, uuid: personUuid(1, 'jo'), withEvents: true }, { ...deps(stores), waitMs: 1000 })
  t.match(begun, { isDone: false })

  await without.stop()
  stores.start({ pollIntervalMs: 100 })
  await waitFor(async () => (await sql`SELECT 1 FROM person_deletions WHERE done_at IS NOT NULL`).length === 1)
  t.equal(await count(client, 'events', "project_id = 1 AND distinct_id IN ('jo', 'phone')"), 0)

  await insertEvents(client, ['phone'])
  await (await jetstreamManager(connection)).streams.purge(EVENTS_STREAM)
  await waitFor(async () => (await sql`SELECT 1 FROM person_deletions WHERE swept_at IS NOT NULL`).length === 1)
  t.equal(await count(client, 'events', "distinct_id = 'phone'"), 0)
})

/** Jo, whose phone was merged into her, and Ann; two events of each distinct id, and one of Jo in another project. */
t.test('the record does not have the random ids of anonymised persons, and a backup with the record erases nothing again', async (t) => {
  const stores = await startWithMergedPerson(t)
  const { sql, clickhouse: { client }, connection: nats } = stores
  const folder = await mkdtemp(path.join(tmpdir(), 'millrace-test-erasures-'))
  t.teardown(async () => { await rm(folder, { recursive: true, force: true }) })

  // As of before the merge of jo and phone: members are persons of that time.
  const members = ['jo', 'phone', 'ann'].map((id) => personUuid(1, id))
  const [{ id: cohort }] = await sql<[{ id: number }]>`INSERT INTO cohorts (project_id, name, filters) VALUES (1, 'c', '{}') RETURNING id`
  for (const [version, length] of [[7, 2], [8, 3]] as const) {
    const values = ['00000000-0000-0000-0000-000000000000', ...members.slice(0, length)].map((person) => ({ project_id: 1, cohort_id: cohort, version, person_id: person, size: length + 1 }))
    await client.insert({ table: 'cohort_members', format: 'JSONEachRow', values })
  }
  await sql`INSERT INTO cohort_people (cohort_id, person) SELECT ${cohort}, unnest(${members}::uuid[])`
  const countMembers = async (storedUntil?: number): Promise<unknown[]> => await queryRows(client, `
    SELECT uniqExact(person_id) AS people, count() AS events FROM events_with_person WHERE project_id = 1 AND distinct_id != 'ann' AND person_id IN ${membersSql(cohort, 1, { storedUntil })} SETTINGS final = 1`)
  const counted = await countMembers()
  t.match(counted, [{ people: '1', events: '4' }])

  await insertEvents(client, ['ann'], 1, '{ written by hand')
  await recordErasure(sql, 1, { ids: ['ann'], removed: [] })
  await recordErasure(sql, 1, { ids: ['jo', 'phone'], removed: [] })
  const [{ ids }] = await sql<[{ ids: Record<string, string> }]>`SELECT anonymised->'ids' AS ids FROM person_deletions ORDER BY id DESC LIMIT 1`
  t.same(Object.keys(ids).sort(), ['jo', 'phone'])
  // One that cannot be finished holds up no other.
  await waitFor(async () => (await sql`SELECT 1 FROM person_deletions WHERE done_at IS NOT NULL`).length === 1)
  const record = JSON.stringify(await sql`SELECT object, before, after FROM record`)
  t.match(record, /person_deletions/)
  for (const random of Object.values(ids)) {
    t.equal(await count(client, 'events FINAL', `distinct_id = '${random}'`), 2)
    t.notOk(record.includes(random))
    t.equal((await sql`SELECT FROM cohort_people WHERE person = ${personUuid(1, random)}`).length, 1, 'flags find the cohort')
  }
  t.same([await countMembers(), await countMembers(7)], [counted, counted], 'counts by cohort stay, of each version')
  const former = members.slice(0, 2)
  t.equal(await count(client, 'cohort_members', `person_id IN ('${former.join("', '")}')`), 0)
  t.same([...await sql`SELECT person FROM cohort_people WHERE person = ANY (${former})`], [])

  await appendErasures(sql, folder)
  t.equal(await eraseAgain({ sql, clickhouse: client, nats }, [folder]), 0)
})

t.test('a restored backup that is older than a large erasure erases it again', async (t) => {
  const { sql, clickhouse: { client }, connection: nats } = await startPersonsStores(t)
  await insertEvents(client, ['zoe'])
  const hashes = [...Array.from({ length: 20_000 }, (_, n) => `other ${n}`), 'zoe'].map((id) => hash('sha256', `salt:1:${id}`))
  const folder = t.testdir({ 'erasures.jsonl': formatErasures([{ project_id: 1, salt: 'salt', hashes, requested_at: new Date() }], '') })

  t.equal(await eraseAgain({ sql, clickhouse: client, nats }, [folder]), 1)
  t.equal(await count(client, 'events', "distinct_id = 'zoe'"), 0)
})

async function startWithMergedPerson (t: TestContext): Promise<PersonsStores & { persons: PersonApplier }> {
  const stores = await startPersonsStores(t)
  const { publish, start, waitUntilApplied, clickhouse: { client } } = stores
  const merge: MergeUpdate = { ...origin(), kind: 'merge', how: 'identify', distinctId: 'jo', otherDistinctId: 'phone' }
  const persons = start()
  await publish([
    { ...origin(), kind: 'person', distinctId: 'phone', set: { secret: 1 } },
    { ...origin(), kind: 'person', distinctId: 'jo' },
    { ...origin(), kind: 'person', distinctId: 'ann' },
    merge
  ])
  await waitUntilApplied()
  await noCopiesWait(stores)
  await insertEvents(client, ['jo', 'jo', 'phone', 'phone', 'ann', 'ann'])
  await insertEvents(client, ['jo'], 2)
  return { ...stores, persons }
}

async function insertEvents (
  client: ClickHouse, distinctIds: readonly string[], project = 1, properties = '{}'
): Promise<void> {
  const stored = { timestamp: '2026-01-01 00:00:00', received_at: '2026-01-01 00:00:00', properties }
  await client.insert({
    table: 'events',
    values: distinctIds.map((id) => ({ project_id: project, uuid: randomUUID(), event: 'e', distinct_id: id, ...stored })),
    format: 'JSONEachRow'
  })
}

async function count (client: ClickHouse, table: string, where: string): Promise<number> {
  const result = await client.query({ query: `SELECT count() AS n FROM ${table} WHERE ${where}`, format: 'JSONEachRow' })
  return Number((await result.json<{ n: string }>())[0]?.n)
}

function deps ({ sql, clickhouse }: PersonsStores): Parameters<typeof deletePerson>[1] {
  return { sql, clickhouse: clickhouse.client, waitMs: PATIENCE_MS }
}
