import type http from 'node:http'
import { nuid } from '@nats-io/transport-node'
import { allShardsUrl, connectClickHouse, parseClickHouseUrl } from '../platform/clickhouse/connect-clickhouse.ts'
import { type FingerprintKeyReader, openFingerprintKey } from '../platform/fingerprint-key.ts'
import { checkServices, pingClickHouse, type ProcessPhase } from '../platform/health-and-readiness.ts'
import { createLogger, type Logger } from '../platform/logger.ts'
import type { Metrics } from '../platform/metrics.ts'
import { connectNats } from '../platform/nats/connect-nats.ts'
import { ensureStreams, openBucket } from '../platform/nats/prepare-jetstream.ts'
import { retryAtStart } from './stream/retry-at-start.ts'
import { followServerVersions, type ServerVersions } from '../platform/nats/server-versions.ts'
import { connectPostgres } from '../platform/postgres/connect-postgres.ts'
import { refuseNewerDatabase } from '../platform/postgres/refuse-newer-database.ts'
import { onShutdown, runProcess } from '../platform/process-lifecycle.ts'
import { INGEST_BUCKET } from '../schema/wire/ingest-presence.ts'
import { PARTITIONS_BUCKET } from '../schema/wire/streams.ts'
import { listenForWork, type RunAnnounced } from './announced-work.ts'
import { loadPipelineConfig, type PipelineConfig } from './pipeline-config.ts'
import { startRollUp } from './definitions/roll-up-definitions.ts'
import { MissingCounter } from './health/count-missing.ts'
import { describeHealth, startHealthServer } from './health/health-server.ts'
import { watchBackups } from './health/watch-backups.ts'
import { watchClickHouse } from './health/watch-clickhouse.ts'
import { type StreamWatch, watchStreams } from './health/watch-streams.ts'
import { type ViewWatch, watchViews } from './health/watch-views.ts'
import { createInsertLedgerRows } from './accounting/ledger-writer.ts'
import { createPipelineMetrics, type PipelineMetrics } from './pipeline-metrics.ts'
import { choosePartitionOwner, findPartitions, type Partition } from './stream/find-partitions.ts'
import { joinMembers, type Membership } from './stream/membership.ts'
import { openPartitionRecords, type PartitionRecords } from './stream/partition-records.ts'
import { PartitionSupervisor } from './stream/partition-supervisor.ts'
import { startRetention } from './periodic-rounds.ts'
import { startPersons } from './persons/start-persons.ts'
import { createDuplicateFilters } from './events/duplicates/duplicate-filter.ts'
import { createRecordDuplicates } from './events/duplicates/record-duplicates.ts'
import { createClickHouseAgent, createInsertFrames } from './events/insert/insert-frames.ts'
import { insertPastViews } from './events/insert/insert-past-views.ts'
import { createIsInserting, createReadTarget } from './events/insert/insert-target.ts'
import { createProbeTable } from './events/insert/store-batch-range.ts'
import { runEventsPartition } from './events/events-partition.ts'
import { type AccountingStores, startAccounting } from './accounting/start-accounting.ts'
import { startWindowWork } from './windows/start-window-work.ts'

/** Maximum open connections: eight partitions of persons at once, their copies, the roll-up. */
const POSTGRES_CONNECTIONS = 10

/**
 * The life of an event from the stream to the column store, and what goes on beside it:
 *
 * 1. share the partitions among the processes        stream/partition-supervisor.ts, stream/membership.ts
 * 2. take the lease of one                           stream/partition-lease.ts
 * 3. read it in order, without gaps                  events/events-reader.ts, stream/ordered-pulls.ts
 * 4. choose a batch                                  events/batch-range.ts
 * 5. find duplicates of stored events                events/duplicates/
 * 6. record the batch range                          events/partition-progress.ts, stream/partition-records.ts
 * 7. insert its frames, as they are                  events/batch-range.ts, events/insert/
 * 8. search for a refused row, dead-letter it        events/refused-row-search.ts, events/dead-letter-refused-rows.ts
 * 9. record progress, acknowledge                    events/partition-progress.ts
 *
 * Steps 3 to 9 of a partition follow each other in events/partition-session.ts, which events/events-partition.ts runs.
 *
 * Beside it: apply what events change about persons and groups (persons/), roll definitions up (definitions/), account
 * for all of it (accounting/start-accounting.ts), remove what retention no longer keeps (apply-retention.ts), run
 * what is due at closed windows (windows/), report health (health/).
 */
