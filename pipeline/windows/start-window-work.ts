/** What runs at closed windows (exports, alerts, reports), the refresh of cohorts, and the delivery of what is sent. */
import { allShardsUrl, type ClickHouse, connectClickHouse, parseClickHouseUrl } from '../../platform/clickhouse/connect-clickhouse.ts'
import { createLetterRoom } from '../../platform/dead-letters/letter-room.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Metrics } from '../../platform/metrics.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import type { RunAnnounced } from '../announced-work.ts'
import type { PipelineConfig } from '../pipeline-config.ts'
import { listAlertTasks } from './alerts/alert-tasks.ts'
import { createReadPicture } from './alerts/tile-pictures.ts'
import { createListCohorts } from './cohort-task.ts'
import { createListExports } from './export/export-tasks.ts'
import { startDeliveries } from './notify/deliver-queue.ts'
import { startQueueingEvents } from './notify/queue-events.ts'
import { createSender } from './notify/send-notification.ts'
import { startWindows } from './run-closed-windows.ts'

/** Alerts that are evaluated at once. */
const MAX_ALERTS = 4

export interface WindowWorkDeps {
  stores: { sql: Sql, shards: ClickHouse, connection: NatsConnection, cluster: string }
  membership: { id: string, leads: () => boolean | null }
  run: RunAnnounced
  metrics: Metrics
  logger: Logger
}

export function startWindowWork (
  { analystUrl, clickhouseUrl, publicUrl, targets, exportFolder: folder }: PipelineConfig,
  { stores, membership, run, metrics, logger }: WindowWorkDeps
): { stop: () => Promise<unknown> } {
  const { sql, shards: clickhouse, connection, cluster } = stores
  const analyst = analystUrl === '' ? null : connectClickHouse({ url: analystUrl })
  // The first of the rows may come late: a day has many, and a filter finds few.
  const patient = connectClickHouse({ url: allShardsUrl(clickhouseUrl, cluster), cluster, requestTimeoutMs: 3_600_000 })
  const { database } = parseClickHouseUrl(clickhouseUrl)
  const windows = startWindows({
    sql, clickhouse, owner: membership.id, runRounds: run, logger,
    kinds: [
      { list: createListExports({ sql, clickhouse: patient, cluster, folder, metrics }), limit: Infinity },
      { list: async (subject) => await listAlertTasks({ sql, analyst, publicUrl }, subject), limit: MAX_ALERTS },
      { list: createListCohorts({ sql, clickhouse, database, logger }), limit: 1 }
    ]
  })
  const [leads, now] = [() => membership.leads(), Date.now]
  const sender = createSender({ ...targets, now, readPicture: createReadPicture(sql) })
  const deliveries = startDeliveries({
    sql, connection, hasRoom: createLetterRoom(connection), send: sender.send, leads, now, run, metrics, logger
  })
  const events = startQueueingEvents({ sql, clickhouse, leads, publicUrl, run, logger })
  return {
    async stop () {
      await Promise.all([windows.stop(), events.stop(), deliveries.stop()])
      await Promise.all([sender.close(), patient.close(), analyst?.close()])
    }
  }
}
