import { nuid } from '@nats-io/transport-node'
import { allShardsUrl, connectClickHouse, createClickHouseAgent } from '../platform/clickhouse/connect-clickhouse.ts'
import { connectNats } from '../platform/nats/connect-nats.ts'
import { connectPostgres } from '../platform/postgres/connect-postgres.ts'
import { checkService, pingClickHouse } from '../platform/health/check-service.ts'
import { ensureStreams } from '../platform/nats/ensure-streams.ts'
import { createLogger } from '../platform/logger.ts'
import { onShutdown } from '../platform/on-shutdown.ts'
import { retryAtStart } from '../platform/nats/retry-at-start.ts'
import { runProcess } from '../platform/run-process.ts'
import { loadPipelineConfig } from './config.ts'
import { startQueryUsage } from './definitions/query-usage/start-query-usage.ts'
import { startRollUp } from './definitions/roll-up/start-roll-up.ts'
import { MissingCounter } from './health/count-missing.ts'
import { describeHealth } from './health/describe-health.ts'
import { createDuplicateFilters } from './duplicates/open-duplicate-filters.ts'
import { startHealthServer } from './health/health-server.ts'
import { findLanes } from './lanes/find-lanes.ts'
import { LaneManager } from './lanes/lane-manager.ts'
import { laneKey } from './lanes/lane-record.ts'
import { openLaneRecords, openRecordBucket } from './lanes/lane-records.ts'
import { joinMembers } from './lanes/membership.ts'
import { watchDisconnects } from './lanes/watch-disconnects.ts'
import { createPipelineMetrics } from './metrics.ts'
import { startPeople } from './people/start-people.ts'
import { startRetention } from './start-retention.ts'
import { watchDeadLetters } from './health/watch-dead-letters.ts'
import { watchDisks } from './health/watch-disks.ts'
import { watchParts } from './health/watch-parts.ts'
import { watchStreams } from './health/watch-streams.ts'
import { createInsertFrames } from './writer/insert/insert-frames.ts'
import { createProbeTable } from './writer/insert/probe-table.ts'
import { runLane } from './writer/run-lane.ts'

/** Eight partitions of people at once, their copies, the roll-up. */
const POSTGRES_CONNECTIONS = 10

/**
 * The stages of an event from the stream to the column store, and what goes on beside it:
 *
 * 1. share the lanes among the processes      lanes/lane-manager.ts
 * 2. read a lane in order, without gaps       writer/read/, stream-reader/
 * 3. choose a batch                           writer/batch/
 * 4. leave out what is stored already         duplicates/
 * 5. record the cut                           lanes/claim-lane.ts
 * 6. insert its frames, as they are           writer/insert/
 * 7. search what is refused, set it aside     writer/lane-session.ts, writer/settle/set-aside.ts
 * 8. settle and acknowledge                   writer/settle/lane-progress.ts
 *
 * Steps 2 to 8 of a lane follow each other in writer/lane-session.ts.
 *
 * Beside it: apply what events change about persons and groups (people/), roll definitions up and count how often they
 * are asked for (definitions/), remove what retention lets go (start-retention.ts), answer the operator (health/).
 */
