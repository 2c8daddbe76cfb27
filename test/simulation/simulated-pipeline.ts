/** A process of the pipeline that writes events, put together as `pipeline/main.ts` does it, on simulated stores. */
import type { KV, KvWatchEntry } from '@nats-io/kv'
import { headers } from '@nats-io/transport-node'
import { createLogger, type Logger } from '../../platform/logger.ts'
import { createDuplicateFilters } from '../../pipeline/events/duplicates/duplicate-filter.ts'
import { createRecordDuplicates } from '../../pipeline/events/duplicates/record-duplicates.ts'
import { createProbeTable } from '../../pipeline/events/insert/store-batch-range.ts'
import { runEventsPartition } from '../../pipeline/events/events-partition.ts'
import { createInsertLedgerRows } from '../../pipeline/accounting/ledger-writer.ts'
import { createPipelineMetrics } from '../../pipeline/pipeline-metrics.ts'
import { choosePartitionOwner, findPartitions } from '../../pipeline/stream/find-partitions.ts'
import { Membership } from '../../pipeline/stream/membership.ts'
import { watchDisconnects } from '../../pipeline/stream/ordered-pulls.ts'
import { openPartitionRecords } from '../../pipeline/stream/partition-records.ts'
import { PartitionSupervisor } from '../../pipeline/stream/partition-supervisor.ts'
import { TEST_KEY } from '../../pipeline/testing/publish-events.ts'
import { retryAtStart } from '../../platform/nats/prepare-jetstream.ts'
import { MEMBERS_BUCKET } from '../../schema/wire/streams.ts'
import type { FakeClickHouse } from './fake-clickhouse.ts'
import type { FakeConnection } from './fake-connection.ts'
import type { StoredMessage } from './fake-stream.ts'
import type { VirtualProcess, World } from './virtual-time.ts'

const LIMITS = { maxRows: 12, maxBytes: 1_000_000, maxAgeMs: 100 }

/** Counters that no simulated process reads; all share them, as making them takes longer than a world. */
const metrics = createPipelineMetrics(() => [])
const silent = createLogger({ component: 'simulation', level: 'silent' })

export interface SimulatedPipeline {
  /** As SIGTERM does. */
  stop: () => Promise<void>
}

export interface SimulatedPipelineDeps {
  owner: VirtualProcess
  connection: FakeConnection
  clickhouse: FakeClickHouse
  partitions: number
  /** Calls back with every heartbeat that is stored. */
  watchMembers: (see: (message: StoredMessage) => void) => void
}

export async function startSimulatedPipeline (
  world: World, { owner, connection, clickhouse, partitions, watchMembers }: SimulatedPipelineDeps
): Promise<SimulatedPipeline> {
  const logger = createTracingLogger(world)
  const nats = connection.asNats()
  const client = clickhouse.clientOf(owner)
  const records = await retryAtStart(() => openPartitionRecords(nats, { replicas: 1 }), logger)
  const membership = new Membership(owner.name, createMembersBucket(connection, watchMembers), logger)
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
      insertLedgerRows: createInsertLedgerRows(client),
      probeTable: createProbeTable(client),
      recordDuplicates: createRecordDuplicates({ clickhouse: client, logger })
    },
    openDuplicateFilter: filters.open,
    onDisconnect: watchDisconnects(nats),
    fates: { stored: () => {}, deadLettered: () => {} },
    isAlive: (id: string) => membership.isAlive(id)
  }
  const supervisor = new PartitionSupervisor({
    partitions: await retryAtStart(() => findPartitions(nats, partitions), logger),
    chooseOwner: choosePartitionOwner,
    membership,
    logger,
    runPartition: (partition, control) => runEventsPartition({ ...deps, partition, ...control })
      .finally(() => filters.close(partition))
  })
  supervisor.start()
  return {
    async stop () {
      await supervisor.stop()
      await membership.leave()
    }
  }
}

/** What the membership does with its bucket. An ordered consumer, which the client uses to watch, loses nothing. */
function createMembersBucket (
  connection: FakeConnection, watchMembers: SimulatedPipelineDeps['watchMembers']
): KV {
  const put = async (key: string, value: string, operation?: string): Promise<number> => {
    const sent = headers()
    if (operation !== undefined) sent.set('KV-Operation', operation)
    const answer = await connection.request(`$KV.${MEMBERS_BUCKET}.${key}`, value, { timeout: 2500, headers: sent })
    return answer.json<{ seq: number }>().seq
  }
  return {
    put,
    purge: async (key: string) => { await put(key, '', 'PURGE') },
    watch: async () => {
      const entries: KvWatchEntry[] = []
      let wake = (): void => {}
      watchMembers(({ subject, data, headers: sent, sequence }) => {
        entries.push({
          key: subject.slice(`$KV.${MEMBERS_BUCKET}.`.length), revision: sequence,
          operation: sent.get('KV-Operation') === '' ? 'PUT' : 'PURGE',
          json: () => JSON.parse(Buffer.from(data).toString()) as never
        } as unknown as KvWatchEntry)
        wake()
      })
      return Object.assign((async function * () {
        for (;;) {
          const entry = entries.shift()
          if (entry === undefined) await new Promise<void>((resolve) => { wake = resolve })
          else yield entry
        }
      })(), { stop: () => {} })
    }
  } as unknown as KV
}

/** Writes into the trace what the process would write into its log. */
function createTracingLogger (world: World): Logger {
  const write = (level: string) => (fields: { err?: Error } & Record<string, unknown>, text: string): void => {
    world.log(`${level} ${text}${fields.err === undefined ? '' : `: ${fields.err.message}`}`)
  }
  return Object.assign(Object.create(silent) as Logger, {
    info: write('info'), warn: write('warn'), error: write('error'), debug: () => {}
  })
}
