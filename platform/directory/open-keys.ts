import type { Logger } from '../logger.ts'
import type { Metrics } from '../metrics.ts'
import type { Sql } from '../postgres/connect-postgres.ts'
import { listenPostgres } from '../postgres/listen-postgres.ts'
import { createKeyDirectory, type KeyDirectory } from './key-directory.ts'
import { createReadKeys, type Project, type ReadKeysOptions } from './read-keys.ts'

export interface OpenKeysOptions<P extends Project> extends ReadKeysOptions<P> {
  sql: Sql
  /** For a separate connection, which listens for notifications of changes. */
  databaseUrl: string
  maxWaitMs: number
  /** Milliseconds between readings without a notification: bounds the effect of a missed one. Default: 15,000. */
  refreshMs?: number
  now: () => number
  logger: Logger
  metrics: Metrics
}

/** Opens the directory of keys and keeps it current. Postgres may be unavailable. */
export function openKeys<P extends Project> (
  options: OpenKeysOptions<P>
): { keys: KeyDirectory<P>, close: () => Promise<void> } {
  const { sql, databaseUrl: url, refreshMs = 15_000, logger, metrics } = options
  const keys = createKeyDirectory({ ...options, readKeys: createReadKeys(sql, options) })
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
