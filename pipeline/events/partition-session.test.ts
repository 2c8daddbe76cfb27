import { jetstreamManager } from '@nats-io/jetstream'
import t from 'tap'
import { ROW_LAYOUT } from '../../schema/wire/event-row.ts'
import { DEAD_LETTER_STREAM, EVENTS_STREAM, HEADER } from '../../schema/wire/streams.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { encodePayload, makeEvents, publishEvents } from '../testing/publish-events.ts'
import { countEvents, startTestPartition, startTestStores, waitUntilStored } from '../testing/start-test-partition.ts'
import { createDuplicateFilter, type DuplicateFilter } from './duplicates/duplicate-filter.ts'
import { FingerprintMemory } from './duplicates/fingerprint-memory.ts'
import { createLookUpEvents } from './duplicates/look-up-events.ts'

t.test('stores published events once, and acknowledges them', async (t) => {
  const stores = await startTestStores(t)
  const partition = await startTestPartition(t, stores)

  for (let i = 0; i < 20; i++) await publishEvents(stores.connection, makeEvents(50))
  await waitUntilStored(stores)

  t.same(await countEvents(stores), { rows: 1000, uuids: 1000, volume: 1000, properties: 1000 })
  await partition.stop()
})

t.test('counts an event once that SDKs send again: in another message, in the same one, and to a new owner', async (t) => {
  const stores = await startTestStores(t)
  const first = await startTestPartition(t, stores)
  const events = makeEvents(100)

  await publishEvents(stores.connection, events)
  await waitUntilStored(stores)
  await publishEvents(stores.connection, [...events, ...makeEvents(1)])
  const twice = makeEvents(10)
  await publishEvents(stores.connection, [...twice, ...twice])
  await publishEvents(stores.connection, twice)
  await waitUntilStored(stores)
  await first.stop()
  await publishEvents(stores.connection, [...events, ...makeEvents(1)])
  await startTestPartition(t, stores, { owner: 'another' })
  await waitUntilStored(stores)

  t.same(await countEvents(stores), { rows: 112, uuids: 112, volume: 112, properties: 112 })
})

t.test('leaves a partition alone while its owner is alive, and lets go of one that another process took', async (t) => {
  const stores = await startTestStores(t)
  const isAlive = (): boolean => true
  const first = await startTestPartition(t, stores, { owner: 'first', isAlive })
  await publishEvents(stores.connection, makeEvents(10))
  await waitUntilStored(stores)

  const polite = await startTestPartition(t, stores, { owner: 'polite', isAlive })
  await waitFor(() => polite.state.phase === 'standby')
  t.equal(first.state.phase, 'running')
  const second = await startTestPartition(t, stores, { owner: 'second', isAlive: () => false })
  await waitFor(() => second.state.phase === 'running')
  for (let i = 0; i < 10; i++) await publishEvents(stores.connection, makeEvents(10))
  await waitFor(() => first.state.phase === 'standby')
  await waitUntilStored(stores)

  t.same(await countEvents(stores), { rows: 110, uuids: 110, volume: 110, properties: 110 })
})

t.test('keeps different events that share a uuid', async (t) => {
  const stores = await startTestStores(t)
  await startTestPartition(t, stores)
  const [event] = makeEvents(1)

  await publishEvents(stores.connection, [event!, { ...event!, event: 'other' }])
  await publishEvents(stores.connection, [{ ...event!, distinct_id: 'user-2' }, event!])
  await waitUntilStored(stores)

  t.match(await countEvents(stores), { rows: 3, uuids: 1, volume: 3 })
})

t.test('looks an old uuid up that the memory does not cover', async (t) => {
  const stores = await startTestStores(t)
  const [event] = makeEvents(1, () => ({ uuid: '018bcfe5-6800-7000-8000-000000000001' }))
  const lookUps: number[] = []
  const lookUpEvents = createLookUpEvents(stores.clickhouse.client)
  const open = async (): Promise<DuplicateFilter> => createDuplicateFilter({
    memory: new FingerprintMemory(Date.now()), lookUpEvents, onLookUp: (rows) => lookUps.push(rows)
  })
  const duplicateFilters = { open, close: () => {} }
  const first = await startTestPartition(t, stores, { duplicateFilters })
  await publishEvents(stores.connection, [event!], { headers: { [HEADER.received]: String(Date.now() + 1000) } })
  await waitUntilStored(stores)

  await first.stop()

  await startTestPartition(t, stores, { owner: 'another', duplicateFilters })
  await publishEvents(stores.connection, [event!, ...makeEvents(1)], {
    headers: { [HEADER.received]: String(Date.now() + 1000), [HEADER.oldestUuid]: '1700000000000' }
  })
  await waitUntilStored(stores)

  t.same(await countEvents(stores), { rows: 2, uuids: 2, volume: 2, properties: 2 })
  t.same(lookUps, [1])
})

