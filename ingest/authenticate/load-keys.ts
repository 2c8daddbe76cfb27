import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { type Project } from '../capture/request-context.ts'

/** A copy of all keys that may send events. */
export interface KeyTable {
  projects: Map<number, Project>
  projectKeys: Map<string, { project: Project, expiresAt: number }>
  /** By stored value: `sha256$` and the hash in hex. */
  personalKeys: Map<string, { scopes: readonly string[], projectIds: readonly number[] | null, expiresAt: number }>
}

export type LoadKeys = () => Promise<KeyTable>

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
