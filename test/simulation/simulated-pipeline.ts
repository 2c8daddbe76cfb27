/** A process of the pipeline that writes events, put together as `pipeline/main.ts` does it, on simulated stores. */
import type { KV, KvWatchEntry } from '@nats-io/kv'
import { createLogger, type Logger } from '../../platform/logger.ts'
import { createDuplicateFilters } from '../../pipeline/events/duplicates/duplicate-filter.ts'
import { createRecordDuplicates } from '../../pipeline/events/duplicates/record-duplicates.ts'
import { createProbeTable } from '../../pipeline/events/insert/store-batch-range.ts'
import { runEventsPartition } from '../../pipeline/events/events-partition.ts'
import { createInsertLedgerRows } from '../../pipeline/accounting/ledger-writer.ts'
import { WatermarkKeeper } from '../../pipeline/accounting/keep-watermark.ts'
import { createPipelineMetrics } from '../../pipeline/pipeline-metrics.ts'
import { choosePartitionOwner, findPartitions } from '../../pipeline/stream/find-partitions.ts'
import { Membership } from '../../pipeline/stream/membership.ts'
import { openPartitionRecords } from '../../pipeline/stream/partition-records.ts'
import { PartitionSupervisor } from '../../pipeline/stream/partition-supervisor.ts'
import { TEST_KEY } from '../../pipeline/testing/publish-events.ts'
import { openBucket } from '../../platform/nats/prepare-jetstream.ts'
import { retryAtStart } from '../../pipeline/stream/retry-at-start.ts'
import { INGEST_BUCKET } from '../../schema/wire/ingest-presence.ts'
import { MEMBERS_BUCKET } from '../../schema/wire/streams.ts'
import type { FakeClickHouse } from './fake-clickhouse.ts'
import { type FakeConnection, newPushed } from './fake-connection.ts'
import { startSimulatedPersons } from './simulated-persons.ts'
import type { VirtualProcess, World } from './virtual-time.ts'

const LIMITS = { maxRows: 12, maxBytes: 1_000_000, maxAgeMs: 100 }

/** Rounds of the watermark, in milliseconds: at the rate of a real one, most of what happens would be that. */
const WATERMARK_ROUND_MS = 500

/** Counters that no simulated process reads; all share them, as making them takes longer than a world. */
const metrics = createPipelineMetrics(() => [])
const silent = createLogger({ component: 'simulation', level: 'silent' })

export interface SimulatedPipelineDeps {
  owner: VirtualProcess
  connection: FakeConnection
  clickhouse: FakeClickHouse
  partitions: number
  /** Whether it applies changes of persons. */
  hasPersons: boolean
}

/** @returns how to end it as SIGTERM does. */
export async function startSimulatedPipeline (
  world: World, { owner, connection, clickhouse, partitions, hasPersons }: SimulatedPipelineDeps
): Promise<() => Promise<void>> {
  const logger = createTracingLogger(world)
  const nats = connection.asNats()
  const client = clickhouse.clientOf(owner)
  const records = await retryAtStart(() => openPartitionRecords(nats, { replicas: 1 }), logger)
  const openOne = async (name: string): Promise<KV> =>
    await retryAtStart(() => openWatchedBucket(connection, name), logger)
  const membership = new Membership(owner.name, await openOne(MEMBERS_BUCKET), logger)
  await retryAtStart(() => membership.join(), logger)
  const filters = createDuplicateFilters({ clickhouse: client, fingerprintKey: async () => TEST_KEY, metrics, logger })
  const deps = {
    owner: membership.id,
    connection: nats,
    records,
    limits: LIMITS,
    logger,
    metrics,
    store: {
      insertFrames: clickhouse.insertFramesOf(owner),
      readTarget: clickhouse.readTarget,
      isInserting: async () => clickhouse.unanswered > 0,
      insertLedgerRows: createInsertLedgerRows(client),
      probeTable: createProbeTable(client),
      recordDuplicates: createRecordDuplicates({ clickhouse: client, logger })
    },
    duplicateFilters: filters,
    isAlive: (id: string) => membership.isAlive(id)
  }
  const supervisor = new PartitionSupervisor({
    partitions: await retryAtStart(() => findPartitions(nats, partitions), logger),
    chooseOwner: choosePartitionOwner,
    membership,
    logger,
    runPartition: (partition, control) => runEventsPartition({ ...deps, partition, ...control })
  })
  supervisor.start()
  const stopPersons = hasPersons
    ? startSimulatedPersons({ connection: nats, clickhouse: client, membership, logger })
    : async () => {}
  const watermark = new WatermarkKeeper({
    connection: nats, clickhouse: client, bucket: await openOne(INGEST_BUCKET), leads: () => membership.leads(),
    roundMs: WATERMARK_ROUND_MS,
    metrics: { ...metrics.metrics, gaugeFrom: () => {} }, logger
  })
  return async () => {
    await Promise.all([supervisor.stop(), stopPersons(), watermark.stop()])
    await membership.leave()
  }
}

/**
 * A bucket of the client, but for its watching: the ordered consumer of the client makes itself again when it misses
 * something, so here nothing is missed.
 */
async function openWatchedBucket (connection: FakeConnection, name: string): Promise<KV> {
  const bucket = await openBucket(connection.asNats(), name, { replicas: 1 })
  return Object.assign(bucket, {
    watch: async () => {
      const entries = newPushed()
      const forget = connection.watch(`KV_${name}`, ({ subject, data, headers, sequence, storedAt }, delta) => {
        const string = (): string => Buffer.from(data).toString()
        const operation = headers.get('KV-Operation')
        entries.push({
          key: subject.slice(`$KV.${name}.`.length), revision: sequence, created: new Date(storedAt), delta,
          operation: operation === '' ? 'PUT' : operation, string, json: () => JSON.parse(string()) as never
        })
      })
      return Object.assign(entries as AsyncIterable<KvWatchEntry>, { stop: () => { entries.push(null); forget() } })
    }
  })
}

/** Writes into the trace what the process would write into its log. */
export function createTracingLogger (world: World): Logger {
  const write = (level: string) => (fields: { err?: Error } & Record<string, unknown>, text: string): void => {
    world.log(`${level} ${text}${fields.err === undefined ? '' : `: ${fields.err.message}`}`)
  }
  return Object.assign(Object.create(silent) as Logger, {
    info: write('info'), warn: write('warn'), error: write('error'), debug: () => {}
  })
}
