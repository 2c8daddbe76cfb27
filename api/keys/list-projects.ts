import { type Sql } from '../../platform/postgres/connect-postgres.ts'

export interface ListedProject {
  id: number
  name: string
  timezone: string
  createdAt: Date
  apiKeys: {
    apiKey: string
    kind: 'project' | 'team'
    /** A rotated key is accepted until then; null for a current one. */
    expiresAt: string | null
  }[]
}

/** Lists all projects with the keys that are still accepted, current ones first. */
export async function listProjects (sql: Sql): Promise<ListedProject[]> {
  return await sql<ListedProject[]>`
    SELECT p.id, p.name, p.timezone, p.created_at AS "createdAt",
      COALESCE(json_agg(json_build_object('apiKey', k.api_key, 'kind', k.kind, 'expiresAt', k.expires_at)
        ORDER BY k.expires_at NULLS FIRST, k.created_at) FILTER (WHERE k.api_key IS NOT NULL), '[]') AS "apiKeys"
    FROM projects p
    LEFT JOIN project_api_keys k ON k.project_id = p.id AND (k.expires_at IS NULL OR k.expires_at > now())
    GROUP BY p.id
    ORDER BY p.id`
}
