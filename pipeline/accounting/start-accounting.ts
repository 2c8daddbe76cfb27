/** What the pipeline accounts for, beside the books that each partition keeps with its progress. */
import type { KV } from '@nats-io/kv'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { HealthPart } from '../../platform/health-and-readiness.ts'
import { waitForReplicas } from '../../platform/clickhouse/wait-for-replicas.ts'
import { runAtIntervals } from '../../platform/intervals.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Metrics } from '../../platform/metrics.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { createDriftCheck } from './check-drift.ts'
import { REPLICATED_WRITE_MS, WatermarkKeeper } from './keep-watermark.ts'
import { createUsageCheck } from './measure-usage.ts'
import { startIngestionWarnings } from './store-warnings.ts'

/** Interval of the checks, in milliseconds: a quota of the month is enforced with what was measured last. */
const CHECK_INTERVAL_MS = 15_000

/** The stores of a pipeline process. */
export interface AccountingStores {
  connection: NatsConnection
  sql: Sql
  /** One node. */
  clickhouse: ClickHouse
  /** For the tables of all shards. */
  shards: ClickHouse
  /** Name of the ClickHouse cluster; empty: one node. */
  cluster: string
}

export interface AccountingDeps {
  stores: AccountingStores
  /** The bucket of ingest. */
  bucket: KV
  /** Whether this process is the one of all that accounts; null: not known, as without NATS. */
  leads: () => boolean | null
  metrics: Metrics
  logger: Logger
}

/**
 * Accounts until stopped, in three loops that must not wait for each other:
 *
 * - the watermark, whose lag has a target (keep-watermark.ts);
 * - ingestion warnings, a consumer of their stream in each process (store-warnings.ts);
 * - the checks, every 15 seconds: drift between the events table and the books (check-drift.ts), and how much of
 *   their quotas projects have used (measure-usage.ts).
 */
export function startAccounting (
  { stores, bucket, leads, metrics, logger }: AccountingDeps
): { parts: () => HealthPart[], stop: () => Promise<void> } {
  const { connection, sql, clickhouse, shards, cluster } = stores
  // Its own rows, too: when a replica dies, the other one says no less than the row before.
  const watched = { clickhouse: shards, cluster, tables: ['events', 'watermark_reached'] }
  const watermark = new WatermarkKeeper({
    connection, clickhouse: shards, bucket, leads, metrics, logger,
    ...cluster === '' ? {} : { writeMs: REPLICATED_WRITE_MS, waitForReplicas: async () => await waitForReplicas(watched) }
  })
  const warnings = startIngestionWarnings({ connection, clickhouse: shards, logger })
  const isChecker = (): boolean => leads() === true
  const now = Date.now
  const checks = [
    {
      check: createDriftCheck({ connection, clickhouse, cluster, metrics, logger, isChecker, now }),
      failure: 'ledger check failed and will be repeated'
    },
    {
      check: createUsageCheck({ sql, clickhouse, cluster, metrics, isChecker, now }),
      failure: 'project usage could not be measured; monthly quotas use the last measurement'
    }
  ]
  const loop = runAtIntervals({
    everyMs: CHECK_INTERVAL_MS,
    run: async (signal) => await Promise.all(checks.map(async ({ check, failure }) => {
      await check().catch((err: unknown) => { if (!signal.aborted) logger.warn({ err }, failure) })
    }))
  })
  return {
    parts: () => watermark.parts(),
    stop: async () => { await Promise.all([watermark, warnings, loop].map(async (each) => await each.stop())) }
  }
}
