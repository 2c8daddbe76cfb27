import type { Logger } from '../logger.ts'
import type { Metrics } from '../metrics.ts'
import type { Sql } from '../postgres/connect-postgres.ts'
import { listenPostgres } from '../postgres/listen-postgres.ts'
import { createKeyDirectory, type KeyDirectory } from './key-directory.ts'
import { createReadKeys } from './read-keys.ts'

export interface OpenKeysOptions {
  sql: Sql
  /** For a separate connection, which listens for notifications of changes. */
  databaseUrl: string
  /** Also read the owners of personal keys, for management. The login of ingest has no right to. */
  withOwners: boolean
  /** Also read the active event schemas, rules and quotas, for ingest. Default: false. */
  withSchemas?: boolean
  maxWaitMs: number
  /** Milliseconds between readings without a notification: bounds the effect of a missed one. Default: 15,000. */
  refreshMs?: number
  now: () => number
  logger: Logger
  metrics: Metrics
}

/** Opens the directory of keys and keeps it current. Postgres may be unavailable. */
export function openKeys (options: OpenKeysOptions): { keys: KeyDirectory, close: () => Promise<void> } {
  const { sql, databaseUrl: url, withOwners, withSchemas = false, refreshMs = 15_000, logger, metrics } = options
  const readKeys = createReadKeys(sql, { withOwners, ...withSchemas && { logger } })
  const keys = createKeyDirectory({ ...options, readKeys })
  const refresh = (): void => { void keys.refresh() }
  const listener = listenPostgres({ url, channel: 'millrace_keys', onChange: refresh, logger })
  const timer = setInterval(refresh, refreshMs).unref()
  metrics.countersFrom('key_lookups_total', 'Lookups of API keys: hits in memory, misses in Postgres.', ['outcome'],
    () => [[{ outcome: 'hit' }, keys.state.hits], [{ outcome: 'miss' }, keys.state.misses]])
  return {
    keys,
    async close () {
      clearInterval(timer)
      await listener.stop()
    }
  }
}
