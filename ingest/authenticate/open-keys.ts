import { connectPostgres } from '../../platform/postgres/connect-postgres.ts'
import { listenPostgres } from '../../platform/postgres/listen-postgres.ts'
import { type Logger } from '../../platform/logger.ts'
import { type Metrics } from '../../platform/metrics.ts'
import { createKeyDirectory, type KeyDirectory } from './key-directory.ts'
import { createLoadKeys } from './load-keys.ts'

/** The keys, kept current, and how to end that. */
export interface OpenKeys {
  keys: KeyDirectory
  close (): Promise<void>
}

/** Opens the directory of keys on Postgres, which tells when one changed. Postgres may be unavailable. */
export function openKeys (databaseUrl: string, { logger, metrics }: { logger: Logger, metrics: Metrics }): OpenKeys {
  const sql = connectPostgres({ url: databaseUrl, max: 2, logger })
  const keys = createKeyDirectory({ loadKeys: createLoadKeys(sql), logger, now: Date.now })
  const listener = listenPostgres({
    url: databaseUrl,
    channel: 'millrace_keys',
    onChange: () => { keys.refresh().catch((err: unknown) => logger.warn({ err }, 'keys could not be read')) },
    logger
  })
  metrics.countersFrom('key_lookups_total', 'Lookups of API keys: hits in memory, and misses that read Postgres.', ['outcome'],
    () => [[{ outcome: 'hit' }, keys.state.hits], [{ outcome: 'miss' }, keys.state.misses]])
  return {
    keys,
    async close () {
      await listener.stop()
      await sql.end({ timeout: 1 })
    }
  }
}