runProcess('pipeline', async () => {
  const config = loadPipelineConfig(process.env)
  const logger = createLogger({ component: 'pipeline', level: config.logLevel })
  const pipelineMetrics = createPipelineMetrics(() => supervisor.states())
  const { metrics } = pipelineMetrics
  const { versions, ...stores } = await connectStores(config, logger)
  const { connection, sql, clickhouse, shards, cluster } = stores
  const fingerprintKey = openFingerprintKey(sql, logger)
  const agent = createClickHouseAgent(config.clickhouseUrl)
  const owner = nuid.next()
  const records = await retryAtStart(() => openPartitionRecords(connection, config.streams), logger)
  const membership = await retryAtStart(
    () => joinMembers(connection, { id: owner, replicas: config.streams.replicas, logger }), logger)
  const views = watchViews({ clickhouse, cluster, metrics, logger })
  const supervisor = await startEvents(config, {
    stores, agent, records, membership, readKey: fingerprintKey.read, metrics: pipelineMetrics, logger,
    onViewFailure: views.onFailure
  })
  const work = listenForWork({ url: config.databaseUrl, logger })
  const { maxGroupTypes } = config
  const persons = startPersons({ ...stores, membership, run: work.run, maxGroupTypes, metrics, logger })
  const rollUp = startRollUp({
    clickhouse: shards, sql, intervalMs: config.rollUpIntervalMs, limits: config.definitions, metrics, logger,
    insertedAt: () => Math.max(...supervisor.states().map((each) => each.insertedAt))
  })
  const monitors = await startMonitors(config, { stores, records, run: work.run, metrics, logger })
  const accounting = startAccounting({
    stores,
    bucket: await retryAtStart(() => openBucket(connection, INGEST_BUCKET, config.streams), logger),
    leads: () => membership.leads(),
    metrics,
    logger
  })
  const retention = startRetention({ ...stores, now: Date.now, metrics, logger })
  const windows = startWindowWork(config, { stores, membership, run: work.run, metrics, logger })

  let phase: ProcessPhase = 'running'
  const checks = {
    clickhouse: async () => await pingClickHouse(clickhouse),
    postgres: async () => await sql`SELECT 1`
  }
  const health = await startHealthServer({
    ...config.http,
    registry: metrics.registry,
    phase: () => phase,
    checks: { nats: async () => await connection.flush(), ...checks },
    parts: async () => [
      ...await checkServices(checks),
      versions.part(),
      ...monitors.parts(),
      ...views.parts(),
      ...accounting.parts(),
      ...describeHealth({
        partitions: supervisor.states(),
        persons: persons.states(),
        copiesError: persons.copiesError(),
        rollUpError: rollUp.lastError(),
        deadLetters: monitors.deadLetters()
      })
    ]
  })
  logger.info({ port: health.port, owner }, 'pipeline is running')

  onShutdown(logger, [
    { name: 'readiness', run: () => { phase = 'shutting down' } },
    {
      name: 'work',
      run: () => Promise.all([supervisor, persons, rollUp, retention, accounting, windows, work]
        .map((each) => each.stop()))
    },
    { name: 'membership', run: () => membership.leave() },
    { name: 'monitors', run: () => Promise.all([monitors.stop(), views.stop()]) },
    { name: 'health', run: () => health.close() },
    { name: 'clickhouse', run: async () => { agent.destroy(); await Promise.all([clickhouse.close(), shards.close()]) } },
    { name: 'postgres', run: async () => { await fingerprintKey.stop(); await sql.end({ timeout: 1 }) } },
    { name: 'nats', run: () => connection.close() }
  ])
})

