import { jetstreamManager } from '@nats-io/jetstream'
import { pino } from 'pino'
import { parseClickHouseUrl } from '../../platform/clickhouse/connect-clickhouse.ts'
import { connectNats, type NatsConnection } from '../../platform/nats/connect-nats.ts'
import { ensureStreams } from '../../platform/nats/prepare-jetstream.ts'
import { EVENTS_STREAM } from '../../schema/wire/streams.ts'
import { createTestClickHouse, type TestClickHouse } from '../../test/support/test-stores.ts'
import { startTestNats, type TestNats } from '../../test/support/test-processes.ts'
import type { TestContext } from '../../test/support/test-context.ts'
import { PATIENCE_MS, waitFor } from '../../test/support/wait-for.ts'
import { createInsertLedgerRows } from '../accounting/ledger-writer.ts'
import { createPipelineMetrics } from '../pipeline-metrics.ts'
import { partitionKey, type Partition } from '../stream/find-partitions.ts'
import { openPartitionRecords } from '../stream/partition-records.ts'
import { TEST_KEY } from './publish-events.ts'
import { PartitionState } from '../stream/partition-state.ts'
import { createDuplicateFilters } from '../events/duplicates/duplicate-filter.ts'
import { createRecordDuplicates } from '../events/duplicates/record-duplicates.ts'
import { createClickHouseAgent, createInsertFrames } from '../events/insert/insert-frames.ts'
import { insertPastViews, type PastViewsDeps } from '../events/insert/insert-past-views.ts'
import { createIsInserting, createReadTarget } from '../events/insert/insert-target.ts'
import { createProbeTable } from '../events/insert/store-batch-range.ts'
import type { EventStore } from '../events/session-deps.ts'
import { type PartitionDeps, runEventsPartition } from '../events/events-partition.ts'

export interface TestStores {
  nats: TestNats
  connection: NatsConnection
  clickhouse: TestClickHouse
}

export const silentLogger = pino({ level: process.env.MILLRACE_TEST_LOG_LEVEL ?? 'silent' })

/** Starts the stores of one test: NATS with the streams, and a ClickHouse database. */
export async function startTestStores (
  t: TestContext, limits: { deadLetterMaxBytes?: number } = {}
): Promise<TestStores> {
  const [nats, clickhouse] = await Promise.all([startTestNats(t), createTestClickHouse(t)])
  const connection = await connectNats({ url: nats.url, name: 'test', logger: silentLogger })
  t.teardown(() => connection.close())
  await ensureStreams(connection, {
    replicas: 1, eventsMaxBytes: 1e9, deadLetterMaxBytes: limits.deadLetterMaxBytes ?? 1e8
  })
  return { nats, connection, clickhouse }
}

export interface TestPartition {
  state: PartitionState
  /** Stops it as SIGTERM does; resolves when the partition is released. */
  stop: () => Promise<void>
  /** Ends it without a word, as near to a crash as one process allows. */
  abort: () => Promise<void>
}

/** Runs the writer of one partition inside the test. */
export async function startTestPartition (
  t: TestContext, { connection, clickhouse }: TestStores,
  { store, onViewFailure = () => {}, ...overrides }: Omit<Partial<PartitionDeps>, 'store'> &
    { store?: Partial<EventStore>, onViewFailure?: PastViewsDeps['onFailure'] } = {}
): Promise<TestPartition> {
  const stop = new AbortController()
  const abort = new AbortController()
  const partition: Partition = overrides.partition ?? { eventClass: 'live', number: 0 }
  const state = new PartitionState(partitionKey(partition))
  const metrics = createPipelineMetrics(() => [state])
  const agent = createClickHouseAgent()
  const running = runEventsPartition({
    partition,
    state,
    owner: 'test',
    connection,
    records: await openPartitionRecords(connection, { replicas: 1 }),
    store: {
      insertFrames: insertPastViews(createInsertFrames({ url: clickhouse.url, agent }), {
        clickhouse: clickhouse.client, cluster: '', database: parseClickHouseUrl(clickhouse.url).database, onFailure: onViewFailure
      }),
      readTarget: createReadTarget(clickhouse.client, ''),
      isInserting: createIsInserting(clickhouse.client, ''),
      insertLedgerRows: createInsertLedgerRows(clickhouse.client),
      probeTable: createProbeTable(clickhouse.client),
      recordDuplicates: createRecordDuplicates({ clickhouse: clickhouse.client, logger: silentLogger }),
      ...store
    },
    limits: { maxRows: 100_000, maxBytes: 16_777_216, maxAgeMs: 50 },
    metrics,
    logger: silentLogger,
    isAlive: () => false,
    duplicateFilters: createDuplicateFilters({
      clickhouse: clickhouse.client, fingerprintKey: async () => TEST_KEY, metrics, logger: silentLogger
    }),
    stop: stop.signal,
    abort: abort.signal,
    giveUp: abort.signal,
    ...overrides
  })
  const end = async (): Promise<void> => {
    stop.abort()
    await running
    agent.destroy()
  }
  t.teardown(end)
  return { state, stop: end, abort: async () => { abort.abort(); await end() } }
}

/** Waits until every published message is acknowledged: the work queue is empty then. */
export async function waitUntilStored ({ connection }: TestStores, timeoutMs = PATIENCE_MS): Promise<void> {
  const manager = await jetstreamManager(connection)
  await waitFor(async () => (await manager.streams.info(EVENTS_STREAM)).state.messages === 0, { timeoutMs })
}

/** Counts as an analyst does, and by every other way that must agree. */
export async function countEvents ({ clickhouse }: TestStores): Promise<{
  rows: number, uuids: number, volume: number, properties: number
}> {
  const result = await clickhouse.client.query({
    query: `SELECT
      (SELECT count() FROM events) AS rows,
      (SELECT uniqExact(uuid) FROM events) AS uuids,
      (SELECT sum(volume) FROM event_volumes) AS volume,
      (SELECT sum(count) FROM event_properties WHERE property = 'amount') AS properties`,
    format: 'JSONEachRow'
  })
  const [row] = await result.json<Record<string, string>>()
  return {
    rows: Number(row!.rows), uuids: Number(row!.uuids), volume: Number(row!.volume), properties: Number(row!.properties)
  }
}
