import { randomUUID } from 'node:crypto'
import t from 'tap'
import { queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { readStoredEvent } from '../../api/events/receipts/stored-events.ts'
import { readTraces } from '../../api/events/receipts/read-traces.ts'
import { HEADER } from '../../schema/wire/streams.ts'
import { makeEvent, makeEvents, publishEvents } from '../../pipeline/testing/publish-events.ts'
import { silentLogger, startTestPartition, startTestStores, waitUntilStored } from '../../pipeline/testing/start-test-partition.ts'
import { createRecordDuplicates } from '../../pipeline/events/duplicates/record-duplicates.ts'

const from = (process: string): { headers: Record<string, string> } => ({ headers: { [HEADER.request]: `${process}-7` } })

t.test('remembers what came again, and every row its insert; a batch range that is repeated changes nothing', async (t) => {
  const stores = await startTestStores(t)
  const { client } = stores.clickhouse
  const recorded = createRecordDuplicates({ clickhouse: client, logger: silentLogger })
  const first = await startTestPartition(t, stores, {
    store: {
      async recordDuplicates (...args) {
        await recorded(...args)
        // As a process that dies here: the next one finds the batch range in the record.
        if (args[2].deduplicated.length > 0) throw new Error('died before it acknowledged')
      }
    }
  })
  const [once, twice] = [makeEvent(), makeEvent()]
  const sequence = await publishEvents(stores.connection, [once, twice], from('aaaaaaaaaaaa'))
  await waitUntilStored(stores)
  const again = await publishEvents(stores.connection, [...makeEvents(3), twice, twice], from('bbbbbbbbbbbb'))
  await t.resolves(first.stop())

  await startTestPartition(t, stores)
  await waitUntilStored(stores)

  const query = { projectId: 1, uuid: twice.uuid }
  const stored = await readStoredEvent(query, client)
  t.match(stored, { partition: 'live.0', first_sequence: sequence, last_sequence: sequence, received_by: ['aaaaaaaaaaaa'] })
  const [traces, none] = await readTraces({ projectId: 1, uuids: [twice.uuid, once.uuid] }, client)
  t.match(traces?.duplicates, { count: 2, last: [{ sequence: again, received_by: 'bbbbbbbbbbbb', partition: 'live.0' }, { sequence: again }] })
  t.match(none?.duplicates, { count: 0, last: [] })
  t.same(await queryRows(client, 'SELECT toUInt32(count()) AS rows FROM events'), [{ rows: 5 }])
})

t.test('remembers a bounded number a minute', async (t) => {
  const stores = await startTestStores(t)
  const { client } = stores.clickhouse
  await startTestPartition(t, stores, {
    store: {
      recordDuplicates: createRecordDuplicates({
        clickhouse: client, logger: silentLogger, now: () => 1_800_000_000_000
      })
    }
  })
  const events = makeEvents(1500, () => ({ uuid: randomUUID() }))
  for (let time = 0; time < 3; time++) {
    await publishEvents(stores.connection, events)
    await waitUntilStored(stores)
  }

  t.same(await queryRows(client, 'SELECT toUInt32(count()) AS rows FROM event_traces'), [{ rows: 1000 }])
  t.same(await queryRows(client, 'SELECT toUInt32(count()) AS rows FROM events'), [{ rows: 1500 }])
})
