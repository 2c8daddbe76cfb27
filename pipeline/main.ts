import { nuid } from '@nats-io/transport-node'
import { connectClickHouse, createClickHouseAgent } from '../platform/connect-clickhouse.ts'
import { connectNats } from '../platform/connect-nats.ts'
import { ensureStreams } from '../platform/ensure-streams.ts'
import { createLogger } from '../platform/logger.ts'
import { onShutdown } from '../platform/on-shutdown.ts'
import { runProcess } from '../platform/run-process.ts'
import { EVENT_CLASSES } from '../schema/streams.ts'
import { loadPipelineConfig } from './config.ts'
import { createDuplicateFilters } from './duplicates/open-duplicate-filters.ts'
import { startHealthServer, type HealthPart } from './health-server.ts'
import { LaneManager } from './lanes/lane-manager.ts'
import { type Lane } from './lanes/lane-record.ts'
import { openLaneRecords } from './lanes/lane-records.ts'
import { joinMembers } from './lanes/membership.ts'
import { createPipelineMetrics } from './metrics.ts'
import { createInsertFrames } from './writer/insert-frames.ts'
import { createProbeTable } from './writer/probe-table.ts'
import { runLane } from './writer/run-lane.ts'

/**
 * The stages of an event from the stream to the column store, and what goes on beside it:
 *
 * 1. share the lanes among the processes      lanes/
 * 2. read a lane in order, without gaps       writer/open-lane-reader.ts
 * 3. choose a batch                           writer/choose-batch.ts
 * 4. leave out what is stored already         duplicates/
 * 5. record the cut                           lanes/claim-lane.ts
 * 6. insert its frames, as they are           writer/insert-frames.ts
 * 7. search and set aside what is refused     writer/lane-session.ts, writer/set-aside.ts
 * 8. settle and acknowledge                   writer/lane-progress.ts
 */
runProcess('pipeline', async () => {
  const config = loadPipelineConfig(process.env)
  const logger = createLogger({ component: 'pipeline', level: config.logLevel })
  const metrics = createPipelineMetrics(() => manager.states())
  const connection = await connectNats({ url: config.natsUrl, name: 'pipeline', logger, waitForServer: true })
  await ensureStreams(connection, config.streams)

  const owner = nuid.next()
  const records = await openLaneRecords(connection, config.streams)
  const agent = createClickHouseAgent()
  const insertFrames = createInsertFrames({ url: config.clickhouseUrl, agent })
  const clickhouse = connectClickHouse({ url: config.clickhouseUrl })
  const probeTable = createProbeTable(clickhouse)
  const filters = createDuplicateFilters({ clickhouse, metrics })
  const membership = await joinMembers(connection, { id: owner, replicas: config.streams.replicas, logger })
  const manager = new LaneManager(listLanes(config.streams.lanes), {
    membership,
    logger,
    runLane: (lane, control) => runLane({
      lane, ...control, owner, connection, records, insertFrames, probeTable, limits: config.batch, metrics, logger,
      isAlive: (id) => membership.isAlive(id),
      openDuplicateFilter: filters.open
    }).finally(() => filters.close(lane))
  })
  manager.start()

  let ready = true
  const health = await startHealthServer({
    ...config.http,
    registry: metrics.metrics.registry,
    isReady: () => ready && !connection.isClosed(),
    parts: () => manager.states().map(describeLane)
  })
  logger.info({ port: health.port, owner }, 'pipeline runs')

  onShutdown(logger, [
    { name: 'readiness', run: () => { ready = false } },
    { name: 'lanes', run: () => manager.stop() },
    { name: 'membership', run: () => membership.leave() },
    { name: 'health', run: () => health.close() },
    { name: 'clickhouse', run: () => { agent.destroy(); return clickhouse.close() } },
    { name: 'nats', run: () => connection.close() }
  ])
})

function listLanes (count: number): Lane[] {
  return EVENT_CLASSES.flatMap((eventClass) => Array.from({ length: count }, (_, number) => ({ eventClass, number })))
}

function describeLane (state: ReturnType<LaneManager['states']>[number]): HealthPart {
  const { key, phase, pendingMessages, lastError } = state
  return {
    name: `lane ${key}`,
    healthy: phase === 'running' || phase === 'starting' || phase === 'elsewhere',
    phase,
    pendingMessages,
    lagMs: state.lagMs(Date.now()),
    lastError: phase === 'running' ? null : lastError
  }
}
