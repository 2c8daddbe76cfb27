import { type ClickHouse } from '../platform/clickhouse/connect-clickhouse.ts'
import { type Sql } from '../platform/postgres/connect-postgres.ts'
import { type Logger } from '../platform/logger.ts'
import { type Metrics } from '../platform/metrics.ts'
import { type FlagDefinitions } from './decide/load/flag-definitions.ts'
import { type NatsOnDemand } from './dead-letters/nats-on-demand.ts'
import { type PersonalKeyDirectory } from './keys/personal-key-directory.ts'
import { type ProjectDirectory } from './keys/project-directory.ts'

/** Everything the API works with, made once in `main.ts` (or a test) and handed down. */
export interface ApiDeps {
  logger: Logger
  sql: Sql
  clickhouse: ClickHouse
  /** Name of the ClickHouse cluster, for statements that change tables; absent or empty: one node. */
  cluster?: string
  /** For dead letters only. */
  nats: NatsOnDemand
  personalKeys: PersonalKeyDirectory
  projects: ProjectDirectory
  metrics: Metrics
  /** Keys and flags of all projects, in memory. */
  definitions: FlagDefinitions
  /** Base of absolute links; empty takes the address of each request. */
  publicUrl: string
  /** Requests per minute and personal key on management; 0 is no limit. */
  managementRateLimit: number
  /** Epoch milliseconds. */
  now: () => number
  isShuttingDown: () => boolean
}
