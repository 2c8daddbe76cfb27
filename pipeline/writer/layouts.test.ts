import { jetstreamManager } from '@nats-io/jetstream'
import t from 'tap'
import { ROW_LAYOUT } from '../../schema/event-row.ts'
import { DEAD_LETTER_STREAM, EVENTS_STREAM, HEADER } from '../../schema/streams.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { encodePayload, makeEvents, publishEvents } from '../testing/publish-events.ts'
import { countEvents, startTestPartition, startTestStores, waitUntilStored } from '../testing/start-test-partition.ts'

/** What an earlier version may not have had. */
const LATER_COLUMNS = new Set(['lib_version', 'utm_campaign', 'feature_flag', 'feature_flag_response', 'ip'])

t.test('stores messages of an earlier layout, mixed with those of today, once each', async (t) => {
  const stores = await startTestStores(t)
  const again = makeEvents(10, () => ({ ip: '10.0.0.1', lib: 'web' }))

  for (let i = 0; i < 5; i++) {
    const old = i === 0 ? again : makeEvents(10, () => ({ ip: '10.0.0.1', lib: 'web' }))
    await publishEvents(stores.connection, old, {
      headers: { [HEADER.layout]: String(ROW_LAYOUT - 1) },
      payload: encodePayload(old, (name) => !LATER_COLUMNS.has(name))
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

t.test('waits with a message of a later layout, instead of setting it aside', async (t) => {
  const stores = await startTestStores(t)
  const manager = await jetstreamManager(stores.connection)
  await publishEvents(stores.connection, makeEvents(10))
  await publishEvents(stores.connection, makeEvents(10), { headers: { [HEADER.layout]: String(ROW_LAYOUT + 1) } })
  await publishEvents(stores.connection, makeEvents(10))
  const partition = await startTestPartition(t, stores)

  await waitFor(() => partition.state.phase === 'failing')
  t.match(partition.state.lastError, /newer than this process/)
  await partition.stop()

  t.equal((await countEvents(stores)).rows, 10, 'what came before is stored')
  t.equal((await manager.streams.info(EVENTS_STREAM)).state.messages, 2, 'the others wait')
  t.equal((await manager.streams.info(DEAD_LETTER_STREAM)).state.messages, 0)
})
