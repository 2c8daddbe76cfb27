import { type Sql } from '../../platform/postgres/connect-postgres.ts'

export interface ListedPersonalKey {
  id: string
  email: string
  label: string
  mask: string
  scopes: string[]
  projectIds: number[] | null
  createdAt: Date
  expiresAt: Date | null
  revokedAt: Date | null
  lastUsedAt: Date | null
}

/** Lists personal keys, newest first, revoked and expired ones included; never the keys themselves. */
export async function listPersonalKeys (sql: Sql): Promise<ListedPersonalKey[]> {
  return await sql<ListedPersonalKey[]>`
    SELECT k.id, u.email, k.label, k.mask_value AS mask, k.scopes, k.project_ids AS "projectIds",
      k.created_at AS "createdAt", k.expires_at AS "expiresAt", k.revoked_at AS "revokedAt",
      k.last_used_at AS "lastUsedAt"
    FROM personal_api_keys k
    JOIN users u ON u.id = k.user_id
    ORDER BY k.created_at DESC, k.id`
}