t.test('an insert names the requests of its events to the query log of ClickHouse', async (t) => {
  const stores = await startTestStores(t)
  const { client } = stores.clickhouse
  const request = `request-${crypto.randomUUID()}`
  // The log of the embedded ClickHouse has inserts that failed.
  const payload = Buffer.alloc(100)
  const headers = { [HEADER.request]: request }
  const sequence = await publishEvents(stores.connection, makeEvents(1), { payload, headers })
  await startTestPartition(t, stores)
  await waitUntilStored(stores)

  await client.command({ query: 'SYSTEM FLUSH LOGS' })
  const result = await client.query({
    query: 'SELECT log_comment FROM chdb_server.query_log WHERE log_comment LIKE {request: String}',
    query_params: { request: `%${request}` },
    format: 'JSONEachRow'
  })

  const [logged] = await result.json<{ log_comment: string }>()
  t.equal(logged?.log_comment.replace(/^[^:]*/, ''), `:live.0:${sequence}-${sequence} requests ${request}`)
})

/** What an earlier version may not have had. */
const LATER_COLUMNS = new Set(['lib_version', 'utm_campaign', 'feature_flag', 'feature_flag_response', 'ip'])

t.test('stores messages of an earlier layout, mixed with those of today, once each', async (t) => {
  const stores = await startTestStores(t)
  const again = makeEvents(10, () => ({ ip: '10.0.0.1', lib: 'web' }))

  for (let i = 0; i < 5; i++) {
    const old = i === 0 ? again : makeEvents(10, () => ({ ip: '10.0.0.1', lib: 'web' }))
    await publishEvents(stores.connection, old, {
      headers: { [HEADER.layout]: String(ROW_LAYOUT - 1) },
      payload: encodePayload(old, { columns: (name) => !LATER_COLUMNS.has(name) })
    })
    await publishEvents(stores.connection, makeEvents(10, () => ({ ip: '10.0.0.2', lib: 'web' })))
  }
  // Sent a second time, to an ingest process that was upgraded in between.
  await publishEvents(stores.connection, [...again, ...makeEvents(1, () => ({ ip: '10.0.0.2', lib: 'web' }))])
  await startTestPartition(t, stores)
  await waitUntilStored(stores)

  t.same(await countEvents(stores), { rows: 101, uuids: 101, volume: 101, properties: 101 })
  const result = await stores.clickhouse.client.query({
    query: 'SELECT ip, lib, count() AS n FROM events GROUP BY ALL ORDER BY ALL', format: 'JSONEachRow'
  })
  t.match(await result.json(), [{ ip: '', lib: 'web', n: 50 }, { ip: '10.0.0.2', lib: 'web', n: 51 }])
})

t.test('waits with a message of a later layout, instead of dead-lettering it', async (t) => {
  const stores = await startTestStores(t)
  const manager = await jetstreamManager(stores.connection)
  await publishEvents(stores.connection, makeEvents(10))
  await publishEvents(stores.connection, makeEvents(10), { headers: { [HEADER.layout]: String(ROW_LAYOUT + 1) } })
  await publishEvents(stores.connection, makeEvents(10))
  const partition = await startTestPartition(t, stores)

  await waitFor(() => partition.state.phase === 'failing')
  t.match(partition.state.lastError, /supports layouts up to/)
  await partition.stop()

  t.equal((await countEvents(stores)).rows, 10, 'what came before is stored')
  t.equal((await manager.streams.info(EVENTS_STREAM)).state.messages, 2, 'the others wait')
  t.equal((await manager.streams.info(DEAD_LETTER_STREAM)).state.messages, 0)
})
