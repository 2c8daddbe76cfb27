import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { PROJECT_KEY, startTestIngest, type TestIngest } from '../../ingest/testing/start-test-ingest.ts'
import { storeWarnings } from '../../pipeline/accounting/store-warnings.ts'
import {
  silentLogger as logger, startTestPartition, type TestPartition, type TestStores, waitUntilStored
} from '../../pipeline/testing/start-test-partition.ts'
import { startDeletions } from '../../pipeline/persons/deletion/run-deletions.ts'
import { deletePerson } from '../../api/persons/delete-person.ts'
import { personUuid } from '../../schema/wire/identity.ts'
import type { Receipt } from '../../api/events/receipts/describe-receipt.ts'
import { findReceipt } from '../../api/events/receipts/find-receipt.ts'
import { setRetention } from '../../api/projects/retention-routes.ts'
import { createTestClickHouse } from '../support/test-stores.ts'
import { PATIENCE_MS } from '../support/wait-for.ts'

/** Receipts asked for at a time. */
const AT_ONCE = 8

/** Uuids of version 7 are made at this time. */
const LONG_AGO = Date.UTC(2020, 0, 1)

t.test('every event gets the right receipt, whatever became of it', async (t) => {
  const stores = await startStores(t)
  const { ingest, clickhouse: { client } } = stores
  const { sql } = ingest.postgres
  const partition = await startPartitions(t, stores)
  await client.command({ query: "ALTER TABLE events ADD CONSTRAINT of_test CHECK event != 'refused'" })
  await setRetention(sql, { what: 'events', projectId: null, days: 365 })

  const [stored, repeated, refused, dropped, deleted] =
    [makeUuids(12), makeUuids(8), makeUuids(4), makeUuids(8), makeUuids(6)] as const
  await send(ingest, [
    ...toEvents(stored), ...toEvents(repeated), ...toEvents(refused, 'refused'), ...toEvents(dropped, ''),
    ...toEvents(deleted, 'e', 'forgotten')
  ])
  await waitUntilStored(stores)
  await storeWarnings({ connection: ingest.connection, clickhouse: client, logger })
  for (let time = 0; time < 3; time++) await send(ingest, toEvents(repeated))
  await sql`INSERT INTO persons (project_id, uuid) VALUES (1, ${personUuid(1, 'forgotten')})`
  await waitUntilStored(stores)
  const deletions = startDeletions({ sql, clickhouse: client, connection: ingest.connection, logger })
  t.match(await deletePerson({ projectId: 1, uuid: personUuid(1, 'forgotten'), withEvents: true }, { sql, clickhouse: client, waitMs: PATIENCE_MS }), { isDone: true })
  await deletions.stop()
  for (const each of partition) await each.stop()
  const waiting = makeUuids(8)
  await send(ingest, toEvents(waiting))

  const neverSent = makeUuids(6)
  const tooOld = Array.from({ length: 6 }, () => makeUuidV7(LONG_AGO))
  const expected: [fate: Receipt['fate'], uuids: readonly string[]][] = [
    ['stored', stored], ['stored', repeated], ['dead_letter', refused], ['dropped', dropped], ['deleted', deleted],
    ['waiting', waiting], ['unknown', neverSent], ['deleted', tooOld]
  ]
  const ask = async (uuid: string): Promise<Receipt> => await findReceipt({ projectId: 1, uuid }, {
    clickhouse: client, nats: async (each) => await each(ingest.connection), sql: () => sql, now: Date.now
  })
  const receipts = new Map<string, Receipt>()
  for (const [fate, uuids] of expected) {
    for (const [uuid, receipt] of await askAll(uuids, ask)) receipts.set(uuid, receipt)
    t.same(uuids.map((uuid) => receipts.get(uuid)?.fate).filter((found) => found !== fate), [], `${uuids.length} are ${fate}`)
  }

  const processes = new Set([...stored, ...repeated].map((uuid) => insertOf(receipts.get(uuid))))
  t.equal(processes.size, 1, 'one ingest process received all')
  t.match([...processes][0], /^[0-9a-f]{12}$/)
  t.same(repeated.filter((uuid) => timesAgain(receipts.get(uuid)) !== 3), [], 'how often it came again')
  t.same(stored.filter((uuid) => timesAgain(receipts.get(uuid)) !== 0), [])
  t.match(receipts.get(dropped[0]!), { dropped: { reason: 'missing_event_name', received_by: [...processes][0] } })
  t.match(receipts.get(deleted[0]!), { deleted: { why: 'person', was_stored: true } })
  t.match(receipts.get(tooOld[0]!), { deleted: { why: 'retention', was_stored: null } })
  t.match(receipts.get(waiting[0]!), { waiting: { distinct_id: 'd', received_by: [...processes][0] } })
})

type Stores = TestStores & { ingest: TestIngest }

async function startStores (t: Test): Promise<Stores> {
  const [ingest, clickhouse] = await Promise.all([startTestIngest(t), createTestClickHouse(t)])
  return { ingest, clickhouse, nats: ingest.nats, connection: ingest.connection }
}

async function startPartitions (t: Test, stores: Stores): Promise<TestPartition[]> {
  return await Promise.all((['live', 'historical'] as const).map(async (eventClass) =>
    await startTestPartition(t, stores, { partition: { eventClass, number: 0 } })))
}

function makeUuids (count: number): string[] {
  return Array.from({ length: count }, (_, index) => index % 2 === 0 ? randomUUID() : makeUuidV7(Date.now()))
}

function makeUuidV7 (epochMs: number): string {
  const time = epochMs.toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
}

function toEvents (uuids: readonly string[], event = 'e', distinctId = 'd'): object[] {
  return uuids.map((uuid) => ({ event, uuid, distinct_id: distinctId }))
}

async function send (ingest: TestIngest, batch: readonly object[]): Promise<void> {
  const { status } = await ingest.post('/batch/', { api_key: PROJECT_KEY, batch })
  if (status !== 200) throw new Error(`ingest answered ${status}`)
}

async function askAll (
  uuids: readonly string[], ask: (uuid: string) => Promise<Receipt>
): Promise<[string, Receipt][]> {
  const answers: [string, Receipt][] = []
  for (let from = 0; from < uuids.length; from += AT_ONCE) {
    answers.push(...await Promise.all(uuids.slice(from, from + AT_ONCE)
      .map(async (uuid): Promise<[string, Receipt]> => [uuid, await ask(uuid)])))
  }
  return answers
}

function insertOf (receipt: Receipt | undefined): string {
  return receipt?.fate === 'stored' ? String(receipt.stored?.received_by) : ''
}

function timesAgain (receipt: Receipt | undefined): number {
  return receipt?.duplicates?.count ?? Number.NaN
}
