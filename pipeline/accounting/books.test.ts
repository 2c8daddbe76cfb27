import t, { type Test } from 'tap'
import { checkBooks, countStored, type Drift } from './check-books.ts'
import type { LedgerSpan } from './read-books.ts'
import { announceRemoval, beginRemoval, completeRemoval, startRemoval } from '../persons/deletion/event-removals.ts'
import { personUuid } from '../../schema/wire/identity.ts'
import { createTestPostgres } from '../../test/support/test-stores.ts'
import { replayDeadLetters } from '../../platform/dead-letters/replay-and-purge.ts'
import { minuteOfReceipt } from '../../schema/wire/ledger.ts'
import { openBucket } from '../../platform/nats/prepare-jetstream.ts'
import { HEADER, PARTITIONS_BUCKET } from '../../schema/wire/streams.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { makeEvents, publishEvents } from '../testing/publish-events.ts'
import { silentLogger, startTestPartition, startTestStores, type TestStores, waitUntilStored } from '../testing/start-test-partition.ts'
import { MissingCounter } from '../health/count-missing.ts'
import { createPipelineMetrics } from '../pipeline-metrics.ts'
import { newPartitionRecord, openPartitionRecords } from '../stream/partition-records.ts'
import { createDriftCheck } from './check-drift.ts'

function spanNow (): LedgerSpan {
  const minute = minuteOfReceipt(Date.now())
  return { from: minute - 60, to: minute + 5 }
}

async function findDrift (t: Test, { connection, clickhouse }: TestStores): Promise<Drift[]> {
  const deps = { connection, clickhouse: clickhouse.client, cluster: '' }
  const { drift, unsettled, books } = await checkBooks(deps, spanNow(), {
    settleMs: 30_000, countStored: async (span) => await countStored(deps, span)
  })
  t.equal(unsettled, 0)
  t.ok(books.openedAt <= minuteOfReceipt(Date.now()), 'this minute is compared')
  return drift
}

async function readLedger ({ clickhouse }: TestStores): Promise<Record<string, number>[]> {
  const result = await clickhouse.client.query({
    query: `SELECT project_id, sum(accepted) AS accepted, sum(replayed) AS replayed, sum(duplicates) AS duplicates,
      sum(dead_lettered) AS dead_lettered, sum(balance) AS balance FROM ledger GROUP BY project_id ORDER BY project_id`,
    format: 'JSONEachRow'
  })
  const rows = await result.json<Record<string, string>>()
  return rows.map((row) => Object.fromEntries(Object.entries(row).map(([name, value]) => [name, Number(value)])))
}

