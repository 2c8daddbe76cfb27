import { connectPostgres, type Sql } from '../postgres/connect-postgres.ts'
import { listenPostgres } from '../postgres/listen-postgres.ts'
import { type Logger } from '../logger.ts'
import { type Metrics } from '../metrics.ts'
import { createKeyDirectory, type KeyDirectory } from './key-directory.ts'

/** A project that events can be stored for. */
export interface Project {
  id: number
  /** The addresses of its clients are not stored. */
  anonymizeIps: boolean
}

/** A copy of all keys that may send events. */
export interface KeyTable {
  projects: Map<number, Project>
  projectKeys: Map<string, { project: Project, expiresAt: number }>
  /** By stored value: `sha256$` and the hash in hex. */
  personalKeys: Map<string, { scopes: readonly string[], projectIds: readonly number[] | null, expiresAt: number }>
}

export type LoadKeys = () => Promise<KeyTable>

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

/** Reads the keys from Postgres. Times are epoch milliseconds, `Infinity` for keys without an end. */
export function createLoadKeys (sql: Sql): LoadKeys {
  return async function loadKeys () {
    const [projects, projectKeys, personalKeys] = await Promise.all([
      sql<{ id: number, anonymize_ips: boolean }[]>`SELECT id, anonymize_ips FROM projects`,
      sql<{ api_key: string, project_id: number, expires_at: Date | null }[]>`
        SELECT api_key, project_id, expires_at FROM project_api_keys`,
      sql<{ secure_value: string, scopes: string[], project_ids: number[] | null, expires_at: Date | null }[]>`
        SELECT secure_value, scopes, project_ids, expires_at FROM personal_api_keys WHERE revoked_at IS NULL`
    ])
    const table: KeyTable = { projects: new Map(), projectKeys: new Map(), personalKeys: new Map() }
    for (const row of projects) table.projects.set(row.id, { id: row.id, anonymizeIps: row.anonymize_ips })
    for (const row of projectKeys) {
      const project = table.projects.get(row.project_id)
      // Created between the queries: the notification of its creation brings the next reading.
      if (project !== undefined) table.projectKeys.set(row.api_key, { project, expiresAt: toTime(row.expires_at) })
    }
    for (const row of personalKeys) {
      table.personalKeys.set(row.secure_value, {
        scopes: row.scopes, projectIds: row.project_ids, expiresAt: toTime(row.expires_at)
      })
    }
    return table
  }
}

function toTime (date: Date | null): number {
  return date === null ? Infinity : date.getTime()
}