/** Connects to the stores, and refuses versions that this process must not write to. */
async function connectStores (config: PipelineConfig, logger: Logger): Promise<AccountingStores & {
  versions: ServerVersions, shardsUrl: string
}> {
  const connection = await connectNats({ url: config.natsUrl, name: 'pipeline', logger, waitForServer: true })
  const versions = followServerVersions(connection, logger)
  await versions.refuseOld()
  await retryAtStart(() => ensureStreams(connection, config.streams), logger)
  // Tables are changed where they are; events are written to and looked up in all shards.
  const shardsUrl = allShardsUrl(config.clickhouseUrl, config.clickhouseCluster)
  const sql = connectPostgres({ url: config.databaseUrl, max: POSTGRES_CONNECTIONS, logger })
  await refuseNewerDatabase(sql, logger)
  return {
    connection,
    versions,
    sql,
    clickhouse: connectClickHouse({ url: config.clickhouseUrl, cluster: config.clickhouseCluster }),
    shards: connectClickHouse({ url: shardsUrl, cluster: config.clickhouseCluster }),
    shardsUrl,
    cluster: config.clickhouseCluster
  }
}

interface EventsDeps {
  stores: AccountingStores & { shardsUrl: string }
  agent: http.Agent
  records: PartitionRecords
  membership: Membership
  readKey: FingerprintKeyReader['read']
  onViewFailure: ViewWatch['onFailure']
  metrics: PipelineMetrics
  logger: Logger
}

/** Starts to write the partitions of events that fall to this process. */
async function startEvents (
  config: PipelineConfig, { stores, agent, records, membership, readKey, onViewFailure, metrics, logger }: EventsDeps
): Promise<PartitionSupervisor<Partition>> {
  const { connection, shards, shardsUrl, cluster } = stores
  const filters = createDuplicateFilters({ clickhouse: shards, cluster, fingerprintKey: readKey, metrics, logger })
  const deps = {
    owner: membership.id,
    connection,
    records,
    limits: config.batch,
    logger,
    metrics,
    store: {
      insertFrames: insertPastViews(createInsertFrames({ url: shardsUrl, agent }), {
        clickhouse: shards,
        cluster,
        database: parseClickHouseUrl(config.clickhouseUrl).database,
        onFailure: onViewFailure
      }),
      readTarget: createReadTarget(shards, cluster),
      isInserting: createIsInserting(shards, cluster),
      isDistributed: cluster !== '',
      insertLedgerRows: createInsertLedgerRows(shards),
      probeTable: createProbeTable(shards),
      recordDuplicates: createRecordDuplicates({ clickhouse: shards, logger })
    },
    duplicateFilters: filters,
    isAlive: (id: string) => membership.isAlive(id)
  }
  const supervisor = new PartitionSupervisor({
    partitions: await retryAtStart(() => findPartitions(connection, config.streams.partitions), logger),
    chooseOwner: choosePartitionOwner,
    membership,
    logger,
    runPartition: (partition, control) => {
      metrics.startPartition(control.state.key)
      return runEventsPartition({ ...deps, partition, ...control })
    }
  })
  supervisor.start()
  return supervisor
}

/** Watches what the pipeline depends on: streams, dead letters, disks, parts, backups. */
async function startMonitors (
  config: PipelineConfig,
  { stores, records, run, metrics, logger }:
  Pick<EventsDeps, 'stores' | 'records' | 'logger'> & { run: RunAnnounced, metrics: Metrics }
): Promise<Omit<StreamWatch, 'stop'> & { stop: () => Promise<unknown> }> {
  const { connection, sql, clickhouse, cluster } = stores
  const counter = new MissingCounter({
    connection, records,
    bucket: await retryAtStart(() => openBucket(connection, PARTITIONS_BUCKET, config.streams), logger)
  })
  const streams = watchStreams({ connection, counter, metrics, logger })
  const backups = watchBackups({ sql, run, intervalMs: config.backupIntervalMs, metrics, logger })
  const watch = watchClickHouse({ clickhouse, cluster, metrics, logger })
  return {
    parts: () => [...watch.parts(), ...streams.parts(), ...backups.parts()],
    deadLetters: streams.deadLetters,
    stop: () => Promise.all([streams, watch, backups].map((each) => each.stop()))
  }
}