t.test('the books balance through duplicates, dead letters, pieces and a takeover', async (t) => {
  const stores = await startTestStores(t)
  const { connection, clickhouse: { client } } = stores
  await client.command({ query: "ALTER TABLE events ADD CONSTRAINT poison CHECK event != 'poison'" })
  const hourAgo = Date.now() - 3_000_000
  const events = makeEvents(60, (index) => ({
    project_id: 1 + index % 2,
    event: index === 7 ? 'poison' : 'order paid',
    received_at: index % 3 === 0 ? hourAgo : Date.now()
  }))
  const first = await startTestPartition(t, stores)
  // What it finds is kept beside the partitions' records, and is no partition.
  const [records, bucket] = await Promise.all([
    openPartitionRecords(connection, { replicas: 1 }), openBucket(connection, PARTITIONS_BUCKET, { replicas: 1 })
  ])
  await waitFor(async () => await new MissingCounter({ connection, records, bucket }).count() !== null)
  t.not(await bucket.get('missing'), null)

  await publishEvents(connection, events)
  await publishEvents(connection, [...events.slice(20, 50), ...makeEvents(5, () => ({ project_id: 2 }))])
  // As versions before did, and a message that is no frame.
  await publishEvents(connection, makeEvents(7), { headers: { [HEADER.accepted]: '' } })
  const broken = makeEvents(3, () => ({ project_id: 3 }))
  await publishEvents(connection, broken, { payload: Buffer.alloc(100, 'garbage') })
  await waitUntilStored(stores)
  t.same(await findDrift(t, stores), [])

  const load = (async () => {
    for (let i = 0; i < 40; i++) {
      await publishEvents(connection, makeEvents(20, (index) => ({ project_id: 1 + index % 2 })))
    }
  })()
  // It may be in the middle of anything.
  await first.abort()
  const next = await startTestPartition(t, stores, { owner: 'next' })
  t.same(await findDrift(t, stores), [], 'also while events are on their way')
  await load
  await waitUntilStored(stores)
  t.same(await findDrift(t, stores), [])

  await client.command({ query: 'ALTER TABLE events DROP CONSTRAINT poison' })
  t.match(await replayDeadLetters(connection, {}), { replayed: 2 })
  await waitUntilStored(stores)
  t.same(await findDrift(t, stores), [], 'one is stored, the broken message is a dead letter again')

  const removals = { clickhouse: client, sql: (await createTestPostgres(t)).sql }
  const params = { project: 1, uuids: [personUuid(1, 'user-1')], requested: hourAgo }
  const removal = (await beginRemoval(removals, 'person:1', { kind: 'person', params }))!
  t.equal(await announceRemoval(removals, removal), 10)
  t.same(await findDrift(t, stores), [], 'before a removal begins')
  await startRemoval(removals, removal, { marks: false })
  t.same(await findDrift(t, stores), [], 'during a removal')
  await waitFor(async () => await completeRemoval(removals, removal))
  t.same(await findDrift(t, stores), [], 'after a removal')

  await next.stop()
  t.same(await readLedger(stores), [
    { project_id: 1, accepted: 452, replayed: 0, duplicates: 15, dead_lettered: 0, balance: 427 },
    { project_id: 2, accepted: 450, replayed: 1, duplicates: 15, dead_lettered: 1, balance: 435 },
    { project_id: 3, accepted: 3, replayed: 3, duplicates: 0, dead_lettered: 6, balance: 0 }
  ])

  // In minutes of their own: a row too many and one too few of the same minute are no difference.
  const [removed, masked] = [events[1]!, events[5]!]
  const { metrics } = createPipelineMetrics(() => [])
  const checkDrift = createDriftCheck({
    connection, clickhouse: client, cluster: '', metrics, logger: silentLogger, now: Date.now, isChecker: () => true
  })
  const readDrift = async (): Promise<string> => await metrics.registry.getSingleMetricAsString('millrace_ledger_drift_events')
  t.match(await readDrift(), /missing"\} 0\n.*extra"\} 0$/)

  await client.command({
    query: 'INSERT INTO events SELECT * REPLACE(generateUUIDv4() AS uuid) FROM events WHERE project_id = 1 LIMIT 2'
  })
  await client.command({ query: `ALTER TABLE events DELETE WHERE uuid = '${removed.uuid}' SETTINGS mutations_sync = 2` })
  await client.command({ query: `DELETE FROM events WHERE uuid = '${masked.uuid}'` })
  await waitFor(async () => {
    await checkDrift()
    return /missing"\} 2\n.*extra"\} 2$/.test(await readDrift())
  })
  const drift = await findDrift(t, stores)
  t.equal(drift.reduce((sum, { extra }) => sum + extra, 0), 2, 'rows that were added by hand')
  t.equal(drift.reduce((sum, { missing }) => sum + missing, 0), 2, 'rows that were removed by hand')

  await records.replace({ eventClass: 'live', number: 9 }, newPartitionRecord('another', Date.now() + 7_200_000), 0)
  const checkBlind = createDriftCheck({
    connection, clickhouse: client, cluster: '', metrics: createPipelineMetrics(() => []).metrics, logger: silentLogger,
    now: Date.now, isChecker: () => true
  })
  await t.rejects(checkBlind(), { code: 'MILLRACE_LEDGER_NOT_COMPARED', message: /books of live\.9 are/ })
})
