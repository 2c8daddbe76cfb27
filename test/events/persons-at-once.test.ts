/** Requests about the same persons at the same time end as if they had come one after the other, and say so. */
import { randomUUID } from 'node:crypto'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import t from 'tap'
import { createNatsOnDemand } from '../../api/events/dead-letters/nats-on-demand.ts'
import { anonymisePersons } from '../../api/persons/anonymise-persons.ts'
import { removePersons } from '../../api/persons/delete-person.ts'
import { findErased } from '../../api/persons/erase-persons.ts'
import { createTestApi, type TestAnswer } from '../../api/testing/create-test-api.ts'
import type { PersonApplier } from '../../pipeline/persons/start-persons.ts'
import { startPersonsStores, testLogger } from '../../pipeline/persons/testing/start-persons-stores.ts'
import { queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { connectPostgres, type TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { lockPersons } from '../../platform/postgres/lock-persons.ts'
import { personUuid } from '../../schema/wire/identity.ts'
import { EVENTS_STREAM, eventsSubject } from '../../schema/wire/streams.ts'
import { waitFor } from '../support/wait-for.ts'

const stores = await startPersonsStores(t, { projects: 0 })
const { sql, connection, clickhouse: { client } } = stores
await client.command({ query: "INSERT INTO watermark_reached SELECT 0, now64(3) + INTERVAL 1 DAY, (now64(3), '')" })
const nats = createNatsOnDemand({ url: stores.nats.url, logger: testLogger })
const noNats = createNatsOnDemand({ url: 'nats://127.0.0.1:9', logger: testLogger })
let isNatsAway = false
/** Called before the API counts events in ClickHouse. */
let onCount = async (): Promise<unknown> => await Promise.resolve()
const clickhouse = new Proxy(client, {
  get: (target, name) => name === 'query'
    ? async (options: Parameters<typeof client.query>[0]) => {
      if (options.query.includes('FROM events ')) await onCount()
      return await target.query(options)
    }
    : Reflect.get(target, name).bind?.(target) ?? Reflect.get(target, name)
})
const reached = { ...nats, get: async () => await (isNatsAway ? noNats : nats).get() }
const { call, projectId } = await createTestApi(t, { clickhouse, nats: reached }, { sql, url: stores.databaseUrl })
const INTERVALS = { pollIntervalMs: 50 }

/** Somebody with three distinct ids, the second of which set a property. @returns the events that merged the others. */
async function insertPerson (name: string): Promise<{ uuid: string, merges: string[] }> {
  const uuid = personUuid(projectId, name)
  const others = [`${name}-tab`, `${name}-pc`]
  await sql`
    WITH person AS (INSERT INTO persons (project_id, uuid, created_at, properties) VALUES (${projectId}, ${uuid}, '2026-01-01', '{"plan":"pro"}') RETURNING id)
    INSERT INTO person_distinct_ids (project_id, distinct_id, person_id) SELECT ${projectId}, each, id FROM person, unnest(${[name, ...others]}::text[]) AS each`
  const merged = others.map((alias) => ({ event: '$create_alias', distinct_id: name, properties: JSON.stringify({ alias }) }))
  const values = [...merged, { event: 'paid', distinct_id: others[0], properties: '{"$set":{"plan":"pro"}}' }].map((each, i) => ({
    project_id: projectId, uuid: randomUUID(), ...each, timestamp: `2026-01-01 00:00:0${i}`, received_at: `2026-01-01 00:00:0${i}`
  }))
  await client.insert({ table: 'events', format: 'JSONEachRow', values })
  return { uuid, merges: values.slice(0, 2).map((each) => each.uuid) }
}

/** Those of the product may all be waiting. */
const own = connectPostgres({ url: stores.databaseUrl, max: 2 })
t.teardown(async () => { await own.end() })

async function countWaiting (): Promise<number> {
  return (await own`SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).length
}

/** Sends requests while another transaction has the persons locked, which goes on once as many wait for it. */
async function sendAtOnce (
  requests: readonly (() => Promise<TestAnswer>)[],
  goOn: (transaction: TransactionSql, version: number) => Promise<unknown> = async () => {}
): Promise<TestAnswer[]> {
  let sent: Promise<TestAnswer>[] = []
  await own.begin(async (transaction) => {
    const version = (await lockPersons(transaction, [projectId])).get(projectId)!
    sent = requests.map((send) => send())
    await waitFor(async () => await countWaiting() === requests.length)
    await transaction`SELECT set_config('lock_timeout', '500ms', true)`
    await goOn(transaction, version)
  })
  return await Promise.all(sent)
}

const split = (uuid: string, ...ids: string[]) => async () =>
  await call('POST', `~/persons/${uuid}/split`, { distinct_ids: ids })
const undo = (uuid: string, event: string) => async () => await call('POST', `~/persons/${uuid}/undo_merge`, { event })
const erase = (id: string, anonymise = false) => async () =>
  await call('POST', '~/erasures', { distinct_ids: [id], anonymise })
const codes = (answers: readonly TestAnswer[]): unknown[] =>
  answers.map(({ status, body }) => body.code ?? status).sort()
const listRepairs = async (name: string): Promise<string[][]> =>
  (await sql<{ ids: string[] }[]>`SELECT distinct_ids AS ids FROM person_repairs WHERE distinct_ids && ${[name, `${name}-tab`]}`).map(({ ids }) => ids)
const personsFound = (answers: readonly TestAnswer[]): unknown[] =>
  answers.map(({ body }) => body.found.find(({ where }: { where: string }) => where === 'persons').count).sort()

t.test('one of two undos of a merge, and one of two splits of an id, is refused', async (t) => {
  const [ann, ben, cas] = [await insertPerson('ann'), await insertPerson('ben'), await insertPerson('cas')]
  const [first, second] = ann.merges as [string, string]
  const undone = sendAtOnce([undo(ann.uuid, first), undo(ann.uuid, first.toUpperCase()), undo(ann.uuid, second)])
  await waitFor(async () => (await listRepairs('ann')).length >= 2)
  const parted = sendAtOnce([split(ben.uuid, 'ben-tab'), split(ben.uuid, 'ben-tab', 'ben-pc')])
  await waitFor(async () => (await listRepairs('ben')).length === 2)
  // In this order.
  const both = [undo(cas.uuid, cas.merges[0]!)()]
  await waitFor(async () => (await listRepairs('cas')).length === 1)
  both.push(split(cas.uuid, 'cas-tab')())
  await waitFor(async () => (await listRepairs('cas')).length === 2)
  const persons = stores.start(INTERVALS)
  t.same(codes(await undone), [200, 200, 'already_undone'])
  t.match(await parted.then(codes), [200, 'not_repairable'])
  t.same(codes(await Promise.all(both)), [200, 'not_repairable'])
  t.match(await undo(ann.uuid, first)(), { status: 409, body: { code: 'already_undone', attr: 'event' } })
  await persons.stop()
})

t.test('a split leaves nothing of somebody who is erased, and goes on with the ids of somebody who is anonymised', async (t) => {
  const remove = (name: string) => async (transaction: TransactionSql, version: number) =>
    await removePersons(transaction, await findErased(transaction, projectId, [name]), version)
  const anonymise = (name: string) => async (transaction: TransactionSql, version: number) =>
    await anonymisePersons(transaction, await findErased(transaction, projectId, [name]), { sql, version, removed: [] })
  const dan = await insertPerson('dan')
  t.same(codes(await sendAtOnce([split(dan.uuid, 'dan-tab')], remove('dan'))), ['not_found'])
  t.same(await listRepairs('dan'), [])

  for (const { name, goOn, code } of [{ name: 'eve', goOn: remove('eve'), code: 'not_found' }, { name: 'fay', goOn: anonymise('fay'), code: 200 }]) {
    const { uuid } = await insertPerson(name)
    const asked = split(uuid, `${name}-tab`)()
    await waitFor(async () => (await listRepairs(name)).length === 1)
    const persons: PersonApplier[] = []
    const carryOut = async (): Promise<TestAnswer> => {
      persons.push(stores.start(INTERVALS))
      return await asked
    }
    const [answer] = await sendAtOnce([carryOut], goOn)
    await persons[0]?.stop()
    t.same(codes([answer!]), [code], name)
    t.same(await listRepairs(name), [])
    if (code !== 200) continue
    t.equal(answer!.body.persons.length, 2)
    t.notOk(JSON.stringify(answer!.body).includes(uuid), 'nor does it say who they were')
  }
})

t.test('of two erasures of somebody one finds the person; it is as of the erasure', async (t) => {
  await insertPerson('gus')
  await insertPerson('hal')
  await insertPerson('ida')
  const persons = stores.start(INTERVALS)
  t.teardown(async () => { await persons.stop() })
  t.same(personsFound(await sendAtOnce([erase('gus'), erase('gus-tab')])), [0, 1])
  t.same(personsFound(await sendAtOnce([erase('hal', true), erase('hal', true)])), [0, 1])

  // Another request has split an id off.
  let counts = 0
  const [erased] = await sendAtOnce([erase('ida')], async (transaction) => {
    onCount = async () => {
      counts++
      await t.resolves(own`SELECT FROM persons_projects WHERE project_id = ${projectId} FOR UPDATE NOWAIT`, 'nobody waits for ClickHouse')
    }
    return await transaction`
      WITH person AS (INSERT INTO persons (project_id, uuid) VALUES (${projectId}, ${personUuid(projectId, 'ida-tab')}) RETURNING id)
      UPDATE person_distinct_ids SET person_id = person.id FROM person WHERE project_id = ${projectId} AND distinct_id = 'ida-tab'`
  })
  t.equal(counts, 1, 'it counted again')
  t.same(erased!.body.distinct_ids.sort(), ['ida', 'ida-pc'])
  t.equal((await sql`SELECT 1 FROM person_distinct_ids WHERE distinct_id = 'ida-tab'`).length, 1)
})

t.test('somebody who keeps getting distinct ids is erased', async (t) => {
  await insertPerson('joy')
  const persons = stores.start(INTERVALS)
  t.teardown(async () => { await persons.stop() })
  onCount = async () => await sql`
    INSERT INTO person_distinct_ids (project_id, distinct_id, person_id)
    SELECT ${projectId}, ${randomUUID()}, person_id FROM person_distinct_ids WHERE project_id = ${projectId} AND distinct_id = 'joy'`
  const { status, body } = await erase('joy')()
  onCount = async () => {}
  t.equal(status, 200)
  t.equal(body.distinct_ids.length, 6)
  t.same([...await sql`SELECT distinct_id FROM person_distinct_ids WHERE project_id = ${projectId} AND distinct_id = ANY (${body.distinct_ids})`], [])
})

t.test('without NATS nothing is erased, so that the same request can be repeated', async (t) => {
  await insertPerson('kay')
  const persons = stores.start(INTERVALS)
  t.teardown(async () => { await persons.stop() })
  isNatsAway = true
  t.match(await erase('kay')(), { status: 503, body: { code: 'stream_unavailable' } })
  isNatsAway = false
  t.match((await erase('kay')()).body.distinct_ids.sort(), ['kay', 'kay-pc', 'kay-tab'])
})

t.test('what is being erased does not come back under a random id', async (t) => {
  const persons = stores.start(INTERVALS)
  t.teardown(async () => { await persons.stop() })
  // A message that no consumer has acknowledged yet.
  await jetstream(connection).publish(eventsSubject('live', 0), 'on its way')
  t.match((await erase('jim')()).body, { done_at: String })
  await client.insert({
    table: 'events', format: 'JSONEachRow',
    values: [{ project_id: projectId, uuid: randomUUID(), event: 'late', distinct_id: 'jim', timestamp: '2026-01-01 00:00:00', received_at: '2026-01-01 00:00:00', properties: '{}' }]
  })
  const anonymised = erase('jim', true)()
  await t.rejects(waitFor(async () => (await sql`SELECT 1 FROM person_deletions WHERE anonymised IS NOT NULL AND done_at IS NOT NULL AND swept_at IS NULL`).length > 0, { timeoutMs: 1000 }))
  await (await jetstreamManager(connection)).streams.purge(EVENTS_STREAM)
  t.match((await anonymised).body, { done_at: String })
  t.match(await queryRows(client, "SELECT count() AS n FROM events WHERE event = 'late'"), [{ n: '0' }])
})

t.test('who is deleted or split while events are still being anonymised does not come back, and loses nothing', async (t) => {
  const persons = stores.start(INTERVALS)
  t.teardown(async () => { await persons.stop() })
  const names = ['kim', 'lea', 'mia', 'ned']
  const uuids = new Map<string, string>()
  for (const name of names) {
    uuids.set(name, (await insertPerson(name)).uuid)
    const properties = JSON.stringify({ email: `${name}@example.com` })
    await client.insert({
      table: 'events', format: 'JSONEachRow',
      values: [{ project_id: projectId, uuid: randomUUID(), event: 'mailed', distinct_id: name, timestamp: '2026-01-01 00:00:00', received_at: '2026-01-01 00:00:00', properties }]
    })
  }
  // Their events are renamed after an earlier erasure, which waits for a message.
  await jetstream(connection).publish(eventsSubject('live', 0), 'on its way')
  t.match((await call('POST', '~/erasures', { events: { event: 'none' } })).body, { done_at: String })
  const readOpen = async () => await sql<{ ids: Record<string, string>, persons: Record<string, string> }[]>`
    SELECT anonymised->'ids' AS ids, anonymised->'persons' AS persons FROM person_deletions WHERE swept_at IS NULL AND filter IS NULL`
  const requests = names.map(async (name) => await erase(name, true)())
  await waitFor(async () => (await readOpen()).length === names.length)
  const by = Object.assign({}, ...(await readOpen()).flatMap(({ ids, persons }) => [ids, persons]))
  requests.push(
    call('DELETE', `~/persons/${by[uuids.get('kim')!]}?delete_events=true`),
    call('POST', '~/erasures', { events: { distinct_id: by.lea } }),
    call('POST', '~/erasures', { distinct_ids: [by.mia], anonymise: true, remove_properties: ['email'] }),
    split(by[uuids.get('ned')!], by['ned-tab'])()
  )
  const countOpen = async (): Promise<number> => (await sql`SELECT 1 FROM person_deletions WHERE swept_at IS NULL`).length
  await waitFor(async () => await countOpen() === 8)
  await t.rejects(waitFor(async () => await countOpen() < 8, { timeoutMs: 1000 }), 'each waits')
  await (await jetstreamManager(connection)).streams.purge(EVENTS_STREAM)
  t.same((await Promise.all(requests)).filter(({ status }) => status >= 300), [])
  await waitFor(async () => await countOpen() === 0 && (await sql`SELECT 1 FROM person_repairs WHERE done_at IS NULL AND error IS NULL`).length === 0)
  t.same(await queryRows(client, "SELECT event, properties FROM events WHERE event = 'mailed' ORDER BY properties DESC"), [
    { event: 'mailed', properties: '{}' }, { event: 'mailed', properties: '{"email":"ned@example.com"}' }
  ])
  const properties = sql`SELECT properties FROM persons JOIN person_distinct_ids AS own ON person_id = persons.id WHERE`
  t.match(await sql`${properties} distinct_id = ${by['ned-tab']}`, [{ properties: { plan: 'pro' } }])
  t.match(await sql`${properties} distinct_id = ${by.ned} AND persons.properties = '{}'`, [{}])
})