runProcess('pipeline', async () => {
  const config = loadPipelineConfig(process.env)
  const logger = createLogger({ component: 'pipeline', level: config.logLevel })
  const pipelineMetrics = createPipelineMetrics(() => manager.states())
  const { metrics } = pipelineMetrics
  const connection = await connectNats({ url: config.natsUrl, name: 'pipeline', logger, waitForServer: true })
  await retryAtStart(() => ensureStreams(connection, config.streams), logger)
  const agent = createClickHouseAgent(config.clickhouseUrl)
  const clickhouse = connectClickHouse({ url: config.clickhouseUrl })
  // Tables are changed where they are; events are written to and looked up in all shards.
  const shardsUrl = allShardsUrl(config.clickhouseUrl, config.clickhouseCluster)
  const shards = connectClickHouse({ url: shardsUrl })
  const sql = connectPostgres({ url: config.databaseUrl, max: POSTGRES_CONNECTIONS, logger })

  const owner = nuid.next()
  const lanes = await retryAtStart(() => findLanes(connection, config.streams.lanes), logger)
  const records = await retryAtStart(() => openLaneRecords(connection, config.streams), logger)
  const filters = createDuplicateFilters({ clickhouse: shards, metrics: pipelineMetrics })
  const membership = await retryAtStart(
    () => joinMembers(connection, { id: owner, replicas: config.streams.replicas, logger }), logger)
  const laneDeps = {
    owner,
    connection,
    records,
    limits: config.batch,
    logger,
    metrics: pipelineMetrics,
    insertFrames: createInsertFrames({ url: shardsUrl, agent }),
    probeTable: createProbeTable(shards),
    openDuplicateFilter: filters.open,
    onDisconnect: watchDisconnects(connection),
    isAlive: (id: string) => membership.isAlive(id)
  }
  const manager = new LaneManager(lanes, {
    membership,
    logger,
    runLane: (lane, control) => {
      pipelineMetrics.startLane(laneKey(lane))
      return runLane({ ...laneDeps, lane, ...control }).finally(() => filters.close(lane))
    }
  })
  manager.start()
  const people = startPeople({
    connection, sql, clickhouse, cluster: config.clickhouseCluster, membership, metrics, logger,
    maxGroupTypes: config.maxGroupTypes
  })
  const rollUp = startRollUp({ clickhouse: shards, sql, intervalMs: config.rollUpIntervalMs, metrics, logger })
  const deadLetters = watchDeadLetters({ connection, metrics, logger })
  const counter = new MissingCounter({
    connection, records, bucket: await retryAtStart(() => openRecordBucket(connection, config.streams), logger)
  })
  const streams = watchStreams({ connection, counter, metrics, logger })
  const disks = watchDisks({ clickhouse, cluster: config.clickhouseCluster, metrics })
  const parts = watchParts({ clickhouse, cluster: config.clickhouseCluster, metrics, logger })
  const queryUsage = startQueryUsage({ clickhouse, sql, cluster: config.clickhouseCluster, metrics, logger })
  const retention = startRetention({
    sql, clickhouse, connection, cluster: config.clickhouseCluster, now: Date.now, metrics, logger
  })

  let ready = true
  const health = await startHealthServer({
    ...config.http,
    registry: metrics.registry,
    isReady: () => ready,
    parts: async () => [
      ...await Promise.all([
        checkService('clickhouse', async () => await pingClickHouse(clickhouse)),
        checkService('postgres', async () => await sql`SELECT 1`)
      ]),
      parts.part(),
      ...streams.parts(),
      ...disks.parts(),
      ...describeHealth({
        lanes: manager.states(),
        people: people.states(),
        copiesError: people.copiesError(),
        rollUpError: rollUp.lastError(),
        deadLetters: deadLetters.fill()
      })
    ]
  })
  logger.info({ port: health.port, owner }, 'pipeline is running')

  onShutdown(logger, [
    { name: 'readiness', run: () => { ready = false } },
    {
      name: 'work',
      run: () => Promise.all([manager.stop(), people.stop(), rollUp.stop(), queryUsage.stop(), retention.stop()])
    },
    { name: 'membership', run: () => membership.leave() },
    { name: 'dead letters', run: () => { deadLetters.stop(); streams.stop(); disks.stop(); parts.stop() } },
    { name: 'health', run: () => health.close() },
    { name: 'clickhouse', run: async () => { agent.destroy(); await Promise.all([clickhouse.close(), shards.close()]) } },
    { name: 'postgres', run: () => sql.end({ timeout: 1 }) },
    { name: 'nats', run: () => connection.close() }
  ])
})
